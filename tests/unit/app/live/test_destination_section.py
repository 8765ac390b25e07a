"""The files and sizes of one table, as its page shows them."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.common import home
from app.live import destination_section
from engine.base import clock
from engine.base.errors import SpecError
from engine.destination.capabilities import Sizes
from engine.destination.delta.log.log_files import commit_name, log_of, newest_version
from engine.explore.destination_sizes import TableSizes
from engine.store.local_folder import LocalFolder
from tests.support.patience import PATIENCE_S
from tests.support.simulation import SPEC

SIZES = Sizes(12, 400_000_000, 1500, 3, 2_000_000, 7, 9_000_000, on_read=True)


def page(root: str, table: str) -> None:
    """The section as a page."""
    from pathlib import Path

    from app.live import destination_section
    from engine.pipeline.directory import Directory

    destination_section.of_table(Directory(Path(root)), table)


@dataclass(frozen=True)
class Log:
    """What the page asks of a table's maintenance."""

    folder: LocalFolder

    def newest_versions(self) -> dict[str, int]:
        """That of one Delta log."""
        return {self.folder.url: newest_version(self.folder)}


def shown(monkeypatch: pytest.MonkeyPatch, root: Path, table: str, spec: str = SPEC) -> AppTest:
    """The page of a pipeline that has the table d.t."""

    def conditions(_spec: Any, _where: Any, tables: tuple[str, ...]) -> list[TableSizes]:
        if tables != ("d.t",):
            raise SpecError("The pipeline has no such table.")
        log: Any = Log(LocalFolder(root))
        return [TableSizes("d.t", SIZES, (), maintenance=log, versions=log.newest_versions())]

    (root / "pipeline.toml").write_text(spec.format(name="shop"))
    monkeypatch.setattr(home, "ask", lambda *_: [])
    monkeypatch.setattr(destination_section, "conditions", conditions)
    run = AppTest.from_function(page, args=(str(root), table)).run(timeout=30)
    assert not run.exception
    return run


def test_a_table_has_its_sizes_with_the_time_of_their_reading(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They stay until a Delta log has a newer version; then they are read again."""
    run = shown(monkeypatch, tmp_path, "d.t")
    assert run.dataframe[0].value["Mirror"].tolist() == ["400 MB"]
    assert run.caption[0].value.startswith("read ")
    assert run.caption[0].value.endswith("; the Delta logs have no newer version")
    again = TableSizes("d.t", replace(SIZES, mirror_bytes=500_000_000), ())
    monkeypatch.setattr(destination_section, "conditions", lambda *_: [again])
    assert run.run(timeout=30).dataframe[0].value["Mirror"].tolist() == ["400 MB"], "they are those of now"
    log_of(LocalFolder(tmp_path)).write(commit_name(0), b"")
    until = clock.monotonic_s() + PATIENCE_S
    while run.run(timeout=30).dataframe[0].value["Mirror"].tolist() != ["500 MB"]:
        assert clock.monotonic_s() < until


def test_a_table_that_the_ledger_does_not_have_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its copy has not begun, or it was removed."""
    run = shown(monkeypatch, tmp_path, "d.gone")
    assert not run.error
    assert run.caption[0].value.startswith("The pipeline writes no files for this table")


def test_a_destination_without_mirrors_is_no_empty_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The section says what is published instead."""
    spec = SPEC.replace('"delta"', '"parquet"')
    run = shown(monkeypatch, tmp_path, "d.t", spec)
    assert not run.dataframe
    assert "does not read the first destination" in run.caption[0].value

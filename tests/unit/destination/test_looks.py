"""A look at a table that has not changed opens no log, until there can be something to do."""

from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from engine.destination.delta.maintenance import steps
from engine.spec.sink_settings import MirrorMode
from tests.support.delta import path_of
from tests.unit.destination.delta.maintenance.test_steps import clock_after
from tests.unit.destination.lake import Lake


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the folders whose logs are read from now on."""
    found = list[str]()

    def spied(folder: str, *args: object, **options: object) -> DeltaTable:
        found.append(Path(folder).name)
        return DeltaTable(folder, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(
        "engine.destination.delta.log.table_opening.DeltaTable",
        type("Spied", (), {"__new__": lambda _, *a, **o: spied(*a, **o)}),
    )
    return found


@pytest.fixture
def lake(tmp_path: Path, mode: MirrorMode) -> Lake:
    """Two changes in one hour."""
    lake = Lake(tmp_path, mode)
    lake.copy({1: 1})
    lake.change([(1, 2)])
    lake.change([(1, 3)])
    return lake


def test_a_change_log_is_opened_when_a_period_closes(lake: Lake, loads: list[str]) -> None:
    """The hour, the day and the month of its last change; and after a commit."""
    assert lake.maintenance.compact(lake.now) is None, "the hour is not over"
    loads.clear()
    assert lake.maintenance.compact(lake.now + timedelta(minutes=20)) is None
    assert loads == []
    assert lake.maintenance.compact(lake.now + timedelta(hours=1)) is not None
    for after, opens in ((1, True), (2, False), (25, True), (30, False), (24 * 40, True), (24 * 400, False)):
        loads.clear()
        assert lake.maintenance.compact(lake.now + timedelta(hours=after)) is None
        assert bool(loads) == opens, after
    lake.change([(1, 4)])
    loads.clear()
    assert lake.maintenance.compact(lake.now + timedelta(hours=1)) is not None, "there is another file of the hour"
    DeltaTable(lake.pair.changes.folder.url).delete("_tm_seq = 1")
    loads.clear()
    lake.maintenance.compact(lake.now + timedelta(hours=1))
    assert loads, "another tool has committed"


def test_changes_expire_at_their_time(lake: Lake, loads: list[str]) -> None:
    """The change log is opened when the oldest change may expire, not before."""
    for before in (-2, -1):
        assert lake.maintenance.expire(lake.now + timedelta(hours=before)) is None
        if before == -1:
            assert "t__changes" not in loads
        loads.clear()
    assert lake.maintenance.expire(lake.now + timedelta(hours=1)) is not None


def test_a_vacuum_looks_again_when_a_retention_is_over(
    lake: Lake, loads: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when a folder has changed; at once if the ledger needs a file that the table does not name."""
    monkeypatch.setattr(steps, "are_old_enough", lambda _: True)
    week = timedelta(days=7)
    (stray := path_of(lake.pair.mirror.folder) / "merge-0-stray.parquet").write_bytes(b"x")
    put = clock_after(monkeypatch, timedelta())
    for spared, opens in (({stray.name}, True), (set[str](), True), (set[str](), False)):
        loads.clear()
        assert lake.maintenance.vacuum(spared, week) is None
        assert bool(loads) == opens
    put(timedelta(days=6))
    assert lake.maintenance.vacuum(set(), week) is None
    assert loads == []
    (other := path_of(lake.pair.changes.folder) / "merge-1-stray.parquet").write_bytes(b"x")
    assert lake.maintenance.vacuum(set(), week) is None
    assert loads, "a file was added"
    put(timedelta(days=7, minutes=1))
    assert lake.maintenance.vacuum(set(), week) is not None
    assert not stray.exists()
    assert other.exists()
    put(timedelta(days=14))
    assert lake.maintenance.vacuum(set(), week) is not None
    assert not other.exists()
    lake.check()

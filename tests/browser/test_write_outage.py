"""Every page says why a run cannot write: a missing permission or a read-only file system is no full disk."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import expect

from engine.base import clock
from engine.base.write_causes import DiskFault
from engine.pipeline.full_disks import fault_of
from engine.pipeline.write_outage import WriteOutage
from tests.browser.conftest import OpenPage, healthy
from tests.support.simulation import SimulatedTable, Simulation, real_now
from tests.tools.demo import console

PAGES = ("", "live", "table", "verify")


def shut(pipeline: Simulation, number: int, disk_fault: DiskFault, folder: Path) -> Simulation:
    """From now on its destination takes no files."""
    error = OSError(number, os.strerror(number), str(folder / "merge-1.parquet"))
    fault, since = fault_of(error), clock.utc_text(pipeline.now)
    hint = fault.remedy.format(where=folder)
    reason = f"{fault.state} (publisher: {error.strerror}: {folder})"
    pipeline.state = "paused"
    pipeline.write_outage = asdict(WriteOutage("disk", reason, hint, since, 3, disk_fault))
    return pipeline.raise_alert("disk_full", message=reason, since=since, hint=hint)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console on two pipelines: one may not write to its destination, the other's is read-only."""
    home: Path = tmp_path_factory.mktemp("home")
    faults: list[tuple[str, int, DiskFault]] = [
        ("shop", errno.EACCES, "forbidden"),
        ("bills", errno.EROFS, "read_only"),
    ]
    with ExitStack() as stack:
        for name, number, disk_fault in faults:
            tables = [SimulatedTable(f"{name}.orders", 30_000, 3)]
            one = Simulation(home / name, tables, start=real_now() - timedelta(seconds=60)).advance(55)
            stack.enter_context(shut(one, number, disk_fault, home).play())
        yield stack.enter_context(console(home))


@pytest.mark.parametrize(
    ("name", "says", "do"),
    [
        ("shop", "no permission to write|may not write to a folder", "Let the runner's user write to"),
        ("bills", "file system (is )?read-only", "mount"),
    ],
)
def test_what_keeps_a_run_from_writing_is_named(
    url: str, open_page: OpenPage, tmp_path: Path, name: str, says: str, do: str
) -> None:
    """On each page, with what ends it. No page asks for room."""
    for place in PAGES:
        page = open_page(f"{url}/{place}?pipeline={name}&table={name}.orders" if place else url)
        main = page.get_by_test_id("stMain")
        expect(main.get_by_text(re.compile(says, re.IGNORECASE)).first).to_be_visible()
        page.screenshot(path=tmp_path / f"{place or 'pipelines'}-{name}.png", full_page=True)
        text = main.inner_text()
        for untrue in ("ree space", "disk is full", "Disk full", "until there is room", "Waits for room"):
            assert untrue not in text, (place, untrue, text)
        assert do.casefold() in text.casefold(), (place, text)
        healthy(page)

"""Further sinks beside the first destination: each at its own pace, with errors of its own."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.base import clock
from engine.destination import read_back
from engine.destination.freshness import CommitTimes
from engine.destination.sink_opening import sink_changes
from engine.ledger.state import following
from engine.ledger.store import Ledger
from engine.run.tables.membership import drop_removed
from engine.spec.sink_settings import MirrorMode
from tests.support.parquet import log_rows
from tests.unit.destination.sink_run import Run, files, first_alone, why_stopped
from tests.unit.destination.support import (
    BARE,
    OLD,
    OTHER,
    PLAN,
    WHOLE_SPLIT,
    World,
    mirror,
    resnapshotted,
    story,
    switch,
    wait_for,
)


@pytest.mark.parametrize("ended", [(), (2,), (3,), (4,), (1, 2, 3, 4, 5)])
def test_both_are_the_table_whenever_the_run_ends(tmp_path: Path, ended: Sequence[int], mode: MirrorMode) -> None:
    """From the first epoch on, through a resnapshot; runs that do not wait for the further sink leave it the rest."""
    resnapshotted(world := World(tmp_path, mode))
    run = Run(tmp_path, world)
    for number, record in enumerate(world.records[1:], 1):
        run.commit([record])
        if number in ended:
            run.end(drains=False)
            run = Run(tmp_path, world)
    run.end()
    assert run.further.error is None, run.errors
    assert mirror(tmp_path) == files(tmp_path) == [(4, 2**40), (5, 50), (6, 60)]
    assert run.further.error is None


def test_one_that_fails_delays_itself_alone(tmp_path: Path, mode: MirrorMode) -> None:
    """The ledger keeps its epochs. It gets them as soon as it can be written."""
    story(world := World(tmp_path, mode))
    (tmp_path / "files").write_text("in the way")
    run = Run(tmp_path, world)
    run.commit(world.records[1:])
    assert wait_for(lambda: run.further.error)
    assert run.further.as_dict()["state"] == "retrying"
    assert wait_for(lambda: mirror(tmp_path) == [(2, 2), (3, 3)] if (tmp_path / "lake/d/t").exists() else False)
    run.publisher.drain()
    run.publisher.check()
    assert run.publisher.facts[0] == -1, "nothing may be pruned"
    (tmp_path / "files").unlink()
    assert wait_for(lambda: run.further.error is None and run.further.through == run.state.epoch)
    run.end()
    assert files(tmp_path) == [(2, 2), (3, 3)]
    assert run.publisher.facts[0] == run.state.epoch
    assert run.errors[0] is not None
    assert run.errors[-1] is None


def test_each_has_a_freshness_of_its_own(tmp_path: Path) -> None:
    """Changes count when the sink has them, however long that takes."""
    story(world := World(tmp_path))
    (tmp_path / "files").write_text("in the way")
    run = Run(tmp_path, world)
    began_s = clock.monotonic_s()
    run.commit(world.records[1:], CommitTimes(began_s - 5.0, began_s - 4.0))
    assert wait_for(lambda: run.further.error)
    run.publisher.drain()
    sinks = {"files": run.further.freshness}
    assert run.publisher.freshness.measured(sinks).log is not None
    assert run.publisher.freshness.measured(sinks).sinks == {}
    (tmp_path / "files").unlink()
    assert wait_for(lambda: run.further.error is None and run.further.through == run.state.epoch)
    ages = run.publisher.freshness.measured(sinks).sinks["files"]
    assert run.further.as_dict()["freshness_s"] == ages
    assert 4.0 <= ages["p50"] <= ages["max"] <= (5.0 + clock.monotonic_s() - began_s) * 1.06
    run.end()


def test_one_that_keeps_too_much_is_stopped_for_good(tmp_path: Path) -> None:
    """The others continue, the ledger knows it, and nothing waits for it."""
    story(world := World(tmp_path))
    (tmp_path / "files").write_text("in the way")
    run = Run(tmp_path, world, max_kept_bytes=1)
    run.commit(world.records[1:])
    assert run.further.as_dict()["state"] == "stopped"
    run.publisher.drain()
    assert wait_for(lambda: run.publisher.facts[0] == run.state.epoch)
    world.epoch(changes=world.changes(OLD, [("+I", 7, 7)]))
    run.commit(world.records[-1:])
    run.end()
    assert "max_kept_bytes" in str(run.further.error)
    assert "kept for it" in why_stopped(run)
    again = Run(tmp_path, world, max_kept_bytes=1)
    assert again.further.as_dict()["state"] == "stopped", "a later run leaves it alone"
    again.end()
    assert mirror(tmp_path) == [(2, 2), (3, 3), (7, 7)]


@pytest.mark.parametrize("keyed", [True, False], ids=["mirror", "change log"])
def test_one_that_joins_later_begins_with_what_is_there(
    tmp_path: Path, keyed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are read back from the first destination, in several files; it takes the epochs from then on."""
    monkeypatch.setattr(read_back, "_FILE_ROWS", 1)
    table = OLD if keyed else BARE
    world = World(tmp_path)
    world.epoch(planned={"table": table.as_dict(), "plan": PLAN.as_dict()})
    nothing: Any = {"chunk": 0, "exact": None, "files": [], "rows": 0, "nulled": {}}
    first = [world.chunk(table, [(1, 1), (2, 2)]) if keyed else nothing]
    world.epoch(split=WHOLE_SPLIT, chunks=first, copied=True)
    world.epoch(changes=world.changes(table, [("+I", 3, 3), ("-D", 1, 1)] if keyed else [("+I", 3, 3)]))
    first_alone(tmp_path, world)
    before = set((tmp_path / "lake").rglob("chunk-*.parquet"))
    run = Run(tmp_path, world)
    assert run.state.sinks["files"].joined >= 2
    world.epoch(changes=world.changes(table, [("+I", 4, 4)]))
    run.commit(world.records[-1:])
    run.end()
    expected = [(2, 2), (3, 3), (4, 4)] if keyed else [(3, 3), (4, 4)]
    assert files(tmp_path) == expected
    assert len(log_rows(tmp_path / "files", "d.t")) == len(expected)
    again = Run(tmp_path, world)
    again.end()
    assert files(tmp_path) == expected, "once"
    assert set((tmp_path / "lake").rglob("chunk-*.parquet")) <= before, "its files are deleted"


def test_one_that_leaves_leaves_nothing_waiting(tmp_path: Path) -> None:
    """Its data stays."""
    story(world := World(tmp_path))
    run = Run(tmp_path, world)
    run.commit(world.records[1:3])
    run.end()
    state = run.state
    assert sink_changes(state, {}, list(run.ledger.kept_epochs())) == {"files": None}
    run.ledger.commit(replace(following(state, "r", {}), sinks={"files": None}))
    assert run.state.sinks == {}
    found = Ledger(tmp_path / "ledger").state
    assert found is not None
    assert found.sinks == {}
    assert files(tmp_path) == [(1, 1), (2, 2), (3, 3)]


def test_a_resnapshot_repairs_a_table_that_failed_there_alone(tmp_path: Path) -> None:
    """The first destination and the other tables never noticed."""
    story(world := World(tmp_path))
    (lost,) = world.records[3].tables["d.t"].change_files
    run = Run(tmp_path, world)
    run.commit(world.records[1:3])
    assert wait_for(lambda: run.further.through == run.state.epoch)
    path = tmp_path / "lake/d/t__changes" / lost["name"]
    content = path.read_bytes()
    publish = run.publisher._put
    path.unlink()
    with pytest.MonkeyPatch.context() as patch:  # the first one is slower
        patch.setattr(run.publisher, "_put", lambda _: None)
        run.commit(world.records[3:4])
    assert wait_for(lambda: run.further.error)
    path.write_bytes(content)
    publish(run.ledger.epoch(run.state.epoch))
    world.epoch(resnapshot=switch(OLD, OTHER))
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OTHER, [(2, 2), (3, 3)])], copied=True)
    run.commit(world.records[-2:])
    run.end()
    assert mirror(tmp_path) == files(tmp_path) == [(2, 2), (3, 3)]
    assert run.further.error is None


def test_what_it_has_does_not_count_as_kept_for_it(tmp_path: Path) -> None:
    """The ledger keeps epochs for a while that everybody has. They do not stop a sink at the next start."""
    story(world := World(tmp_path))
    run = Run(tmp_path, world)
    run.commit(world.records[1:])
    assert wait_for(lambda: run.further.through == run.state.epoch)
    run.commit([following(run.state, "r", {})])
    run.end()
    again = Run(tmp_path, world)
    again.further._kept_epochs.epochs.clear()
    again.further._kept_epochs.bytes = 0
    again.end()
    for record in again.ledger.kept_epochs():
        again.further._kept_epochs.add(record, again.state.sinks["files"].applied)
    assert again.further._kept_epochs.bytes == 4096 * len(again.further._kept_epochs.epochs)
    assert again.further.error is None


@pytest.mark.parametrize("ended", [False, True])
def test_a_table_that_was_dropped_and_joins_again_has_nothing_of_before(tmp_path: Path, ended: bool) -> None:
    """The sink deletes its data with the epoch that removed it."""
    story(world := World(tmp_path))
    run = Run(tmp_path, world)
    run.commit(world.records[1:])
    world.epoch(removed={"by": None, "drop": True})
    run.commit(world.records[-1:])
    if ended:
        run.end(drains=False)
        run = Run(tmp_path, world)
    run.publisher.drain()
    drop_removed(run.first, run.ledger, "r")
    run.publisher.submit(run.ledger.epoch(run.state.epoch))
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(8, 8)])], copied=True)
    run.commit(world.records[-2:])
    run.end()
    assert mirror(tmp_path) == files(tmp_path) == [(8, 8)]


def test_one_whose_folder_is_gone_is_not_begun_in_silence(tmp_path: Path) -> None:
    """It says so, and how to begin it again; the pipeline continues."""
    story(world := World(tmp_path))
    run = Run(tmp_path, world)
    run.commit(world.records[1:])
    assert wait_for(lambda: run.further.through == run.state.epoch)
    run.commit([following(run.state, "r", {})])
    run.end()
    (tmp_path / "files/d").rename(tmp_path / "away")
    again = Run(tmp_path, world)
    assert wait_for(lambda: again.further.error)
    assert "is gone" in str(again.further.error)
    again.publisher.drain()
    again.end()
    assert mirror(tmp_path) == [(2, 2), (3, 3)]

"""Further sinks through failures, stops and tables that come and go: no row is lost, doubled or wrong."""

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.base.durable import write_atomically
from engine.base.errors import PipelineHeldError
from engine.decode.schema import Table
from engine.destination import further_sink, sink_opening
from engine.destination.epoch_retention import EpochRetention
from engine.destination.parquet.manifests import Manifests
from engine.destination.parquet.table import ParquetTable
from engine.destination.read_back import read_back
from engine.ledger import store
from engine.ledger.record_json import change_from_json, epoch_to_json
from engine.ledger.records import TermRecord
from engine.ledger.state import following
from engine.ledger.store import Ledger
from engine.pipeline import formats
from tests.support.parquet import log_rows
from tests.unit.destination.sink_run import (
    U_JOINS,
    Gate,
    Run,
    U,
    add,
    block,
    drop,
    fail_in_sink,
    files,
    first_alone,
    follow,
    insert,
    of_u,
    prune_through,
    rows_of_u,
    story_with_u,
    unblock,
    why_stopped,
    wide_files,
    wide_mirror,
)
from tests.unit.destination.support import (
    BARE,
    OLD,
    PLAN,
    WHOLE_SPLIT,
    WIDER,
    World,
    mirror,
    story,
    switch,
    wait_for,
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sinks open again soon, and the ledger prunes whatever it may."""
    monkeypatch.setattr(further_sink, "_RETRY_S", 0.05)
    monkeypatch.setattr(store, "FULL_STATE_EVERY", 1)


def test_a_table_that_joins_while_the_sink_opens_loses_no_row(tmp_path: Path, reading: Gate) -> None:
    """Its chunks are applied after the tables that are read back, and survive a restart."""
    story(world := World(tmp_path))
    first_alone(tmp_path, world)
    run = Run(tmp_path, world)
    assert reading.entered.wait(20)
    run.commit([of_u(world, **U_JOINS)])
    run.commit([of_u(world, split=WHOLE_SPLIT, chunks=[world.chunk(U, [(7, 7), (8, 8)])], copied=True)])
    run.publisher.drain()
    reading.open.set()
    follow(run)
    run.end()
    prune_through(tmp_path, run.ledger)
    again = Run(tmp_path, world)
    again.commit([of_u(world, changes=world.changes(U, [("+I", 9, 9)]))])
    again.end(drains=True)
    assert again.further.error is None
    assert rows_of_u(tmp_path) == [(7, 7), (8, 8), (9, 9)]


def test_a_table_that_is_altered_while_it_is_read_back_has_its_columns(tmp_path: Path, reading: Gate) -> None:
    """It is read again: the rows of a version belong to its columns."""
    story(world := World(tmp_path))
    first_alone(tmp_path, world)
    run = Run(tmp_path, world)
    assert reading.entered.wait(20)
    world.epoch(altered=switch(OLD, WIDER))
    world.epoch(changes=world.changes(WIDER, [("+I", 4, 4, 40)]))
    run.commit(world.records[-2:])
    run.publisher.drain()
    reading.open.set()
    run.end(drains=True)
    assert wide_files(tmp_path) == wide_mirror(tmp_path) == [(2, 2, None), (3, 3, None), (4, 4, 40)]


@pytest.mark.parametrize("table", [OLD, BARE], ids=["keyed", "keyless"])
def test_a_table_that_is_dropped_and_joins_again_has_each_row_once(tmp_path: Path, table: Table) -> None:
    """The sink has what the new table has: nothing of the earlier one, and no row twice."""
    world = World(tmp_path, kind="parquet")
    world.epoch(planned={"table": table.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(table, [(1, 1), (2, 2)])], copied=True)
    run = Run(tmp_path, world)
    follow(run, world.records[1:])
    drop(run, world)
    add(run, world, [(2, 2), (3, 3)], table)
    run.end(drains=True)
    for sink in ("lake", "files"):
        assert [row["id"] for row in log_rows(tmp_path / sink, "d.t")] == [2, 3]


@pytest.mark.parametrize("recorded", [True, False])
def test_a_table_that_is_dropped_and_joins_again_while_the_sink_is_away(tmp_path: Path, recorded: bool) -> None:
    """The sink drops the earlier one when it opens, whether the ledger knew what it had or not."""
    story(world := World(tmp_path))
    run = Run(tmp_path, world)
    follow(run, world.records[1:])
    run.end()
    if recorded:
        run.ledger.commit(replace(following(run.state, "r", {}), sinks={"files": run.further.news(run.state)}))
    block(tmp_path)
    run = Run(tmp_path, world)
    drop(run, world)
    add(run, world, [(2, 2)])
    run.publisher.drain()
    unblock(tmp_path)
    follow(run)
    run.end()
    assert files(tmp_path) == mirror(tmp_path) == [(2, 2)]


def test_the_ledger_forgets_what_a_sink_had_of_a_dropped_table(tmp_path: Path) -> None:
    """A run that is killed once the table has joined again does not look for the earlier one's rows."""
    story(world := World(tmp_path))
    run = Run(tmp_path, world)
    follow(run, world.records[1:])
    follow(run, [following(run.state, "r", {})])
    assert run.state.sinks["files"].applied["d.t"]
    drop(run, world)
    assert "d.t" not in run.state.sinks["files"].applied
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    follow(run, world.records[-1:])
    assert "d.t" not in run.state.sinks["files"].applied
    run.end()  # stands for a kill: nothing more is recorded
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(2, 2)])], copied=True)
    again = Run(tmp_path, world)
    again.commit(world.records[-1:])
    again.end(drains=True)
    assert again.further.error is None
    assert files(tmp_path) == mirror(tmp_path) == [(2, 2)]


def test_a_keyless_table_joins_again_as_the_hint_says(tmp_path: Path) -> None:
    """Its rows cannot be read back from files without mirrors. Later runs do not say so again."""
    world = World(tmp_path, kind="parquet")
    world.epoch(planned={"table": BARE.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(BARE, [(1, 1)])], copied=True)
    first_alone(tmp_path, world)
    run = Run(tmp_path, world)
    assert wait_for(lambda: "joined after" in str(run.further.error))
    drop(run, world)
    add(run, world, [(1, 1), (2, 2)], BARE)
    run.end(drains=True)
    again = Run(tmp_path, world)
    again.end(drains=True)
    assert again.further.error is None
    assert [row["id"] for row in log_rows(tmp_path / "files", "d.t")] == [1, 2]


def test_a_table_that_left_while_the_sink_was_away_is_complete_there(tmp_path: Path) -> None:
    """It was removed without its data, so its last changes are published to every sink."""
    story(world := World(tmp_path))
    block(tmp_path)
    run = Run(tmp_path, world)
    world.epoch(removed={"by": None, "drop": False})
    run.commit(world.records[1:])
    run.publisher.drain()
    unblock(tmp_path)
    follow(run)
    run.end()
    assert files(tmp_path) == mirror(tmp_path) == [(2, 2), (3, 3)]


def test_epoch_0_alone_is_not_the_whole_ledger(tmp_path: Path) -> None:
    """A failed table keeps its part of it. A sink that joins then reads the others back."""
    story(world := World(tmp_path))
    first_alone(tmp_path, world)
    record = formats.stamped("epoch", epoch_to_json(replace(world.records[0], tables={}, only=("d.bad",))))
    write_atomically(tmp_path / "ledger/epoch-00000000.json", json.dumps(record))
    run = Run(tmp_path, world)
    run.end(drains=True)
    assert run.state.sinks["files"].joined >= 3
    assert files(tmp_path) == mirror(tmp_path) == [(2, 2), (3, 3)]


def test_one_table_that_cannot_be_read_back_fails_alone(tmp_path: Path) -> None:
    """The sink has everything of the others, and names it."""
    story_with_u(world := World(tmp_path))
    first_alone(tmp_path, world)
    for path in (tmp_path / "lake/d/u").glob("*.parquet"):
        path.write_bytes(b"damaged")
    run = Run(tmp_path, world)
    insert(run, world, 5)
    follow(run)
    run.end()
    assert "d.u" in str(run.further.error)
    assert files(tmp_path) == mirror(tmp_path) == [(2, 2), (3, 3), (5, 5)]


def wait_for_error(run: Run) -> None:
    """Wait until the sink has failed."""
    assert wait_for(lambda: run.further.error)


def test_a_join_that_is_killed_at_each_manifest_begins_again(tmp_path: Path) -> None:
    """Before a manifest or after it: the next run has each row once."""
    story_with_u(world := World(tmp_path))
    first_alone(tmp_path, world)
    publish = Manifests.publish
    for before in (True, False, True, False):

        def killed(self: Manifests, *arguments: Any, before: bool = before) -> None:
            if not before:
                publish(self, *arguments)
            raise PipelineHeldError("killed", detail="", hint="")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Manifests, "publish", killed)
            patch.setattr(further_sink, "_RETRY_S", 1e6)
            run = Run(tmp_path, world)
            insert(run, world, 10 + len(world.records))
            wait_for_error(run)
            run.end()
    run = Run(tmp_path, world)
    run.end(drains=True)
    assert run.further.error is None
    assert files(tmp_path) == mirror(tmp_path)
    assert rows_of_u(tmp_path) == [(1, 1)]
    assert len(log_rows(tmp_path / "files", "d.t")) == len(mirror(tmp_path))


@pytest.mark.parametrize("restart", [False, True])
def test_a_failed_table_is_repaired_after_a_prune(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restart: bool
) -> None:
    """The ledger keeps its epochs, an alteration among them, and the sink applies them once the file is back."""
    story(world := World(tmp_path))
    run = Run(tmp_path, world)
    follow(run, world.records[1:2])
    path, content = fail_in_sink(run, world)
    path.unlink()
    world.epoch(altered=switch(OLD, WIDER))
    world.epoch(changes=world.changes(WIDER, [("+I", 4, 4, 40)]))
    others = [of_u(world, **U_JOINS)]
    others.append(of_u(world, split=WHOLE_SPLIT, chunks=[world.chunk(U, [(7, 7)])], copied=True))
    follow(run, [*world.records[-2:], *others])
    run.retention.prune()
    path.write_bytes(content)
    monkeypatch.setattr(further_sink, "_AGAIN_S", 0.1)
    if restart:
        run.end()
        run = Run(tmp_path, world)
    assert wait_for(lambda: run.further.error is None and run.further.through == run.state.epoch)
    run.end()
    assert wide_files(tmp_path) == wide_mirror(tmp_path)
    assert len(log_rows(tmp_path / "files", "d.t")) == 4


def test_a_stop_counts_once_the_ledger_has_it(tmp_path: Path) -> None:
    """Until then what the sink lacks is kept, so a run that is killed loses nothing."""
    story(world := World(tmp_path))
    run = Run(tmp_path, world)
    follow(run, world.records[1:2])
    fail_in_sink(run, world)
    insert(run, world, 10, 11)
    follow(run)
    run.further._sink = run.sink.model_copy(update={"max_kept_bytes": 1})
    insert(run, world, 20)
    run.publisher.drain()
    run.retention.prune()
    assert run.further.as_dict()["state"] == "stopped"
    assert run.state.sinks["files"].stopped is None
    assert run.further.through is not None
    run.end()  # stands for a kill: nothing more is recorded
    again = Run(tmp_path, world)
    follow(again)
    assert files(tmp_path) == mirror(tmp_path)
    again.further._sink = run.further._sink
    insert(again, world, 30, 31)
    assert again.state.sinks["files"].stopped
    assert again.further.through is None
    again.end()


def test_what_is_kept_for_a_failed_table_of_a_sink_is_bounded(tmp_path: Path) -> None:
    """The sink is stopped for good, and nothing is kept for it once the ledger knows."""
    story(world := World(tmp_path))
    size = sum(file["bytes"] for file in world.records[2].tables["d.t"].change_files) + 4096
    run = Run(tmp_path, world, max_kept_bytes=4 * size)
    follow(run, world.records[1:2])
    fail_in_sink(run, world)
    for key in range(10, 18):
        insert(run, world, key)
        wait_for(lambda: run.further.as_dict()["state"] == "stopped" or run.further.through in (None, run.state.epoch))
    run.publisher.drain()
    assert "max_kept_bytes" in why_stopped(run)
    run.retention.prune()
    run.end()
    assert len(run.ledger.kept_numbers()) < 8
    assert mirror(tmp_path)[-1] == (17, 17)


def test_a_sink_that_is_stopped_while_it_opens_publishes_nothing_after_the_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was kept for it is forgotten."""
    story_with_u(world := World(tmp_path))
    first_alone(tmp_path, world)
    gate = Gate()
    held = gate.before(read_back, lambda *arguments: arguments[2].name == "u")
    monkeypatch.setattr(sink_opening, "read_back", held)
    run = Run(tmp_path, world, max_kept_bytes=25_000)
    assert gate.entered.wait(20)
    key = 100
    while run.further.as_dict()["state"] != "stopped":
        insert(run, world, key := key + 1)
    insert(run, world, 201, 202, 203)
    run.publisher.drain()
    run.retention.prune()
    insert(run, world, 204)
    gate.open.set()
    assert wait_for(lambda: not run.further._threads[0].is_alive())
    run.end()
    assert (204, 204) not in files(tmp_path)


def test_a_sink_that_hangs_does_not_keep_the_run_from_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of a dead network folder do not return."""
    monkeypatch.setattr(further_sink, "_END_S", 0.1)
    story(world := World(tmp_path))
    gate = Gate()
    monkeypatch.setattr(ParquetTable, "append", gate.before(ParquetTable.append))
    run = Run(tmp_path, world)
    run.commit(world.records[1:])
    assert gate.entered.wait(20)
    ending = threading.Thread(target=run.publisher.finish, daemon=True)
    ending.start()
    ending.join(20)
    assert not ending.is_alive()
    gate.open.set()
    assert wait_for(lambda: not run.further._threads[0].is_alive())
    run.journal.close()


def test_what_is_recorded_is_read_before_what_is_needed(tmp_path: Path) -> None:
    """Between the two, a sink may fail a table and the coordinator record what follows."""
    story(world := World(tmp_path))
    ledger, pruned = Ledger(tmp_path / "ledger"), list[tuple[int, set[int]]]()
    retention, needed = EpochRetention(ledger, world.destination().landing), dict[str, set[int]]()

    def needs() -> dict[str, set[int]]:
        before = dict(needed)
        needed["d.t"], retention.recorded_epoch = {150}, 199
        return before

    retention.keep(needs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "prune", lambda through, epochs, _: pruned.append((through, set(epochs))))
        retention.prune()
        retention.prune()
    assert pruned == [(-1, set()), (199, {150})]


def test_the_replay_of_a_further_sink_never_prunes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first destination may be repairing a table with the epochs that it would delete."""
    story(world := World(tmp_path))
    threads, prune = set[str](), EpochRetention.prune

    def noted(self: EpochRetention) -> None:
        threads.add(threading.current_thread().name)
        prune(self)

    monkeypatch.setattr(EpochRetention, "prune", noted)
    run = Run(tmp_path, world)
    follow(run, world.records[1:])
    run.end()
    assert threads == {"publisher", threading.current_thread().name}


@pytest.mark.parametrize("away", [False, True])
def test_a_sink_follows_a_ledger_that_was_put_back_alone(tmp_path: Path, away: bool) -> None:
    """Its tables are resnapshotted in a new lineage; the sink has them once, even if it was away."""
    story(world := World(tmp_path))
    run = Run(tmp_path, world)
    follow(run, world.records[1:3])
    shutil.copytree(tmp_path / "ledger", tmp_path / "backup-ledger")
    run.commit(world.records[3:4])
    insert(run, world, *range(50, 55))
    run.end()
    shutil.rmtree(tmp_path / "ledger")
    (tmp_path / "backup-ledger").rename(tmp_path / "ledger")
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.state is not None
    change = change_from_json({"resnapshot": switch(OLD, OLD)})
    ledger.commit(replace(following(ledger.state, "r", {"d.t": change}), lineage="x1", term=TermRecord(5, "r")))
    block(tmp_path) if away else None
    run = Run(tmp_path, world)
    world.epoch(split=WHOLE_SPLIT)
    world.epoch(chunks=[world.chunk(OLD, [(2, 2), (3, 3)])], changes=world.changes(OLD, [("+I", 9, 9)]), copied=True)
    world.epoch(changes=world.changes(OLD, [("-D", 2, 2)]))
    for record in world.records[-3:]:
        run.commit([record])
    run.publisher.drain()
    if away:
        unblock(tmp_path)
    follow(run)
    run.end()
    assert mirror(tmp_path) == files(tmp_path) == [(3, 3), (9, 9)]

"""What tells rows of a writer apart: the copy, the epoch, and that one call follows the other."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.destination import further_sink
from engine.destination.sink_opening import sinks_after_restore
from engine.destination.writer.writes import Call, Writes
from engine.ledger import store
from engine.ledger.state import following
from engine.spec.sink_settings import Sink
from tests.support.no_spark import without_spark
from tests.unit.destination.sink_run import Run, add, drop, first_alone, follow, insert
from tests.unit.destination.support import OLD, PLAN, WHOLE_SPLIT, World, mirror, story, wait_for
from tests.unit.destination.test_sink_takeovers import back_up, put_back

Given = tuple[str, int, list[dict[str, Any]]]
Raises = Callable[[list[dict[str, Any]]], None]


class Function:
    """A user's function, as `sinks.events.write` would name it."""

    def __init__(self) -> None:
        self.given: list[Given] = []
        self.raises: Raises = lambda _: None

    def __call__(self, _: Any, table: str, changes: Any, call: Call) -> None:
        """Record the call, and fail if the test wants that."""
        rows = changes.to_pylist()
        self.given.append((table, call.epoch, rows))
        self.raises(rows)

    def newest(self) -> set[tuple[Any, ...]]:
        """The rows of the newest copy, as the docs say."""
        rows = [row for _, _, rows in self.given for row in rows]
        newest = max(row["_tm_copy"] for row in rows)
        return {(row["id"], row["v"]) for row in rows if row["_tm_copy"] == newest}


@pytest.fixture
def function(monkeypatch: pytest.MonkeyPatch) -> Function:
    """What the sinks of a test call."""
    made = Function()
    without_spark(monkeypatch)
    monkeypatch.setattr(further_sink, "_RETRY_S", 0.05)
    monkeypatch.setattr(further_sink, "_AGAIN_S", 0.2)
    monkeypatch.setattr(store, "FULL_STATE_EVERY", 1)
    monkeypatch.setattr("engine.destination.writer.destination.function_of", lambda _: made)
    return made


def _run(folder: Path, world: World, is_paused: Callable[[], bool] = lambda: False) -> Run:
    own = {"type": "python", "name": "files", "path": folder / "files", "writer": {"function": "a.b"}}
    return Run(folder, world, sink=Sink.model_validate(own), is_paused=is_paused)


def test_a_table_that_is_dropped_and_joins_again_is_another_copy(tmp_path: Path, function: Function) -> None:
    """Rows that are in none of the two are gone."""
    world = World(tmp_path)
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1), (2, 2)])], copied=True)
    run = _run(tmp_path, world)
    follow(run, world.records[1:])
    drop(run, world)
    add(run, world, [(2, 2), (3, 3)])
    run.end(drains=True)
    assert function.newest() == {(2, 2), (3, 3)}


def test_a_restored_ledger_begins_another_copy(tmp_path: Path, function: Function) -> None:
    """With epochs that are lower than those of the time after the backup."""
    story(world := World(tmp_path))
    first_alone(tmp_path, world)
    run = _run(tmp_path, world)
    follow(run)
    follow(run, [following(run.state, "r", {})])
    back_up(tmp_path)
    insert(run, world, *range(50, 58))
    follow(run)
    run.end(drains=True)
    run.ledger.commit(replace(following(run.state, "r", {}), sinks={"files": None}))
    run = _run(tmp_path, world)
    follow(run)
    run.end(drains=True)
    ledger = put_back(tmp_path, run.state.term + 1)
    assert ledger.state is not None
    sinks, places = sinks_after_restore(ledger.state, [run.sink])
    ledger.commit(replace(following(ledger.state, "restore", {}), sinks=sinks, sink_places=places))
    before = len(function.given)
    insert(again := _run(tmp_path, world), world, 100, 101)
    again.end(drains=True)
    assert len(function.given) > before
    assert function.newest() == set(mirror(tmp_path))


def test_half_a_copy_that_is_read_back_again_is_another_copy(tmp_path: Path, function: Function) -> None:
    """Its parts may be others by then, so that some of the first ones are not written again."""
    story(world := World(tmp_path))
    first_alone(tmp_path, world)
    failures = [OSError("no")]

    def fail(_: list[dict[str, Any]]) -> None:
        if failures:
            raise failures.pop()

    function.raises = fail
    run = _run(tmp_path, world)
    wait_for(lambda: len(function.given) > 1)
    follow(run)
    run.end(drains=True)
    (first, second, *_) = [rows[0]["_tm_copy"] for _, _, rows in function.given]
    assert first < second
    assert function.newest() == set(mirror(tmp_path))


def test_a_change_comes_again_with_its_epoch(tmp_path: Path, function: Function) -> None:
    """However many epochs wait by then."""
    story(world := World(tmp_path))
    paused = [True]
    run = _run(tmp_path, world, lambda: paused[0])
    run.commit(world.records[1:])

    def fail(rows: list[dict[str, Any]]) -> None:
        if any(row["_tm_seq"] > 0 for row in rows):
            raise RuntimeError("after it has written")

    function.raises = fail
    paused[0] = False
    assert wait_for(lambda: run.further.error)
    insert(run, world, 20, 21)
    function.raises = lambda _: None
    run.further.pace.try_again()
    assert wait_for(lambda: run.further.through == run.state.epoch)
    run.end(drains=True)
    epochs = dict[tuple[Any, ...], set[int]]()
    for _, epoch, rows in function.given:
        for row in rows:
            assert row["_tm_epoch"] == epoch
            epochs.setdefault((row["id"], row["_tm_kind"], row["_tm_seq"]), set()).add(epoch)
    changes = {key: of_row for key, of_row in epochs.items() if key[2] > 0}
    assert all(len(of_row) == 1 for of_row in changes.values()), changes
    assert len({epoch for of_row in changes.values() for epoch in of_row}) > 2


def test_one_call_follows_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever threads make them."""
    without_spark(monkeypatch)
    at_once, most, world_rows = threading.Semaphore(1), list[bool](), _rows()

    def write(*_: Any) -> None:
        most.append(at_once.acquire(blocking=False))
        threading.Event().wait(0.02)
        at_once.release()

    one = Writes(lambda: write)
    threads = [threading.Thread(target=one.write, args=(OLD, world_rows, Call(n, 1, "changes-0"))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [True] * 8


def _rows() -> Any:
    import pyarrow as pa

    names = ("_tm_kind", "_tm_seq", "_tm_ts", "_tm_position", "_tm_redump")
    return pa.table({"id": [1], **{name: ["+I"] for name in names}})

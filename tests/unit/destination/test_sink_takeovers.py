"""Further sinks through restores, skipped terms and delays: no row is lost, doubled or wrong."""

import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import PipelineHeldError
from engine.destination import further_sink
from engine.destination.destination_protocol import CHANGES, CHUNKS, EpochEnd
from engine.destination.parquet import manifests
from engine.destination.parquet.manifests import Manifests
from engine.destination.sink_opening import sinks_after_restore
from engine.ledger import store
from engine.ledger.state import Owner, following
from engine.ledger.store import Ledger
from tests.support.parquet import generation_of, log_rows
from tests.unit.destination.sink_run import (
    U_JOINS,
    Gate,
    Run,
    U,
    files,
    first_alone,
    follow,
    insert,
    of_u,
    why_stopped,
)
from tests.unit.destination.support import (
    OLD,
    PLAN,
    WHOLE_SPLIT,
    World,
    mirror,
    publish_story,
    story,
    taken,
    wait_for,
    world_files,
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sinks open again soon, and the ledger prunes whatever it may."""
    monkeypatch.setattr(further_sink, "_RETRY_S", 0.05)
    monkeypatch.setattr(store, "FULL_STATE_EVERY", 1)


def back_up(folder: Path) -> None:
    """Copy the ledger and the lake."""
    for name in ("ledger", "lake"):
        shutil.copytree(folder / name, folder / f"backup-{name}", symlinks=True)


def put_back(folder: Path, term: int) -> Ledger:
    """Restore both, as `backup.restore` does."""
    for name in ("ledger", "lake"):
        shutil.rmtree(folder / name)
        (folder / f"backup-{name}").rename(folder / name)
    ledger = Ledger(folder / "ledger")
    ledger.take_term("restore", term)
    return ledger


@pytest.mark.parametrize("joined", [True, False], ids=["joined before", "joined after"])
def test_a_sink_ahead_of_a_restored_ledger_is_stopped_for_good(tmp_path: Path, joined: bool) -> None:
    """Epochs that follow do not make it right: they have the numbers of others that it has."""
    story(world := World(tmp_path))
    if joined:
        run = Run(tmp_path, world)
        follow(run, world.records[1:])
        follow(run, [following(run.state, "r", {})])
        back_up(tmp_path)
    else:
        first_alone(tmp_path, world)
        back_up(tmp_path)
        run = Run(tmp_path, world)
    insert(run, world, *range(50, 55))
    run.end(drains=True)
    before, end = files(tmp_path), run.state.epoch
    put_back(tmp_path, run.state.term + 1)
    again = Run(tmp_path, world)
    assert wait_for(lambda: again.further.as_dict()["state"] == "stopped")
    insert(again, world, *range(100, 101 + end - again.state.epoch))
    again.end()
    assert again.state.epoch > end
    assert "is ahead of the ledger" in why_stopped(again)
    last = Run(tmp_path, world)
    last.end()
    assert "is ahead of the ledger" in str(last.further.error)
    assert files(tmp_path) == before


@pytest.mark.parametrize("joined", [True, False], ids=["joined before", "joined after"])
def test_a_sink_that_left_by_a_restore_joins_again_as_another(tmp_path: Path, joined: bool) -> None:
    """It begins a new generation with the mirror's rows, and has none of the time after the backup."""
    story(world := World(tmp_path))
    if joined:
        run = Run(tmp_path, world)
        follow(run, world.records[1:])
        follow(run, [following(run.state, "r", {})])
        back_up(tmp_path)
    else:
        first_alone(tmp_path, world)
        back_up(tmp_path)
        run = Run(tmp_path, world)
    earlier = run.state.sinks["files"].id
    insert(run, world, *range(50, 55))
    run.end(drains=True)
    generation = generation_of(tmp_path / "files", "d.t")
    ledger = put_back(tmp_path, run.state.term + 1)
    assert ledger.state is not None
    sinks, places = sinks_after_restore(ledger.state, [run.sink])
    ledger.commit(replace(following(ledger.state, "restore", {}), sinks=sinks, sink_places=places))
    again = Run(tmp_path, world)
    assert again.state.sinks["files"].id not in ("", earlier)
    insert(again, world, *range(100, 108))
    again.end(drains=True)
    assert again.further.error is None
    assert files(tmp_path) == mirror(tmp_path)
    assert generation_of(tmp_path / "files", "d.t") > generation
    assert len(log_rows(tmp_path / "files", "d.t")) == len(mirror(tmp_path))


def test_an_earlier_term_is_fenced_even_if_a_term_was_skipped(tmp_path: Path) -> None:
    """A run between the two could not open the destination, so it took no term there."""
    story(world := World(tmp_path, kind="parquet"))
    publish_story(world, tmp_path, ())
    part = world_files(world.changes(OLD, [("+I", 9, 9)]))
    earlier = taken(world, "a", 1)
    table = earlier.table(Owner("L"), OLD, PLAN)
    table.open(must_exist=True)
    table.append(CHANGES, 4, part)
    later = taken(world, "c", 3)
    later.fence_earlier_runners(Owner("L"), [OLD], range(5))
    table = later.table(Owner("L"), OLD, PLAN)
    table.open(must_exist=True)
    table.append(CHANGES, 4, part)
    later.publish(EpochEnd(4, "b:1", ""))
    with pytest.raises(PipelineHeldError):
        earlier.publish(EpochEnd(4, "b:1", ""))
    with pytest.raises(PipelineHeldError):
        taken(world, "b", 2)
    assert [row["id"] for row in log_rows(tmp_path / "lake", "d.t")].count(9) == 1


def test_a_runner_that_is_delayed_below_the_newest_manifest_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another table was read back through a later epoch; the batch that is delayed ends before it."""
    story(world := World(tmp_path, kind="parquet"))
    publish_story(world, tmp_path, ())
    part = world_files(world.changes(OLD, [("+I", 9, 9)]))
    earlier = taken(world, "a", 1)
    other = earlier.table(Owner("L"), U, replace(PLAN, table="d.u"))
    other.open(must_exist=False)
    other.append(CHUNKS, 9, world_files(world.chunk(U, [(1, 1)])))
    earlier.publish(EpochEnd(9, "b:1", ""))
    table = earlier.table(Owner("L"), OLD, PLAN)
    table.open(must_exist=True)
    table.append(CHANGES, 4, part)
    overtaken, original = threading.Event(), os.link

    def late(source: Any, target: Any, **more: Any) -> None:
        if not overtaken.is_set():
            overtaken.set()
            later = taken(world, "b", 2)
            later.fence_earlier_runners(Owner("L"), [OLD], range(10))
            table = later.table(Owner("L"), OLD, PLAN)
            table.open(must_exist=True)
            table.append(CHANGES, 5, part)
            later.publish(EpochEnd(5, "b:1", ""))
        original(source, target, **more)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(PipelineHeldError):
        earlier.publish(EpochEnd(4, "b:1", ""))
    assert overtaken.is_set()
    assert [row["id"] for row in log_rows(tmp_path / "lake", "d.t")].count(9) == 1


def test_manifests_are_named_in_the_order_in_which_they_are_made(
    tmp_path: Path, reading: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that ends before the epoch through which a table was read back takes the next name of that epoch."""
    monkeypatch.setattr(further_sink, "_BATCH_EPOCHS", 2)
    story(world := World(tmp_path))
    first_alone(tmp_path, world)
    made, publish = list[tuple[int, str]](), Manifests.publish

    def noted(self: Manifests, end: EpochEnd, *rest: Any) -> None:
        publish(self, end, *rest)
        made.append((end.epoch, self._unmerged_names[-1]))

    monkeypatch.setattr(Manifests, "publish", noted)
    run = Run(tmp_path, world)
    assert reading.entered.wait(20)
    run.commit([of_u(world, **U_JOINS)])
    run.commit([of_u(world, split=WHOLE_SPLIT, chunks=[world.chunk(U, [(7, 7)])], copied=True)])
    insert(run, world, *range(60, 66))
    run.publisher.drain()
    reading.open.set()
    follow(run)
    run.end()
    names, newest = [name for _, name in made], made[0][0]
    assert names == sorted(set(names), key=manifests._place)
    assert made[1][0] < newest
    assert names[:2] == [f"{newest}.json", f"{newest}_1.json"]
    assert files(tmp_path) == mirror(tmp_path)

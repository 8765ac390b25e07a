"""What a destination lacks is known from the ledger and the Delta logs, whatever the publisher believes."""

from dataclasses import replace
from pathlib import Path

from engine.base.errors import TidemarkError
from engine.capture.files import DataFile
from engine.destination.missing_epochs import MissingEpochs, find_missing_epochs
from engine.ledger.records import EpochRecord
from engine.ledger.state import State, apply
from tests.unit.destination.support import OLD, PLAN, WHOLE_SPLIT, World, publish_story, switch

AFTER = "9999"


def changed_world(world: World) -> World:
    """A table that was copied and has changed since."""
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1)])], copied=True)
    world.epoch(changes=world.changes(OLD, [("+I", 3, 3)]))
    return world


def state_of(records: list[EpochRecord]) -> State:
    """The committed state."""
    state = None
    for record in records:
        state = apply(state, record)
    assert state is not None
    return state


def test_a_destination_that_has_everything_lacks_nothing(tmp_path: Path) -> None:
    """Although the ledger does not know yet that it has it."""
    world = changed_world(World(tmp_path, "merge_on_read"))
    publish_story(world, tmp_path, ())
    state = state_of(world.records)
    assert not state.tables["d.t"].applied
    assert find_missing_epochs(world.destination, state, world.records, AFTER) == {}


def test_a_destination_that_takes_nothing_lacks_the_first_epoch(tmp_path: Path) -> None:
    """From its commit on. One that stopped has said so already; one that is being copied may lack rows."""
    world = changed_world(World(tmp_path, "merge_on_read"))
    publish_story(world, tmp_path, ())
    world.epoch(changes=world.changes(OLD, [("+I", 4, 4)]))
    world.epoch(changes=world.changes(OLD, [("+I", 5, 5)]))
    state, times = state_of(world.records), ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:09.000000Z")
    world.records[-2:] = [replace(one, ts=ts) for one, ts in zip(world.records[-2:], times, strict=True)]
    first = world.records[-2]
    assert find_missing_epochs(world.destination, state, world.records, AFTER) == {
        "d.t": MissingEpochs(first.ts, first.epoch)
    }
    assert find_missing_epochs(world.destination, state, world.records, first.ts) == {}, "not older than that"
    table = state.tables["d.t"]
    stopped = replace(state, tables={"d.t": replace(table, stopped=TidemarkError("no").to_record())})
    assert find_missing_epochs(world.destination, stopped, world.records, AFTER) == {}


def test_epochs_of_an_earlier_life_are_not_missing(tmp_path: Path) -> None:
    """A table that was removed with its data, and joined again, lacks nothing of what it had before."""
    world = changed_world(World(tmp_path, "merge_on_read"))
    world.epoch(removed={"by": "a", "drop": True})
    world.epoch(dropped=True)
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1), (3, 3)])], copied=True)
    state = state_of(world.records)
    table = world.destination().table(state.owner, OLD)
    table.open(must_exist=False)
    files = [DataFile(**file) for file in world.records[-1].tables["d.t"].chunks[0].files]
    assert table.append("chunks", world.records[-1].epoch, files) is not None
    assert find_missing_epochs(world.destination, state, world.records, AFTER) == {}


def test_a_copy_that_is_complete_must_be_in_the_mirror(tmp_path: Path) -> None:
    """The chunks of a resnapshot replace the mirror with the last one."""
    world = changed_world(World(tmp_path, "merge_on_read"))
    publish_story(world, tmp_path, ())
    world.epoch(resnapshot=switch(OLD, OLD))
    half = state_of(world.records)
    assert find_missing_epochs(world.destination, half, world.records, AFTER) == {}
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(2, 2)])], copied=True)
    found = find_missing_epochs(world.destination, state_of(world.records), world.records, AFTER)
    assert found["d.t"].epoch == world.records[-1].epoch


def test_a_resnapshot_that_is_due_counts_from_its_decision(tmp_path: Path) -> None:
    """Whatever the destination has."""
    world = changed_world(World(tmp_path, "merge_on_read"))
    publish_story(world, tmp_path, ())
    due = {"at": "2026-01-01T00:00:00.000000Z", "by": None, "why": None}
    world.epoch(due=due)
    assert find_missing_epochs(world.destination, state_of(world.records), world.records, AFTER) == {
        "d.t": MissingEpochs(str(due["at"]), None)
    }

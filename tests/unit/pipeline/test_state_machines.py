"""The state machines of a runner, of a table and of a chunk."""

import re
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import TableStoppedError
from engine.decode.schema import Column, Table
from engine.history.chunk_queries import STATES
from engine.ledger.record_json import change_from_json, state_from_json, state_to_json
from engine.ledger.records import EpochRecord
from engine.ledger.state import State, apply, following
from engine.pipeline.state_machines import (
    CHUNK,
    MACHINES,
    PIPELINE,
    START,
    TABLE,
    IllegalEventError,
    Machine,
    after,
)
from engine.plan.chunks import Plan, Range
from engine.plan.coverage import EMPTY, Chunk, split_as_dict
from engine.run.epochs.epoch import completed, table_events
from engine.source.positions import Position

POSITION = {"file": "b.000001", "offset": 4, "gtids": None, "born": None}
PAGE = Path(__file__).parents[3] / "docs/architecture.md"
ERROR = TableStoppedError("no").as_dict()
PLAN = Plan("d.t", 10, 100, ("id",), "PRIMARY", "0", "9", 1.0, "one", "", 100, 1).as_dict()
DESCRIBED = Table("d", "t", (Column("id", "int", nullable=False),), ("id",)).as_dict()
WHOLE = split_as_dict([Chunk(0, Range(None, None))], EMPTY)
COPIED: Any = {"split": WHOLE, "chunks": [{"chunk": 0, "exact": POSITION, "files": [], "rows": 10, "nulled": {}}]}
AGAIN: Any = {"resnapshot": {"table": DESCRIBED, "plan": PLAN}}
RESNAPSHOT: Any = {"resnapshot": {"table": DESCRIBED, "plan": PLAN, "since": {"file": "b.000001", "offset": 4}}}
REMOVED: Any = {"removed": {"by": "c1", "drop": True}}
ALTERED: Any = {"altered": {"table": DESCRIBED, "plan": PLAN}}


def begun(**more: Any) -> State:
    """A pipeline after epoch 0, with one table."""
    joins = change_from_json({"planned": {"table": DESCRIBED, "plan": PLAN}, **more})
    return apply(
        None,
        EpochRecord(
            0, "r", "", Position("b.000001", 4), Position("b.000001", 4), 1, {"d.t": joins}, ledger="l", identity="i"
        ),
    )


def following_with(state: State, change: Any) -> EpochRecord:
    """The next epoch, with a change of the table."""
    return following(state, "r", {"d.t": change_from_json(change)})


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: str(machine.name))
def test_every_transition_leads_to_a_state_that_exists_and_every_state_can_be_reached(machine: Machine) -> None:
    """No event leads out of the table of states."""
    reached = {state for events in machine.transitions.values() for state in events.values()}
    assert reached == set(machine.transitions) - {START}


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: str(machine.name))
def test_the_diagram_in_the_documentation_is_that_of_the_table(machine: Machine) -> None:
    """`python -m engine.pipeline.state_machines` prints all of them."""
    assert f"```mermaid\n{machine.diagram()}\n```" in PAGE.read_text(encoding="utf-8")


def test_the_documentation_has_no_other_diagram() -> None:
    """An unchecked diagram would become outdated."""
    assert PAGE.read_text(encoding="utf-8").count("```mermaid") == len(MACHINES)
    assert re.search(r"\[\*\] --> starting: launched\n.*\n    starting --> stopping: stop\n", PIPELINE.diagram())
    assert PIPELINE.diagram().endswith("\n    ended --> [*]")


def test_a_pipeline_can_end_in_every_state() -> None:
    """Whatever it is doing."""
    assert all(
        events.get("end") == "ended" for state, events in PIPELINE.transitions.items() if state not in ("", "ended")
    )


def test_a_stop_that_comes_while_spark_starts_is_kept() -> None:
    """The end of the start does not set a stopping runner to running."""
    assert after(after("starting", "stop"), "started") == "stopping"


def test_an_illegal_event_names_state_and_event() -> None:
    """The error also lists the legal events."""
    with pytest.raises(IllegalEventError, match="'pause' is not possible while the pipeline is paused") as raised:
        after("paused", "pause")
    assert "resume" in raised.value.hint
    with pytest.raises(IllegalEventError, match="'committed' is not possible while the chunk is reading"):
        CHUNK.after("reading", "committed")
    with pytest.raises(IllegalEventError, match="'copied' is not possible while the table is stopped"):
        TABLE.after("stopped", "copied")


def test_the_console_knows_the_states_of_a_chunk() -> None:
    """By the same names; dropped chunks belong to plans that are no longer shown."""
    assert set(STATES) == set(CHUNK.transitions) - {START, "dropped"}


@pytest.mark.parametrize(
    ("more", "state", "change", "becomes"),
    [
        ({}, "copying", COPIED, "streaming"),
        ({}, "copying", {**COPIED, **ALTERED}, "streaming"),
        ({}, "copying", {"stopped": ERROR, "split": WHOLE}, "stopped"),
        ({}, "copying", {"split": WHOLE}, "copying"),
        ({}, "copying", AGAIN, "copying"),
        (COPIED, "streaming", ALTERED, "streaming"),
        (COPIED, "streaming", AGAIN, "copying"),
        (COPIED, "streaming", RESNAPSHOT, "streaming"),
        (COPIED, "streaming", {"stopped": ERROR, **ALTERED}, "stopped"),
        ({"stopped": ERROR}, "stopped", AGAIN, "copying"),
        ({"stopped": ERROR}, "stopped", RESNAPSHOT, "streaming"),
        ({"stopped": ERROR}, "stopped", {"stopped": ERROR}, "stopped"),
        ({}, "copying", REMOVED, "removed"),
        (COPIED, "streaming", REMOVED, "removed"),
        ({"stopped": ERROR}, "stopped", REMOVED, "removed"),
        ({"stopped": ERROR}, "stopped", {"changes": {"files": [], "kinds": [0, 0, 0, 0]}}, "stopped"),
    ],
)
def test_what_an_epoch_does_to_a_table_is_in_its_table(more: Any, state: str, change: Any, becomes: str) -> None:
    """The ledger's records make legal transitions only, and the record tells where the last chunk is."""
    before = begun(**more)
    assert before.tables["d.t"].state == state
    assert TABLE.after_all(START, table_events(START, change_from_json(more))) == state
    record = completed(before, following_with(before, change))
    now = apply(before, record).known("d.t")
    assert now is not None
    assert now.state == becomes
    assert record.tables["d.t"].copied == ("chunks" in change)


def test_an_epoch_that_would_bring_a_stopped_table_back_in_silence_is_refused() -> None:
    """It is never committed."""
    stopped = begun(stopped=ERROR)
    with pytest.raises(IllegalEventError, match="'copied' is not possible while the table is stopped"):
        completed(stopped, following_with(stopped, COPIED))
    joins = change_from_json({"planned": {"table": DESCRIBED, "plan": PLAN}, **REMOVED})
    with pytest.raises(IllegalEventError, match="would be removed without a matching event"):
        completed(stopped, following(stopped, "r", {"d.u": joins}))


@pytest.mark.parametrize(
    ("change", "becomes"),
    [
        ({"dropped": True}, "removed"),
        (AGAIN, "copying"),
        (RESNAPSHOT, "streaming"),
        ({"planned": {"table": DESCRIBED, "plan": PLAN}}, "copying"),
        ({"planned": {"table": DESCRIBED, "plan": PLAN}, **COPIED}, "streaming"),
    ],
)
def test_what_becomes_of_a_table_that_was_removed(change: Any, becomes: str) -> None:
    """It leaves the pipeline and is remembered until it joins again."""
    state = begun(**COPIED)
    state = apply(state, completed(state, following_with(state, REMOVED)))
    assert not state.tables
    assert state.copied
    state = apply(state, completed(state, following_with(state, change)))
    known = state.known("d.t")
    assert known is not None
    assert known.state == becomes
    assert ("d.t" in state.removed, "d.t" in state.tables) == (becomes == "removed", becomes != "removed")
    assert state_from_json(state_to_json(state)) == state


def test_a_removed_table_is_not_changed_in_silence() -> None:
    """No change and no chunk of it is committed."""
    state = begun()
    state = apply(state, following_with(state, REMOVED))
    with pytest.raises(IllegalEventError, match="while the table is removed"):
        completed(state, following_with(state, COPIED))

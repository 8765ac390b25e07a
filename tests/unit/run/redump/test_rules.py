"""How a table is redumped follows from its key, its state and what is asked for; nothing else decides it."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.errors import TableStoppedError
from engine.capture.redump_requests import Redump
from engine.decode.schema import Column, Table
from engine.ledger.state import TableState
from engine.plan.chunks import Plan, Range
from engine.plan.coverage import EMPTY, unsplit_table
from engine.run.redump.rules import LEFT_ALONE, REDUMPED, REFUSED, RESNAPSHOTTED, decide

KEYED = Table("d", "t", (Column("id", "int", nullable=False), Column("v", "int")), ("id",))
KEYLESS = replace(KEYED, key=())
PLAN = Plan("d.t", 9, 0, ("id",), "PRIMARY", "0", "9", 1.0, "even", "", 9, 1, "10", "10")
MOVING = replace(PLAN, chunk_key=("v",))
COPIED = TableState(KEYED.as_dict(), PLAN.as_dict(), EMPTY)
COPYING = replace(COPIED, coverage=unsplit_table(PLAN))
STOPPED = replace(COPIED, stopped=TableStoppedError("no").to_record())

EVERYTHING = Redump("1", Path(), ())
WHOLE = Redump("1", Path(), ("d.t",))
RANGES = replace(WHOLE, ranges=(Range(("1",), ("5",)),))
KEYS = replace(WHOLE, keys=(("3",),))


@pytest.mark.parametrize(
    ("redump", "known", "table", "plan", "way"),
    [
        (WHOLE, COPIED, KEYED, PLAN, REDUMPED),
        (EVERYTHING, COPIED, KEYED, PLAN, REDUMPED),
        (WHOLE, COPYING, KEYED, PLAN, RESNAPSHOTTED),
        (WHOLE, STOPPED, KEYED, PLAN, RESNAPSHOTTED),
        (WHOLE, COPIED, KEYED, MOVING, RESNAPSHOTTED),
        (RANGES, COPIED, KEYED, PLAN, REDUMPED),
        (RANGES, COPYING, KEYED, PLAN, REDUMPED),
        (RANGES, COPIED, KEYED, MOVING, REFUSED),
        (RANGES, STOPPED, KEYED, PLAN, REFUSED),
        (KEYS, COPIED, KEYED, PLAN, REDUMPED),
        (KEYS, COPIED, KEYED, MOVING, REDUMPED),
        (KEYS, STOPPED, KEYED, PLAN, REFUSED),
        (WHOLE, COPIED, KEYLESS, PLAN, REFUSED),
        (KEYS, COPIED, KEYLESS, PLAN, REFUSED),
        (EVERYTHING, COPIED, KEYLESS, PLAN, LEFT_ALONE),
        (EVERYTHING, STOPPED, KEYLESS, PLAN, RESNAPSHOTTED),
        (WHOLE, STOPPED, KEYLESS, PLAN, RESNAPSHOTTED),
    ],
)
def test_how_a_table_is_redumped(redump: Redump, known: TableState, table: Table, plan: Plan, way: str) -> None:
    """A refusal says what to do instead, and nothing but a plain redump goes without a reason."""
    decision = decide(redump, known, table, plan)
    assert decision.way == way
    assert bool(decision.hint) == (way == REFUSED)
    assert decision.why or way == REDUMPED


@pytest.mark.parametrize(
    ("redump", "known", "table", "way"),
    [
        (WHOLE, COPIED, KEYED, RESNAPSHOTTED),
        (EVERYTHING, COPIED, KEYED, RESNAPSHOTTED),
        (RANGES, COPIED, KEYED, REFUSED),
        (KEYS, COPIED, KEYED, REFUSED),
        (KEYS, COPYING, KEYED, REDUMPED),
        (EVERYTHING, COPIED, KEYLESS, LEFT_ALONE),
    ],
)
def test_a_mirror_that_cannot_be_read_is_replaced_as_a_whole(
    redump: Redump, known: TableState, table: Table, way: str
) -> None:
    """Nothing finds ghosts in a mirror that cannot be read.

    Its parts are refused, with the command that resnapshots it.
    """
    decision = decide(redump, known, table, PLAN, "/m/chunk.parquet: No such file or directory")
    assert decision.way == way
    if known is COPIED and table is KEYED:
        assert "its mirror cannot be read (/m/chunk.parquet" in decision.why
    assert ("tidemark redump SPEC --table d.t" in decision.hint) == (way == REFUSED)


def test_a_change_log_that_lacks_files_is_repaired_by_a_redump_of_the_whole_table() -> None:
    """By a resnapshot; a part of the table is redumped as ever."""
    defect = "1 data file of /c is gone: a.parquet"
    decision = decide(WHOLE, COPIED, KEYED, PLAN, "", defect)
    assert decision.way == RESNAPSHOTTED
    assert decision.why == f"its change log cannot be read ({defect})"
    assert decide(KEYS, COPIED, KEYED, PLAN, "", defect).way == REDUMPED

"""A table that resnapshots itself again and again stops at a limit by the hour."""

from dataclasses import replace

from engine.base.errors import TableStoppedError
from engine.decode.schema import Column, Table
from engine.ledger.state import TableState
from engine.plan.chunks import Plan
from engine.run.tables.resnapshot_limit import APART, AT_ONCE, limited, rest_s
from engine.run.tables.schema_change import Altered, SchemaVerdict

TABLE = Table("d", "t", (Column("id", "int", nullable=False),), ("id",))
PLAN = Plan("d.t", 9, 0, ("id",), "PRIMARY", "0", "9", 1.0, "even", "", 9, 1, "10", "10")
ALTERED = Altered(TABLE, PLAN, copied=True, earlier_names=(), fits=lambda *_: None)
AGAIN = SchemaVerdict("resnapshotted", "its rows may have other values", TABLE, PLAN)
NOW = "2026-01-01T01:00:00.000000Z"


def known(*minutes: int) -> TableState:
    """A table that was resnapshotted at these minutes after midnight."""
    return TableState({}, {}, resnapshots=tuple(f"2026-01-01T00:{minute:02}:00.000000Z" for minute in minutes))


def test_the_resnapshots_within_an_hour_are_counted_up_to_the_limit() -> None:
    """The ledger gets the time of each; the stop says how many there were, why, and what to do."""
    found = limited(AGAIN, ALTERED, known(10, 20), 3, NOW)
    assert (found.outcome, found.within_hour) == ("resnapshotted", 3)
    switch = found.to_record(TABLE, None).resnapshot
    assert switch is not None
    assert switch.automatic == NOW
    stopped = limited(AGAIN, ALTERED, known(10, 20, 30), 3, NOW)
    assert stopped.outcome == "stopped"
    assert isinstance(stopped.error, TableStoppedError)
    assert "resnapshotted 3 times within an hour" in stopped.error.message
    assert "redump SPEC --table d.t" in stopped.error.hint
    assert stopped.to_record(TABLE, None).not_due


def test_a_stop_says_what_ends_its_cause() -> None:
    """The remedy comes before the resnapshot, which would not help without it."""
    stopped = limited(replace(AGAIN, reason="binlog_format is MIXED"), ALTERED, known(10), 1, NOW, "SET it.")
    assert isinstance(stopped.error, TableStoppedError)
    assert stopped.error.message.endswith("would have to be again: binlog_format is MIXED.")
    assert stopped.error.hint.startswith("SET it. Then resnapshot it: tidemark redump SPEC --table d.t")


def test_older_ones_do_not_count_and_other_verdicts_stay() -> None:
    """An hour later the table may be resnapshotted again."""
    later = "2026-01-01T01:25:00.000000Z"
    assert limited(AGAIN, ALTERED, known(10, 20, 30), 3, later).within_hour == 2
    evolved = replace(AGAIN, outcome="evolved")
    assert limited(evolved, ALTERED, known(10, 20, 30), 3, NOW) == evolved


def test_frequent_resnapshots_begin_later_and_say_when() -> None:
    """The first five begin at once; so does one after an operator's, whose state has no automatic ones."""
    fifth = limited(AGAIN, ALTERED, known(10, 20, 30, 40), 20, NOW)
    assert fifth.reason == AGAIN.reason
    sixth = limited(AGAIN, ALTERED, known(10, 20, 30, 40, 50), 20, NOW)
    assert sixth.reason == (
        "its rows may have other values. It is number 6 within an hour, and begins at 2026-01-01 01:02:00 UTC"
    )
    assert rest_s(known(10, 20, 30, 40, 50), "2026-01-01T00:50:01.000000Z") == 0
    assert len(known(*range(50, 56)).resnapshots) == AT_ONCE + 1
    assert rest_s(known(*range(50, 56)), "2026-01-01T00:55:30.000000Z") == 90
    assert rest_s(known(*range(50, 56)), "2026-01-01T00:57:30.000000Z") == 0
    assert rest_s(known(*range(50, 56)), "2026-01-01T00:05:00.000000Z") == APART.total_seconds(), "the clock went back"
    assert rest_s(known(), NOW) == 0

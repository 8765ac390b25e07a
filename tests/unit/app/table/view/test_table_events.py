"""The errors of one table, and the history of its schema."""

import json

from app.table.view.table_events import broken_rows, error_rows, schema_rows
from engine.history.event_queries import JournalLine
from engine.journal.verification_summary import Unreadable
from tests.unit.app.support import AT, NOW, ago


def line(age: float, event: str, table: str | None = "d.t", *, resolved: bool = False, **fields: object) -> JournalLine:
    """An event of the journal."""
    return JournalLine(ago(age), "r", 100 - int(age), event, table, json.dumps({"table": table, **fields}), resolved)


def test_errors_say_who_acts_newest_first() -> None:
    """A retry is the runner's, a parked chunk the operator's."""
    found = error_rows(
        [
            line(3, "chunk.failed", chunks=[1], message="lost", attempt=1, retry_in_s=2.0),
            line(1, "chunk.parked", chunk=1, message="lost", attempts=8, hint="Fix it."),
        ],
        "d.t",
    )
    assert [(one["Who acts"], one["Time"]) for one in found] == [("you", ago(1)), ("runner retries", ago(3))]
    assert str(found[0]["What"]).startswith("Chunk 1 was parked after 8 attempts: lost")


def test_a_mirror_that_another_program_changed_is_named() -> None:
    """With what to do, and that it is over."""
    one = {"version": 17, "operation": "DELETE", "author": "spark", "at": "2026-01-31T00:00:00.000000Z"}
    found = error_rows(
        [
            line(3, "mirror.written", table="d.t", commits=3, newest=[one], cleared_by=None),
            line(1, "mirror.written", table="d.t", commits=0, newest=[], cleared_by="resnapshot"),
        ],
        "d.t",
    )
    over, began = (str(row["What"]) for row in found)
    assert over == "All rows of the mirror were resnapshotted after another program's changes"
    what = "Another program changed rows of the mirror: version 17 (DELETE by spark, 2026-01-31 00:00:00 UTC)"
    assert began.startswith(f"{what}, and 2 earlier commits. Stop ")
    assert "choose d.t on the page Verify, then Verify this table, then Repair" in began
    assert [row["Who acts"] for row in found] == ["", "you"]


def test_an_error_of_another_table_with_a_similar_name_is_left_out() -> None:
    """The journal is searched by text, because such errors belong to no table."""
    messages = ["Publishing d.t failed: x", "d.t.", "d.t2 failed", "xd.t failed", "a.d.t failed", "d.t.u failed"]
    events = [line(n, "error", None, message=message) for n, message in enumerate(messages)]
    assert [one["What"] for one in error_rows(events, "d.t")] == messages[:2]


def test_the_schema_history_leaves_repeated_states_out() -> None:
    """Every run journals the states again."""
    found = schema_rows(
        [
            line(1, "table.state", state="streaming"),
            line(9, "table.state", state="copying"),
            line(8, "table.planned", chunks=[[None, "5"], ["5", None]], reason="even"),
            line(7, "table.state", state="streaming"),
            line(5, "table.state", state="streaming"),
            line(4, "source.event", kind="evolved", statement="ALTER TABLE t ADD c INT", position="b.1:4"),
            line(3, "source.event", kind="resnapshotted", reason="its key changed\nmore"),
        ]
    )
    assert [one["What"] for one in found] == [
        "Resnapshotted",
        "Evolved in place",
        "Table is streaming",
        "Planned 2 chunks",
        "Table is copying",
    ]
    assert (found[0]["Why"], found[1]["Statement"], found[1]["Position"]) == (
        "its key changed",
        "ALTER TABLE t ADD c INT",
        "b.1:4",
    )


def test_lines_that_cannot_be_read_are_no_error() -> None:
    """Other versions may write other fields."""
    broken = JournalLine(ago(1), "r", 1, "source.event", "d.t", "[]")
    assert schema_rows([broken])[0]["What"] == "Changed"
    assert schema_rows([JournalLine(ago(1), "r", 1, "table.planned", "d.t", "{")])[0]["What"] == "Planned"


def test_that_a_table_stopped_is_among_its_errors() -> None:
    """With its remedy, once however many runs repeat it.

    Other states are no errors, and the one that ends it needs no one.
    """
    reason, hint = "a date 0000-00-00", "Set source.invalid_dates."
    states = [
        line(9, "table.state", state="streaming"),
        line(8, "table.state", state="stopped", reason=reason, hint=hint),
        line(5, "table.state", state="stopped", reason=reason, hint=hint),
    ]
    (found,) = error_rows(states, "d.t")
    assert (found["Time"], found["Who acts"]) == (ago(8), "you")
    assert str(found["What"]).startswith("Table is stopped – a date 0000-00-00. Set source.invalid_dates")
    (over,) = error_rows([*states, line(2, "table.state", state="copying")], "d.t")
    assert (over["Time"], over["Who acts"]) == (ago(8), "")


def test_a_mirror_that_cannot_be_read_is_an_error_now() -> None:
    """Although no runner has journaled it."""
    broken: Unreadable = Unreadable(at=AT, why="its mirror cannot be read: gone", hint="", chunks=[])
    (row,) = broken_rows(broken)
    assert (row["Time"], row["Who acts"], row["What"]) == (NOW, "you", "Its mirror cannot be read: gone.")
    assert broken_rows(None) == []

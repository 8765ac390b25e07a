"""A verification in the journal: typed when it is written and when it is read back."""

from engine.journal.event_lines import event_from
from engine.journal.verification_events import TableVerified
from engine.journal.verification_summary import Summary, Unreadable


def test_a_verification_is_read_back_as_it_was_written() -> None:
    """The line has the keys of `summary.json`; `unreadable` only if the mirror cannot be read."""
    event = TableVerified(table="d.t", differences=2, summary=Summary("diverged", differences=2, by_kind={"extra": 2}))
    line = event.to_json()
    assert line["summary"] == Summary("diverged", differences=2, by_kind={"extra": 2}).to_json()
    assert "unreadable" not in line["summary"]
    assert event_from("table.verified", line) == event
    broken = Unreadable("2026-01-31T00:00:00Z", "no file", "Resnapshot it", [3])
    event = TableVerified(table="d.t", differences=0, summary=Summary("unverifiable", unreadable=broken))
    assert event_from("table.verified", event.to_json()) == event


def test_a_line_of_another_version_lacks_fields_or_has_more() -> None:
    """What is not there has its default; what this version does not know is left out."""
    line, event = {"table": "d.t", "differences": 0}, TableVerified(table="d.t", differences=0, summary=Summary())
    assert event_from("table.verified", line) == event
    for summary in (None, {}, {"verdict": "", "of_a_later_version": 1}):
        assert event_from("table.verified", {**line, "summary": summary}) == event

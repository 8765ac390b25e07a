"""The errors of one table, and how its schema and its state changed, from the journal."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from app.common.view import words
from app.common.view.status_style import who_acts
from app.live.view import event_feed
from engine.history.event_queries import JournalLine
from engine.journal.events import ErrorReported, TableChanged, TablePlanned, TableStateChanged
from engine.journal.verification_summary import Unreadable

ERRORS = (
    "error",
    "chunk.failed",
    "chunk.parked",
    "chunk.unparked",
    "table.nulled",
    "mirror.written",
    "mirror.behind",
    "format.behind",
    "format.written",
    "source.refused",
    "table.state",
)
SCHEMA = ("source.event", "table.state", "table.planned")
_OUTCOMES = {"evolved": "Evolved in place", "resnapshotted": "Resnapshotted", "stopped": "Stopped"}


def error_rows(lines: Sequence[JournalLine], table: str) -> list[dict[str, object]]:
    """The errors of the table, newest first. A stop counts as an error."""
    own = [line for line in lines if line.table == table or _mentions(line, table)]
    states = [line for line in own if isinstance(line.content, TableStateChanged)]
    table_lines = [line for line in own if not isinstance(line.content, TableStateChanged)] + _changed(states)
    errors = {(line.run, line.seq) for line in table_lines if not _goes_on(line)}
    error_lines = [line for line in event_feed.feed_lines(table_lines) if (line.run, line.seq) in errors]
    return [{"Time": line.ts, "Who acts": line.who, "What": line.whole} for line in error_lines]


def broken_rows(fault: Unreadable | None) -> list[dict[str, object]]:
    """The error of a mirror that cannot be read now, which the journal may not have."""
    if fault is None:
        return []
    what = f"{fault.why[:1].upper()}{fault.why[1:]}."
    return [{"Time": datetime.fromisoformat(fault.at), "Who acts": who_acts("red"), "What": what}]


def _goes_on(line: JournalLine) -> bool:
    """Whether it is a state other than stopped."""
    return isinstance(line.content, TableStateChanged) and line.content.state != "stopped"


def _changed(states: Sequence[JournalLine]) -> list[JournalLine]:
    """The states without those that a later run repeats."""
    changes: list[JournalLine] = []
    last: tuple[str, str | None] | None = None
    for line in sorted(states, key=lambda line: (line.ts, line.seq)):
        if isinstance(line.content, TableStateChanged):
            now = line.content.state, line.content.reason
            if now != last:
                changes.append(line)
            last = now
    return changes


def _mentions(line: JournalLine, table: str) -> bool:
    """Whether an error that belongs to no table names this one, and not one whose name only begins or ends like it."""
    name = rf"(?<![\w.]){re.escape(table)}(?![\w$]|\.\w)"
    if line.table is not None or not isinstance(line.content, ErrorReported):
        return False
    return re.search(name, line.content.message or "") is not None


def schema_rows(lines: Sequence[JournalLine]) -> list[dict[str, object]]:
    """Schema changes, resnapshots and changes of the state, newest first.

    A state that a later run repeats is left out.
    """
    return list(_schema(sorted(lines, key=lambda line: (line.ts, line.seq))))[::-1]


def _schema(lines: Sequence[JournalLine]) -> Iterator[dict[str, object]]:
    """One row per event that changed something, oldest first."""
    state = None
    for line in lines:
        match line.content:
            case TableStateChanged() as event:
                if event.state != state:
                    yield _row(line, f"Table is {event.state}", event.reason)
                state = event.state
            case TablePlanned() as event:
                number = len(event.chunks or ()) or event.estimated_chunks
                yield _row(line, f"Planned {words.plural(number, 'chunk')}" if number else "Planned", event.reason)
            case TableChanged() as event:
                what = _OUTCOMES.get(event.kind, (event.kind or "Changed").capitalize())
                yield _row(line, what, event.reason, event.statement, event.position)


def _row(
    line: JournalLine, what: str, reason: str | None, statement: str | None = None, position: str | None = None
) -> dict[str, object]:
    why = (reason or "").partition("\n")[0]
    return {"Time": line.ts, "What": what, "Statement": statement or "", "Why": why, "Position": position or ""}

"""The errors of one table, and how its schema and its state changed, from the journal."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from app.common.view import words
from app.live.view import event_feed
from engine.history.event_queries import Event

ERRORS = (
    "error",
    "chunk.failed",
    "chunk.parked",
    "chunk.unparked",
    "table.nulled",
    "mirror.written",
    "mirror.behind",
    "table.state",
)
SCHEMA = ("source.event", "table.state", "table.planned")
_OUTCOMES = {"evolved": "Evolved in place", "resnapshotted": "Resnapshotted", "stopped": "Stopped"}


def error_rows(events: Sequence[Event], table: str) -> list[dict[str, object]]:
    """The errors of the table, newest first; that it stopped is one."""
    own = [event for event in events if event.table == table or _mentions(event, table)]
    known = [event for event in own if event.event != "table.state"] + _changed(
        [e for e in own if e.event == "table.state"]
    )
    errors = {(e.run, e.seq) for e in known if e.event != "table.state" or _body(e).get("state") == "stopped"}
    lines = [line for line in event_feed.feed_lines(known) if (line.run, line.seq) in errors]
    return [{"Time": line.ts, "Who acts": line.who, "What": line.whole} for line in lines]


def _changed(states: Sequence[Event]) -> list[Event]:
    """The states without those that a later run repeats."""
    found: list[Event] = []
    last: tuple[Any, Any] | None = None
    for event in sorted(states, key=lambda event: (event.ts, event.seq)):
        body = _body(event)
        now = body.get("state"), body.get("reason")
        if now != last:
            found.append(event)
        last = now
    return found


def _mentions(event: Event, table: str) -> bool:
    """Whether an error that belongs to no table names this one, and not one whose name only begins or ends like it."""
    name = rf"(?<![\w.]){re.escape(table)}(?![\w$]|\.\w)"
    return event.table is None and re.search(name, str(_body(event).get("message") or "")) is not None


def schema_rows(events: Sequence[Event]) -> list[dict[str, object]]:
    """Schema changes, resnapshots and changes of the state, newest first.

    A state that a later run repeats is left out.
    """
    return list(_schema(sorted(events, key=lambda event: (event.ts, event.seq))))[::-1]


def _schema(events: Sequence[Event]) -> Iterator[dict[str, object]]:
    """One row per event that changed something, oldest first."""
    state = None
    for event in events:
        body, what = _body(event), ""
        if event.event == "table.state":
            if body.get("state") == state:
                continue
            state = body.get("state")
            what = f"Table is {state}"
        elif event.event == "table.planned":
            number = len(body.get("chunks") or []) or body.get("estimated_chunks")
            what = f"Planned {words.plural(number, 'chunk')}" if number else "Planned"
        else:
            what = _OUTCOMES.get(str(body.get("kind")), str(body.get("kind") or "Changed").capitalize())
        yield {
            "Time": event.ts,
            "What": what,
            "Statement": str(body.get("statement") or ""),
            "Why": str(body.get("reason") or "").partition("\n")[0],
            "Position": str(body.get("position") or ""),
        }


def _body(event: Event) -> dict[str, Any]:
    try:
        body = json.loads(event.body)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}

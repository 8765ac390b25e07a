"""The journal as a log: events, newest first, and what became of a command."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from engine.history.fetch import Cursor, fetch


@dataclass(frozen=True)
class Event:
    """One journal line; `body` is its JSON text."""

    ts: datetime
    run: str
    seq: int
    event: str
    table: str | None
    body: str


@dataclass(frozen=True)
class Answer:
    """What the runner said about a command: `event` is command.accepted, command.refused or command.done."""

    ts: datetime
    id: str
    event: str
    verb: str | None
    message: str | None
    duration_s: float | None


_EVENTS = """
SELECT ts, run, seq, event, tbl, body FROM event
WHERE pipeline = $pipeline AND ($run IS NULL OR run = $run) AND list_contains($names, event)
      AND ($text = '' OR contains(lower(body), lower($text)))
ORDER BY ts DESC, seq DESC LIMIT $limit
"""

_ANSWERS = """
SELECT ts, body->>'$.id', event, body->>'$.verb', body->>'$.message', TRY_CAST(body->>'$.duration_s' AS DOUBLE)
FROM event WHERE pipeline = $pipeline AND event IN ('command.accepted', 'command.refused', 'command.done')
      AND list_contains($ids, body->>'$.id')
ORDER BY ts, seq
"""


def events(
    cursor: Cursor, pipeline: str, names: Collection[str], *, text: str = "", run: str | None = None, limit: int = 500
) -> list[Event]:
    """Events of these names whose line contains `text`, newest first."""
    parameters = {"pipeline": pipeline, "names": sorted(names), "text": text, "run": run, "limit": limit}
    return fetch(cursor, Event, _EVENTS, parameters)


def answers(cursor: Cursor, pipeline: str, ids: Collection[str]) -> list[Answer]:
    """The runner's answers to these commands, oldest first."""
    return fetch(cursor, Answer, _ANSWERS, {"pipeline": pipeline, "ids": sorted(ids)}) if ids else []

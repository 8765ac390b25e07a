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
    mended: bool = False
    """Of chunks that failed: all of them were read since."""


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
WITH chosen AS (
    SELECT ts, run, seq, event, tbl, body FROM event
    WHERE pipeline = $pipeline AND ($run IS NULL OR run = $run) AND list_contains($names, event)
          AND ($text = '' OR contains(lower(body), lower($text)))
    ORDER BY ts DESC, seq DESC LIMIT $limit),
reached AS (SELECT tbl, chunk, max(ts) AS ts FROM finished WHERE pipeline = $pipeline GROUP BY ALL),
faults AS (
    SELECT f.run, f.seq, bool_and(coalesce(reached.ts > f.ts, FALSE)) AS mended
    FROM failed f SEMI JOIN chosen ON chosen.run = f.run AND chosen.seq = f.seq
    LEFT JOIN reached ON reached.tbl = f.tbl AND reached.chunk = f.chunk
    WHERE f.pipeline = $pipeline GROUP BY f.run, f.seq)
SELECT ts, run, seq, event, tbl, body, coalesce(mended, FALSE) FROM chosen LEFT JOIN faults USING (run, seq)
ORDER BY ts DESC, seq DESC
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

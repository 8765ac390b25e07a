"""The journal as a log: events, newest first, and the answers to commands."""

import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from engine.history.fetch import Cursor, fetch, fetch_one, naive
from engine.journal.event_lines import event_from
from engine.journal.events import Event


@dataclass(frozen=True)
class JournalLine:
    """One line of a journal."""

    ts: datetime
    run: str
    seq: int
    event: str
    """The event's name."""
    table: str | None
    body: str
    """The JSON text of the line."""
    resolved: bool = False
    """Whether a failure is over. For failed or parked chunks: all were read since, or their table was planned again.
    For other errors: the time of the retry has passed, so a newer line says how it went."""

    @cached_property
    def content(self) -> Event | None:
        """The event; fields that the line lacks are null. None if this version does not know it."""
        body: Any = {}
        with suppress(ValueError):
            body = json.loads(self.body)
        return event_from(self.event, body if isinstance(body, dict) else {})


@dataclass(frozen=True)
class CommandAnswer:
    """The runner's answer to a command: `event` is command.accepted, command.refused or command.done."""

    ts: datetime
    id: str
    event: str
    verb: str | None
    message: str | None
    duration_s: float | None
    begun: str | None = None
    """The tables whose resnapshot the command has begun, as JSON; they can be read as they were until it is
    complete."""


# Names are joined, not `list_contains`: DuckDB then skips the text of all other lines.
_MANY = """
    ($run IS NULL OR run = $run) AND event IN (SELECT unnest($names))
          AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
          AND ($text = '' OR contains(lower(body), lower($text)))
          AND ($table IS NULL OR tbl = $table OR (tbl IS NULL AND event = 'error' \
AND contains(body->>'$.message', $table)))
    ORDER BY ts DESC, seq DESC LIMIT $limit
"""


def _lines(which: str) -> str:
    """The query for the events of which this is true."""
    return f"""
WITH chosen AS (SELECT ts, run, seq, event, tbl, body FROM event WHERE pipeline = $pipeline AND {which}),
bad AS (
    SELECT run, seq, ts, tbl, chunk FROM failed SEMI JOIN (SELECT run, seq FROM chosen) USING (run, seq) \
WHERE pipeline = $pipeline
    UNION ALL SELECT run, seq, ts, tbl, TRY_CAST(body->>'$.chunk' AS BIGINT) FROM chosen WHERE event = 'chunk.parked'),
reached AS (
    SELECT tbl, chunk, max((ts, seq)) AS at FROM finished SEMI JOIN (SELECT tbl, chunk FROM bad) USING (tbl, chunk)
    WHERE pipeline = $pipeline GROUP BY ALL),
replanned AS (
    SELECT tbl, max((ts, seq)) AS at FROM planned SEMI JOIN (SELECT tbl FROM bad) USING (tbl)
    WHERE pipeline = $pipeline GROUP BY ALL),
faults AS (
    SELECT bad.run, bad.seq,
           bool_and(coalesce(reached.at > (bad.ts, bad.seq), FALSE)
                    OR coalesce(replanned.at > (bad.ts, bad.seq), FALSE)) AS resolved
    FROM bad
    LEFT JOIN reached ON reached.tbl = bad.tbl AND reached.chunk = bad.chunk
    LEFT JOIN replanned ON replanned.tbl = bad.tbl
    GROUP BY bad.run, bad.seq)
SELECT ts, run, seq, event, tbl, body,
       coalesce(resolved, event = 'error' \
AND ts + to_milliseconds((1000 * TRY_CAST(body->>'$.retry_in_s' AS DOUBLE))::BIGINT)
                        < (SELECT max(ts) FROM lag WHERE pipeline = $pipeline), FALSE)
FROM chosen LEFT JOIN faults USING (run, seq)
ORDER BY ts DESC, seq DESC
"""


_EVENTS, _ONE = _lines(_MANY), _lines("run = $run AND seq = $seq")

_ANSWERS = """
SELECT ts, body->>'$.id', event, body->>'$.verb', body->>'$.message', TRY_CAST(body->>'$.duration_s' AS DOUBLE),
       body->'$.result.begun'
FROM event WHERE pipeline = $pipeline AND event IN ('command.accepted', 'command.refused', 'command.done')
      AND list_contains($ids, body->>'$.id')
ORDER BY ts, seq
"""


def events(
    cursor: Cursor,
    pipeline: str,
    names: Collection[str],
    *,
    text: str = "",
    run: str | None = None,
    table: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 500,
) -> list[JournalLine]:
    """Events of these names whose line contains `text`, newest first.

    table: only those of it, and errors that mention it. since: only those then or later. until: only those before.
    """
    parameters = {
        "pipeline": pipeline,
        "names": sorted(names),
        "text": text,
        "run": run,
        "table": table,
        "since": since and naive(since),
        "until": until and naive(until),
        "limit": limit,
    }
    return fetch(cursor, JournalLine, _EVENTS, parameters)


def one(cursor: Cursor, pipeline: str, run: str, seq: int) -> JournalLine | None:
    """One event; None if the index does not have it."""
    return fetch_one(cursor, JournalLine, _ONE, {"pipeline": pipeline, "run": run, "seq": seq})


def answers(cursor: Cursor, pipeline: str, ids: Collection[str]) -> list[CommandAnswer]:
    """The runner's answers to these commands, oldest first."""
    return fetch(cursor, CommandAnswer, _ANSWERS, {"pipeline": pipeline, "ids": sorted(ids)}) if ids else []


_APPEARED = """
SELECT body->'$.names' FROM event WHERE pipeline = $pipeline AND event = 'source.hidden' \
AND body->>'$.kind' = 'new_tables'
ORDER BY ts DESC, seq DESC LIMIT 1"""


def appeared(cursor: Cursor, pipeline: str) -> list[str]:
    """The tables that match the spec and are not captured, as a run found them last."""
    names = fetch_one(cursor, str, _APPEARED, {"pipeline": pipeline})
    return [str(name) for name in json.loads(names)] if names else []

"""Redumps: who requested each one, why, its progress and its result."""

from dataclasses import dataclass
from datetime import datetime

from engine.history.fetch import Cursor, fetch


@dataclass(frozen=True)
class Redumped:
    """A requested redump."""

    id: str
    requested_at: datetime
    what: str | None
    actor: str | None
    reason: str | None
    state: str
    """One of: "under way", "done", "refused"."""
    message: str | None
    parts: int
    rows: int
    ghosts: int
    """`parts`, `rows` and `ghosts` are those committed so far by the newest run that executed it."""
    missing: int | None
    """Requested keys that do not exist; known once the redump is done."""
    duration_s: float | None
    range: str | None = None
    """The requested bounds, as JSON."""
    keys: str | None = None
    """The first requested keys, as JSON."""
    begun: str | None = None
    """The tables whose resnapshot it has begun, as JSON."""


_REDUMPS = """
WITH e AS (SELECT ts, seq, run, event, body, body->>'$.id' AS id FROM event
           WHERE pipeline = $pipeline AND event IN ('command.accepted', 'command.refused', 'command.done', \
'redump.chunk')),
asked AS (
    SELECT id, min(ts) AS asked, any_value(body->>'$.what') AS what, any_value(body->>'$.range') AS range,
           any_value(body->>'$.keys') AS keys, any_value(body->>'$.actor') AS actor, \
any_value(body->>'$.reason') AS reason
    FROM e WHERE event IN ('command.accepted', 'command.refused') AND body->>'$.verb' = 'redump' GROUP BY id),
answered AS (
    SELECT id, arg_max({'event': event, 'body': body}, (ts, seq)) AS last FROM e
    WHERE event IN ('command.refused', 'command.done') GROUP BY id),
parts AS (
    SELECT id, run, count(*) AS parts, sum(CAST(body->>'$.rows' AS BIGINT)) AS rows,
           sum(CAST(body->>'$.ghosts' AS BIGINT)) AS ghosts
    FROM e WHERE event = 'redump.chunk' GROUP BY id, run \
QUALIFY row_number() OVER (PARTITION BY id ORDER BY max(ts) DESC) = 1)
SELECT id, asked, what, actor, nullif(reason, ''),
       CASE last.event WHEN 'command.done' THEN 'done' WHEN 'command.refused' THEN 'refused' ELSE 'under way' END,
       last.body->>'$.message', coalesce(parts, 0), coalesce(rows, 0)::BIGINT, coalesce(ghosts, 0)::BIGINT,
       TRY_CAST(last.body->>'$.result.missing_keys' AS BIGINT), TRY_CAST(last.body->>'$.duration_s' AS DOUBLE), range, \
keys,
       last.body->'$.result.begun'
FROM asked LEFT JOIN answered USING (id) LEFT JOIN parts USING (id) ORDER BY asked DESC LIMIT $limit
"""


def redumps(cursor: Cursor, pipeline: str, limit: int = 50) -> list[Redumped]:
    """Redumps, newest first."""
    return fetch(cursor, Redumped, _REDUMPS, {"pipeline": pipeline, "limit": limit})

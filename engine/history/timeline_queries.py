"""What the timeline of a run shows.

A bounded number of events, when tables were copied, and when the lag was small again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from engine.history.fetch import Cursor, fetch, naive


@dataclass(frozen=True)
class Moment:
    """An event of the timeline."""

    ts: datetime
    run: str
    seq: int
    event: str
    table: str | None
    label: str
    """The state, kind, outcome or verb that it reports; empty without one."""
    text: str | None
    """Its reason, statement or message."""
    id: str
    """What an event and the one that ends it have in common: the id of a command, the name of an alert; else empty."""
    since: str | None
    """When its cause began, of an outage and of an alert: UTC text."""


@dataclass(frozen=True)
class Copying:
    """From here on a run copies at least one table, or none."""

    ts: datetime
    run: str
    copies: bool


@dataclass(frozen=True)
class CaughtUp:
    """The first small lag at or after an instant."""

    start: datetime
    reached: datetime | None


# Repeated alerts and further attempts of an outage say nothing new. Before `since`, only what is still open there
# counts.
_MOMENTS = """
WITH known AS (
    SELECT ts, run, seq, event, tbl,
           coalesce(body->>'$.state', body->>'$.kind', body->>'$.outcome', body->>'$.verb', '') AS label,
           coalesce(body->>'$.reason', body->>'$.statement', body->>'$.message') AS text,
           CASE WHEN event LIKE 'alert.%' THEN concat_ws(' ', body->>'$.kind', tbl, body->>'$.since')
                ELSE coalesce(body->>'$.id', '') END AS id,
           body->>'$.since' AS since
    FROM event WHERE pipeline = $pipeline AND ts < $until
         AND (event IN ('run.started', 'run.connected', 'run.state', 'run.ended', 'source.away', 'source.back')
              OR (event IN ('command.accepted', 'command.refused', 'command.done') AND body->>'$.verb' = 'redump')
              OR event = 'alert.cleared' OR (event = 'alert.raised' AND coalesce(body->>'$.repeat', '0') = '0')
              OR (ts >= $since AND event IN ('source.event', 'source.failover', 'chunk.parked'))
              OR (ts >= $since AND event = 'table.state' AND body->>'$.state' = 'stopped'))
    QUALIFY event <> 'source.away' OR row_number() OVER (PARTITION BY event, since ORDER BY ts, seq) = 1),
before AS (
    SELECT * FROM known WHERE ts < $since
    QUALIFY row_number() OVER (
        PARTITION BY CASE WHEN event LIKE 'source.%' THEN 'source' WHEN id <> '' THEN id ELSE event END
        ORDER BY ts DESC, seq DESC) = 1),
open AS (
    SELECT * FROM before WHERE event NOT IN ('alert.cleared', 'command.refused', 'command.done')
    ORDER BY event LIKE 'run.%' DESC, ts DESC LIMIT 100),
inside AS (SELECT * FROM known WHERE ts >= $since ORDER BY ts DESC, seq DESC LIMIT $limit)
FROM (FROM open UNION ALL FROM inside) ORDER BY ts, run, seq
"""

# A run reports the state of every table when it starts.
_COPYING = """
WITH base AS (
    SELECT coalesce(max(ts), TIMESTAMP '1970-01-01') AS ts FROM event
    WHERE pipeline = $pipeline AND event = 'run.started' AND ts <= $since),
reported AS (
    SELECT ts, run, seq, tbl, CAST(body->>'$.state' = 'copying' AS INTEGER) AS copies FROM event
    WHERE pipeline = $pipeline AND event = 'table.state' AND ts >= (SELECT ts FROM base) AND ts < $until),
steps AS (
    SELECT ts, run, seq, copies - lag(copies, 1, 0) OVER (PARTITION BY run, tbl ORDER BY seq) AS step FROM reported),
counted AS (
    SELECT ts, run, seq, sum(step) OVER (PARTITION BY run ORDER BY seq ROWS UNBOUNDED PRECEDING) > 0 AS copies
    FROM steps WHERE step <> 0)
SELECT ts, run, copies FROM counted
QUALIFY copies <> lag(copies, 1, FALSE) OVER (PARTITION BY run ORDER BY seq)
ORDER BY ts DESC, seq DESC LIMIT $limit
"""

_CAUGHT_UP = """
SELECT s.at, l.ts FROM (SELECT unnest($starts) AS at) s ASOF LEFT JOIN (
    SELECT ts FROM lag WHERE pipeline = $pipeline AND ts >= $since AND lag_s <= $fine_s) l ON s.at <= l.ts
ORDER BY s.at
"""


def moments(cursor: Cursor, pipeline: str, since: datetime, until: datetime, limit: int = 500) -> list[Moment]:
    """The newest events in `[since, until)`, oldest first, after those that tell what was under way at `since`."""
    parameters = {"pipeline": pipeline, "since": naive(since), "until": naive(until), "limit": limit}
    return fetch(cursor, Moment, _MOMENTS, parameters)


def copying(cursor: Cursor, pipeline: str, since: datetime, until: datetime, limit: int = 500) -> list[Copying]:
    """When runs began and ended to copy tables, oldest first; from the run on that was the newest at `since`."""
    parameters = {"pipeline": pipeline, "since": naive(since), "until": naive(until), "limit": limit}
    return fetch(cursor, Copying, _COPYING, parameters)[::-1]


def caught_up(cursor: Cursor, pipeline: str, starts: Sequence[datetime], fine_s: float) -> list[CaughtUp]:
    """For each instant the first reading at or after it with a lag of at most `fine_s`."""
    if not starts:
        return []
    naives = [naive(start) for start in starts]
    parameters = {"pipeline": pipeline, "starts": naives, "since": min(naives), "fine_s": fine_s}
    return fetch(cursor, CaughtUp, _CAUGHT_UP, parameters)

"""Tables: plan, state and progress."""

from dataclasses import dataclass
from datetime import datetime

from engine.history.chunks import PROGRESS
from engine.history.fetch import Cursor, fetch


@dataclass(frozen=True)
class Plan:
    """A table's newest plan."""

    table: str
    planned: datetime
    approx_rows: int | None
    chunk_key: str
    min: str | None
    max: str | None
    distribution_factor: float | None
    strategy: str | None
    reason: str | None
    chunks: int


@dataclass(frozen=True)
class Progress:
    """How far a table is. `chunks` are those of its newest plan; `rows` those of finished and published chunks."""

    table: str
    state: str | None
    """copying, streaming or stopped."""
    reason: str | None
    """Why it stopped."""
    approx_rows: int | None
    chunks: int
    waiting: int
    reading: int
    failed: int
    finished: int
    published: int
    rows: int
    changes: int
    first_started: datetime | None
    last_ended: datetime | None

    @property
    def done(self) -> int:
        """Chunks whose rows are read."""
        return self.finished + self.published


_PLANS = """
SELECT tbl, ts, approx_rows, chunk_key, min, max, factor, strategy, reason, chunks FROM planned
WHERE pipeline = $pipeline QUALIFY row_number() OVER (PARTITION BY tbl ORDER BY ts DESC, seq DESC) = 1 ORDER BY tbl
"""

_PROGRESS = (
    PROGRESS
    + """
, counted AS (
    SELECT tbl, count(*) AS chunks, count(*) FILTER (state = 'waiting') AS waiting,
           count(*) FILTER (state = 'reading') AS reading, count(*) FILTER (state = 'failed') AS failed,
           count(*) FILTER (state = 'finished') AS finished, count(*) FILTER (state = 'published') AS published,
           coalesce(sum(d.rows) FILTER (state IN ('finished', 'published')), 0)::BIGINT AS rows,
           min(d.started) AS first_started, max(d.ended) AS last_ended
    FROM progress GROUP BY tbl),
states AS (SELECT tbl, arg_max(body->>'$.state', (ts, seq)) AS state,
                  arg_max(body->>'$.reason', (ts, seq)) FILTER (body->>'$.state' = 'stopped') AS stopped FROM event
           WHERE pipeline = $pipeline AND event = 'table.state' GROUP BY tbl),
sums AS (SELECT tbl, sum(changes)::BIGINT AS changes FROM changed WHERE pipeline = $pipeline GROUP BY tbl),
sizes AS (SELECT tbl, arg_max(approx_rows, (ts, seq)) AS approx_rows FROM planned WHERE pipeline = $pipeline GROUP BY tbl),
names AS (SELECT tbl FROM counted UNION SELECT tbl FROM states UNION SELECT tbl FROM sums)
SELECT tbl, state, CASE WHEN state = 'stopped' THEN stopped END, approx_rows, coalesce(chunks, 0), coalesce(waiting, 0),
       coalesce(reading, 0), coalesce(failed, 0), coalesce(finished, 0), coalesce(published, 0), coalesce(rows, 0),
       coalesce(changes, 0), first_started, last_ended
FROM names LEFT JOIN counted USING (tbl) LEFT JOIN states USING (tbl) LEFT JOIN sums USING (tbl) LEFT JOIN sizes USING (tbl)
WHERE tbl IS NOT NULL ORDER BY tbl
"""
)


def plans(cursor: Cursor, pipeline: str) -> list[Plan]:
    """The newest plan of each table."""
    return fetch(cursor, Plan, _PLANS, {"pipeline": pipeline})


def progress(cursor: Cursor, pipeline: str) -> list[Progress]:
    """How far each table is, by name."""
    return fetch(cursor, Progress, _PROGRESS, {"pipeline": pipeline, "table": None})

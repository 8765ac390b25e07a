"""Tables: plan, state and progress.

A table may be split while it is copied. Then `chunks` are those known now, `estimated_chunks` is the estimate from the server's
statistics, and `complete` says that no more chunks follow, except for chunks that are split again.
"""

from dataclasses import dataclass
from datetime import datetime

from engine.history.chunk_queries import PLAN, PROGRESS
from engine.history.fetch import Cursor, aware, fetch


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
    chunk_rows: int | None
    estimated_chunks: int | None
    complete: bool
    last_chunk: int | None
    """The highest chunk number; chunks with lower numbers may not exist yet."""

    @property
    def expected_chunks(self) -> int:
        """The expected number of chunks."""
        return expected(self.chunks, self.estimated_chunks, complete=self.complete)


@dataclass(frozen=True)
class Progress:
    """How far a table is, by its newest plan.

    A table without a plan, or a removed one, has no chunks and is `complete`: none will follow.
    """

    table: str
    state: str | None
    """copying, streaming, stopped or removed."""
    reason: str | None
    """Why it stopped."""
    approx_rows: int | None
    chunks: int
    estimated_chunks: int | None
    complete: bool
    waiting: int
    reading: int
    failed: int
    finished: int
    published: int
    rows: int
    """Rows of finished and published chunks."""
    changes: int
    first_started: datetime | None
    last_ended: datetime | None

    @property
    def done(self) -> int:
        """The number of chunks that are read."""
        return self.finished + self.published

    @property
    def expected_chunks(self) -> int:
        """The expected number of chunks."""
        return expected(self.chunks, self.estimated_chunks, complete=self.complete)

    @property
    def planned(self) -> bool:
        """Whether there is anything to copy: chunks, or a plan whose chunks follow."""
        return self.chunks > 0 or not self.complete

    @property
    def copied(self) -> bool:
        """Whether no chunk remains to be read or split off."""
        return self.complete and self.done == self.chunks


def expected(known: int, estimated: int | None, *, complete: bool) -> int:
    """The known chunks if the table is completely split; otherwise the estimate, but never fewer than are known."""
    return known if complete else max(known, estimated or 0)


_PLANS = (
    PLAN
    + """
SELECT tbl, ts, approx_rows, chunk_key, min, max, factor, strategy, reason, coalesce(n, 0), chunk_rows, estimated_chunks,
       complete, last_chunk
FROM extent LEFT JOIN (SELECT tbl, count(*) AS n, max(chunk) AS last_chunk FROM plan GROUP BY tbl) USING (tbl) ORDER BY tbl
"""
)

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
here AS (SELECT * FROM counted WHERE tbl NOT IN (SELECT tbl FROM states WHERE state = 'removed')),
sums AS (SELECT tbl, sum(changes)::BIGINT AS changes FROM changed WHERE pipeline = $pipeline GROUP BY tbl),
sizes AS (SELECT tbl, approx_rows, estimated_chunks, complete FROM extent),
names AS (SELECT tbl FROM sizes UNION SELECT tbl FROM states UNION SELECT tbl FROM sums)
SELECT tbl, state, CASE WHEN state = 'stopped' THEN stopped END, approx_rows, coalesce(chunks, 0), estimated_chunks,
       coalesce(state = 'removed', FALSE) OR coalesce(complete, TRUE), coalesce(waiting, 0), coalesce(reading, 0),
       coalesce(failed, 0), coalesce(finished, 0),
       coalesce(published, 0), coalesce(rows, 0), coalesce(changes, 0), first_started, last_ended
FROM names LEFT JOIN here USING (tbl) LEFT JOIN states USING (tbl) LEFT JOIN sums USING (tbl) LEFT JOIN sizes USING (tbl)
WHERE tbl IS NOT NULL ORDER BY tbl
"""
)

_COPIED = """
SELECT min(ts) FROM event WHERE pipeline = $pipeline AND tbl = $table AND event = 'table.state'
    AND body->>'$.state' = 'streaming' AND (ts, seq) > coalesce((
        SELECT max((ts, seq)) FROM event WHERE pipeline = $pipeline AND tbl = $table AND event = 'table.state'
        AND body->>'$.state' <> 'streaming'), (TIMESTAMP 'epoch', 0))
"""


def plans(cursor: Cursor, pipeline: str, table: str | None = None) -> list[Plan]:
    """The newest plan of each table, or of one."""
    return fetch(cursor, Plan, _PLANS, {"pipeline": pipeline, "table": table})


def progress(cursor: Cursor, pipeline: str) -> list[Progress]:
    """The progress of each table, by name."""
    return fetch(cursor, Progress, _PROGRESS, {"pipeline": pipeline, "table": None})


def copied_at(cursor: Cursor, pipeline: str, table: str) -> datetime | None:
    """When the table's last copy was completed; None while it is being copied, or if it is not captured."""
    found = cursor.execute(_COPIED, {"pipeline": pipeline, "table": table}).fetchone()
    at: datetime | None = aware(found[0]) if found else None
    return at

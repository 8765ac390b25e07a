"""Chunks: their states over all runs, and the details of one chunk.

Only committed chunks count. An epoch commits the chunks that its run reported before it and whose high watermark it
reaches (docs/correctness.md). So a chunk is `published` if its run has a later epoch at or after that watermark. It is
also published if a later run found it committed, or streams the table, which needs all chunks: a runner that is killed
between ledger and journal does not journal its last epoch. `finished` and `reading` apply to the newest run only,
because uncommitted files of earlier runs are discarded.

A table's chunks are those of its newest `table.planned` and of every later `chunk.planned`, in any run. A chunk that
was planned again has its newest bounds. Reads before the newest plan, or of another range, do not count.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from engine.history.chunk_values import ATTEMPTS, MEASURES, READ, Measure
from engine.history.fetch import Cursor, fetch, fetch_one, naive

STATES = ("waiting", "reading", "failed", "parked", "finished", "published")
"""The states of a chunk, in order of progress."""


class ChunkState(NamedTuple):
    """A chunk of the chunk map. A tuple: a table may have 100 000 of them, and they are read every two seconds."""

    chunk: int
    state: str
    value: float | None = None
    """Of the measure that was asked for (`chunk_values.MEASURES`); None if the journals have none."""
    lower: str | None = None
    upper: str | None = None
    """The bounds; left out where no single chunks are shown."""


@dataclass(frozen=True)
class ChunkDetails:
    """The details of a chunk. Everything after `state` is None until a reader has reported it."""

    table: str
    chunk: int
    lower: str | None
    upper: str | None
    state: str
    run: str | None
    low: str | None
    high: str | None
    gap_bytes: int | None
    rows: int | None
    backfill_changes: int | None
    backfill_deleted: int | None
    backfill_upserted: int | None
    file: str | None
    bytes: int | None
    low_s: float | None
    read_s: float | None
    high_s: float | None
    backfill_s: float | None
    write_s: float | None
    started: datetime | None
    ended: datetime | None
    reader: str | None
    host: str | None
    pid: int | None
    attempt: int | None
    attempts: int | None
    """With those that failed, since the table was planned."""
    group: str | None
    epoch: int | None
    error: str | None
    """The last failure, if it came after the last successful read."""
    retry_in_s: float | None


@dataclass(frozen=True)
class Read:
    """How a reader spent its time on one chunk."""

    reader: str
    host: str | None
    pid: int | None
    table: str
    chunk: int
    started: datetime
    ended: datetime
    rows: int
    gap_bytes: int | None
    attempt: int | None
    """Spark's attempts count from 0."""
    bytes: int
    """Bytes of its file."""


@dataclass(frozen=True)
class RowRead:
    """The read of the chunk that has a row."""

    chunk: int
    ended: datetime | None
    high: str | None
    """Its high watermark: the read has the row as it was there."""


@dataclass(frozen=True)
class Window:
    """The binlog range between a chunk's two watermarks."""

    table: str
    chunk: int
    low: str
    high: str
    gap_bytes: int | None
    """None if the window spans several binlog files, whose lengths the journal does not have."""
    changes: int


_LINES = 1 << 62
"""More than a journal can have."""
_COMMITTED = 1 << 120
"""More than any moment."""


def moment(of: str = "") -> str:
    """SQL: a line's time and `seq` as one number.

    DuckDB's `max` and `arg_max` of numbers take a tenth of those of structs.

    of: the table's alias with a dot.
    """
    return f"(epoch_us({of}ts)::HUGEINT * {_LINES} + {of}seq)"


def planned(which: str = "TRUE") -> str:
    """Common table expressions: the newest plans.

    `latest`: a row per table with its newest plan. `extent`: the same, and whether the table is completely split (a
    table that streams was copied completely). `plan`: a row per chunk with its newest bounds.

    which: a condition for the tables, about `tbl`.
    """
    return f"""
WITH streamed AS (
    SELECT tbl, max(ts) AS ts FROM stated WHERE pipeline = $pipeline AND state = 'streaming' GROUP BY tbl),
latest AS (
    SELECT * FROM planned WHERE pipeline = $pipeline AND ($table IS NULL OR tbl = $table) AND {which}
    QUALIFY row_number() OVER (PARTITION BY tbl ORDER BY ts DESC, seq DESC) = 1),
whole AS (
    SELECT tbl, arg_max(complete, (ts, seq)) AS complete, max((ts, seq)) AS at FROM split WHERE pipeline = $pipeline \
GROUP BY tbl),
extent AS (
    SELECT l.*, coalesce(streamed.ts >= l.ts, FALSE)
                OR CASE WHEN whole.at >= (l.ts, l.seq) THEN whole.complete = 1 ELSE l.chunks > 0 END AS complete
    FROM latest l LEFT JOIN whole ON whole.tbl = l.tbl LEFT JOIN streamed ON streamed.tbl = l.tbl),
plan AS (
    SELECT c.tbl, c.chunk, max(l.ts) AS planned_at, arg_max_null(c.lower, {moment("c.")}) AS lower,
           arg_max_null(c.upper, {moment("c.")}) AS upper
    FROM planned_chunk c JOIN latest l ON c.pipeline = $pipeline AND c.tbl = l.tbl AND (c.ts, c.seq) >= (l.ts, l.seq)
    GROUP BY ALL)
"""


def chunk_progress(which: str = "TRUE") -> str:
    """`planned` and more, ending with `progress`: a row per chunk with its state."""
    return (
        planned(which)
        + f"""
, newest AS (SELECT arg_max(run, ts) AS run FROM begun WHERE pipeline = $pipeline),
reached AS (SELECT run, max(seq) AS seq, max(to_at) AS to_at FROM epoch WHERE pipeline = $pipeline GROUP BY run),
read AS (
    SELECT f.*, (r.seq IS NOT NULL)::HUGEINT * {_COMMITTED} + {moment("f.")} AS place FROM finished f
    JOIN latest l ON f.pipeline = $pipeline AND f.tbl = l.tbl AND f.ts >= l.ts
    LEFT JOIN reached r ON r.run = f.run AND r.seq > f.seq AND r.to_at >= f.high_at),
done AS (
    SELECT tbl, chunk, lower, upper, max(place) >= {_COMMITTED} AS committed, arg_max(ts, place) AS ts, \
arg_max(seq, place) AS seq,
           arg_max(run, place) AS run, arg_max_null(rows, place) AS rows, arg_max_null(attempt, place) AS attempt,
           arg_max_null(started, place) AS started, arg_max_null(ended, place) AS ended FROM read GROUP BY ALL),
taken AS (
    SELECT tbl, chunk, max({moment()}) AS at FROM assigned
    WHERE pipeline = $pipeline AND run = (SELECT run FROM newest) AND tbl IN (SELECT tbl FROM latest) GROUP BY ALL),
bad AS (
    SELECT tbl, chunk, arg_max(failed, (ts, seq)) AS last, max({moment()}) AS at FROM failed
    WHERE pipeline = $pipeline AND run = (SELECT run FROM newest) AND ($table IS NULL OR tbl = $table) GROUP BY ALL),
known AS (
    SELECT tbl, chunk, max(ts) AS ts FROM (
        SELECT tbl, unnest(range(first, last + 1)) AS chunk, ts FROM resumed
        WHERE pipeline = $pipeline AND ($table IS NULL OR tbl = $table)) GROUP BY ALL),
parked_at AS (
    SELECT tbl, chunk, max({moment()}) AS at FROM parked
    WHERE pipeline = $pipeline AND run = (SELECT run FROM newest) AND ($table IS NULL OR tbl = $table) GROUP BY ALL),
progress AS (
    SELECT plan.tbl, plan.chunk, plan.lower, plan.upper, bad.last AS b,
           done.run AS read_run, done.seq AS read_seq, done.ts AS read_at, done.rows, done.attempt, done.started, \
done.ended,
           CASE WHEN done.committed OR streamed.ts IS NOT NULL OR known.chunk IS NOT NULL THEN 'published'
                WHEN done.run = (SELECT run FROM newest) THEN 'finished'
                WHEN parked_at.at >= coalesce(taken.at, parked_at.at) THEN 'parked'
                WHEN bad.at >= coalesce(taken.at, bad.at) THEN 'failed'
                WHEN taken.at IS NOT NULL THEN 'reading'
                ELSE 'waiting' END AS state
    FROM plan
    LEFT JOIN done ON done.tbl = plan.tbl AND done.chunk = plan.chunk
        AND done.lower IS NOT DISTINCT FROM plan.lower AND done.upper IS NOT DISTINCT FROM plan.upper
    LEFT JOIN streamed ON streamed.tbl = plan.tbl AND streamed.ts >= plan.planned_at
    LEFT JOIN known ON known.tbl = plan.tbl AND known.chunk = plan.chunk AND known.ts >= plan.planned_at
    LEFT JOIN taken ON taken.tbl = plan.tbl AND taken.chunk = plan.chunk
    LEFT JOIN bad ON bad.tbl = plan.tbl AND bad.chunk = plan.chunk
    LEFT JOIN parked_at ON parked_at.tbl = plan.tbl AND parked_at.chunk = plan.chunk)
"""
    )


PLAN, PROGRESS = planned(), chunk_progress()

_STATES = """
SELECT p.chunk, p.state, {value}, CASE WHEN {single} THEN p.lower END, CASE WHEN {single} THEN p.upper END
FROM progress p {joins} ORDER BY p.chunk
"""
_SINGLE = "($first <= p.chunk AND p.chunk <= $last OR count(*) OVER () <= $few)"
_STATE = Measure("NULL")

_CHUNK = (
    PROGRESS
    + ATTEMPTS.tables
    + f"""
SELECT p.tbl, p.chunk, p.lower, p.upper, p.state, f.run, f.low, f.high, f.gap_bytes, f.rows, f.backfill_changes, \
f.backfill_deleted,
       f.backfill_upserted, f.file, f.bytes, f.low_s, f.read_s, f.high_s, f.backfill_s, f.write_s, f.started, f.ended,
       f.reader, f.host, f.pid, f.attempt, {ATTEMPTS.value}, f.grp,
       (SELECT min(e.epoch) FROM epoch e WHERE e.pipeline = $pipeline AND e.run = f.run AND e.seq > f.seq \
AND e.to_at >= f.high_at),
       CASE WHEN b.ts > coalesce(p.read_at, TIMESTAMP 'epoch') \
THEN concat_ws(': ', b.error, b.message) END, b.retry_in_s
FROM progress p {READ} {ATTEMPTS.joins}
WHERE p.chunk = $chunk
"""
)

_READS = """
SELECT coalesce(reader, '?'), host, pid, tbl, chunk, started, ended, coalesce(rows, 0), gap_bytes, attempt,
       coalesce(bytes, 0) FROM finished
WHERE pipeline = $pipeline AND ($run IS NULL OR run = $run) AND started IS NOT NULL AND ended IS NOT NULL
      AND ($since IS NULL OR ended >= $since)
ORDER BY ended DESC LIMIT $limit
"""

_READ_OF = """
SELECT chunk, ended, high FROM finished
WHERE pipeline = $pipeline AND tbl = $table AND ($before IS NULL OR ended < $before)
      AND (lower IS NULL OR TRY_CAST(lower AS DECIMAL(38, 9)) <= TRY_CAST($key AS DECIMAL(38, 9)))
      AND (upper IS NULL OR TRY_CAST(upper AS DECIMAL(38, 9)) > TRY_CAST($key AS DECIMAL(38, 9)))
ORDER BY ts DESC, seq DESC LIMIT 1
"""

_WINDOWS = """
SELECT tbl, chunk, low, high, gap_bytes, coalesce(backfill_changes, 0) FROM finished
WHERE pipeline = $pipeline AND ($table IS NULL OR tbl = $table) AND low IS NOT NULL AND high IS NOT NULL
ORDER BY gap_bytes DESC NULLS FIRST, coalesce(backfill_changes, 0) DESC, tbl, chunk LIMIT $limit
"""


def chunk_states(
    cursor: Cursor,
    pipeline: str,
    table: str,
    measure: str | None = None,
    *,
    bounds: tuple[int, int] | None = None,
    few: int = 0,
) -> list[ChunkState]:
    """The known chunks of the table, by number.

    measure: one of `MEASURES`, or no values. bounds: the first and the last chunk whose bounds are wanted; all have
    theirs if there are at most `few`.
    """
    wanted = MEASURES[measure] if measure else _STATE
    sql = PROGRESS + wanted.tables + _STATES.format(value=wanted.value, joins=wanted.joins, single=_SINGLE)
    first, last = bounds or (0, -1)
    parameters = {"pipeline": pipeline, "table": table, "first": first, "last": last, "few": few}
    return list(map(ChunkState._make, cursor.execute(sql, parameters).fetchall()))


def chunk(cursor: Cursor, pipeline: str, table: str, number: int) -> ChunkDetails | None:
    """The details of one chunk; None if the plan has no such chunk."""
    return fetch_one(cursor, ChunkDetails, _CHUNK, {"pipeline": pipeline, "table": table, "chunk": number})


def reads(
    cursor: Cursor, pipeline: str, run: str | None = None, limit: int = 2000, since: datetime | None = None
) -> list[Read]:
    """The newest reads, ordered by start. since: only those that ended then or later."""
    parameters = {"pipeline": pipeline, "run": run, "limit": limit, "since": naive(since) if since else None}
    chunk_reads = fetch(cursor, Read, _READS, parameters)
    return sorted(chunk_reads, key=lambda read: read.started)


def read_of(cursor: Cursor, pipeline: str, table: str, key: str, before: datetime | None = None) -> RowRead | None:
    """The newest read of the chunk that has a key; None if it is not known.

    key: a number, of a table that is split by this key.

    before: only reads that ended before.
    """
    parameters = {"pipeline": pipeline, "table": table, "key": key, "before": naive(before) if before else None}
    return fetch_one(cursor, RowRead, _READ_OF, parameters)


def windows(cursor: Cursor, pipeline: str, *, table: str | None = None, limit: int = 40) -> list[Window]:
    """Watermark windows of all runs, widest first; those that span several files come before all others."""
    return fetch(cursor, Window, _WINDOWS, {"pipeline": pipeline, "table": table, "limit": limit})

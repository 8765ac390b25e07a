"""Runs: start, end and totals."""

from dataclasses import dataclass
from datetime import datetime

from engine.history.fetch import Cursor, aware, fetch, fetch_one


@dataclass(frozen=True)
class Run:
    """One run of a pipeline. Everything after `started` is None or 0 until the journal has it."""

    pipeline: str
    run: str
    started: datetime
    last_event: datetime
    until: str | None
    host: str | None
    pid: int | None
    version: str | None
    ended: datetime | None
    outcome: str | None
    exit_code: int | None
    error: str | None
    """The error that ended the run, as JSON text of `TidemarkError.as_dict`."""
    state: str | None
    reason: str | None
    source: str | None
    spark: str | None
    """`source` and `spark`: JSON text, as in `run.connected`."""


@dataclass(frozen=True)
class RunTotals:
    """The totals of a run."""

    pipeline: str
    run: str
    rows: int
    chunks: int
    read_s: float | None
    """From the first chunk's start to the last one's end."""
    changes: int
    epochs: int
    errors: int


@dataclass(frozen=True)
class Journalled:
    """The number of readable and malformed lines in a pipeline's journals."""

    lines: int
    malformed: int
    malformed_text: str | None


_RUNS = """
WITH chosen AS (
        SELECT pipeline, run FROM event WHERE ($pipeline IS NULL OR pipeline = $pipeline)
            AND event IN ('run.started', 'run.connected', 'run.state', 'run.ended')
        GROUP BY pipeline, run ORDER BY min(ts) DESC, run DESC LIMIT $limit),
     e AS (SELECT event.* FROM event SEMI JOIN chosen USING (pipeline, run)
           WHERE event IN ('run.started', 'run.connected', 'run.state', 'run.ended')),
     seen AS (SELECT pipeline, run, max(ts) AS ts FROM (
                SELECT pipeline, run, max(ts) AS ts FROM event SEMI JOIN chosen USING (pipeline, run) GROUP BY ALL
                UNION ALL SELECT pipeline, run, max(ts) FROM lag SEMI JOIN chosen USING (pipeline, run) GROUP BY ALL)
              GROUP BY ALL),
     folded AS (
        SELECT pipeline, run, min(ts) AS started,
               any_value(body) FILTER (event = 'run.started') AS b_started,
               arg_max(body, seq) FILTER (event = 'run.connected') AS b_connected,
               arg_max(body, seq) FILTER (event = 'run.state') AS b_state,
               any_value(ts) FILTER (event = 'run.ended') AS ended,
               any_value(body) FILTER (event = 'run.ended') AS b_ended
        FROM e GROUP BY pipeline, run)
SELECT f.pipeline, f.run, f.started, s.ts, b_started->>'$.until', b_started->>'$.host',
       TRY_CAST(b_started->>'$.pid' AS BIGINT), b_started->>'$.version', f.ended, b_ended->>'$.outcome',
       TRY_CAST(b_ended->>'$.exit_code' AS BIGINT), b_ended->>'$.error', b_state->>'$.state', b_state->>'$.reason',
       b_connected->>'$.source', b_connected->>'$.spark'
FROM folded f JOIN seen s USING (pipeline, run)
ORDER BY f.started DESC, f.run DESC
"""

_TOTALS = """
WITH chunks AS (SELECT pipeline, run, sum(rows) AS rows, count(*) AS chunks,
                       epoch(max(ended) - min(started)) AS read_s FROM finished GROUP BY ALL),
     epochs AS (SELECT pipeline, run, sum(changes) AS changes, count(*) AS epochs FROM epoch GROUP BY ALL),
     faults AS (SELECT pipeline, run, count(*) AS errors FROM event
                WHERE event IN ('error', 'chunk.failed') GROUP BY ALL)
SELECT r.pipeline, r.run, coalesce(c.rows, 0)::BIGINT, coalesce(c.chunks, 0), c.read_s, coalesce(p.changes, 0)::BIGINT,
       coalesce(p.epochs, 0), coalesce(f.errors, 0)
FROM (SELECT DISTINCT pipeline, run FROM event WHERE $pipeline IS NULL OR pipeline = $pipeline) r
LEFT JOIN chunks c USING (pipeline, run) LEFT JOIN epochs p USING (pipeline, run) \
LEFT JOIN faults f USING (pipeline, run)
"""

_SPEC = """
SELECT body->>'$.spec' FROM event WHERE pipeline = $pipeline AND run = $run AND event = 'run.started' LIMIT 1
"""

_FIRST = "SELECT min(ts) FROM event WHERE pipeline = $pipeline"

_JOURNALLED = """
SELECT coalesce(sum(lines), 0)::BIGINT, coalesce(sum(malformed), 0)::BIGINT, any_value(malformed_text) FROM journal
WHERE pipeline = $pipeline
"""


def runs(cursor: Cursor, pipeline: str | None = None, limit: int = 200) -> list[Run]:
    """Runs, newest first; of all pipelines if none is named."""
    return fetch(cursor, Run, _RUNS, {"pipeline": pipeline, "limit": limit})


def latest_run(cursor: Cursor, pipeline: str) -> Run | None:
    """The pipeline's newest run, or None if it never ran."""
    return fetch_one(cursor, Run, _RUNS, {"pipeline": pipeline, "limit": 1})


def first_started(cursor: Cursor, pipeline: str) -> datetime | None:
    """When the pipeline first ran."""
    row = cursor.execute(_FIRST, {"pipeline": pipeline}).fetchone()
    first: datetime | None = aware(row[0]) if row else None
    return first


def run_totals(cursor: Cursor, pipeline: str | None = None) -> dict[tuple[str, str], RunTotals]:
    """The totals of each run, by (pipeline, run)."""
    return {
        (totals.pipeline, totals.run): totals for totals in fetch(cursor, RunTotals, _TOTALS, {"pipeline": pipeline})
    }


def journalled(cursor: Cursor, pipeline: str) -> Journalled:
    """The number of lines read, and of malformed lines."""
    return fetch_one(cursor, Journalled, _JOURNALLED, {"pipeline": pipeline}) or Journalled(0, 0, None)


def spec_of(cursor: Cursor, pipeline: str, run: str) -> str | None:
    """The spec at the start of a run, as JSON text; None if its journal does not have it."""
    row = cursor.execute(_SPEC, {"pipeline": pipeline, "run": run}).fetchone()
    text: str | None = row[0] if row else None
    return text

"""Time series: lag, epochs, and the marks that explain a bend in a curve."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from engine.history.fetch import Cursor, fetch, fetch_one, naive

T = TypeVar("T")


@dataclass(frozen=True)
class Lag:
    """The lag of the committed position. None if unknown; for several readings, the worst values."""

    ts: datetime
    lag_s: float | None
    lag_bytes: int | None
    runway_s: float | None
    position: str | None
    source_position: str | None
    mirror_age_s: float | None = None
    """The age of the oldest change that is not yet merged into its mirror."""


@dataclass(frozen=True)
class Epoch:
    """A commit, or several added up."""

    ts: datetime
    epoch: int | None
    to_position: str | None
    changes: int
    transactions: int
    read_s: float | None
    commit_s: float | None


@dataclass(frozen=True)
class EpochTotals:
    """The totals of a pipeline's commits."""

    epochs: int
    changes: int
    last: datetime | None
    epoch: int | None
    to_position: str | None


@dataclass(frozen=True)
class Mark:
    """An event that explains a chart: a start, an end, a pause, a DDL, a rotation."""

    ts: datetime
    run: str
    event: str
    label: str
    reason: str | None


_LATEST = """
SELECT ts, lag_s, lag_bytes, runway_s, position, source_position, mirror_age_s FROM lag WHERE pipeline = $pipeline
ORDER BY ts DESC, seq DESC LIMIT 1
"""

_NEWEST = """
SELECT pipeline, ts, lag_s, lag_bytes, runway_s, position, source_position, mirror_age_s FROM lag WHERE ts >= $since
QUALIFY row_number() OVER (PARTITION BY pipeline ORDER BY ts DESC, seq DESC) = 1
"""

_LAG = """
SELECT time_bucket(to_milliseconds($width_ms), ts) AS bucket, max(lag_s), max(lag_bytes), min(runway_s),
       arg_max(position, ts), arg_max(source_position, ts), max(mirror_age_s)
FROM lag WHERE pipeline = $pipeline AND ts >= $since GROUP BY bucket ORDER BY bucket
"""

_LAGS = """
SELECT pipeline, time_bucket(to_milliseconds($width_ms), ts) AS bucket, max(lag_s), max(lag_bytes), min(runway_s),
       arg_max(position, ts), arg_max(source_position, ts), max(mirror_age_s)
FROM lag WHERE ts >= $since GROUP BY pipeline, bucket ORDER BY pipeline, bucket
"""


_EPOCHS = """
SELECT max(ts), max(epoch), arg_max(to_position, ts), coalesce(sum(changes), 0)::BIGINT,
       coalesce(sum(transactions), 0)::BIGINT, max(read_s), max(commit_s)
FROM epoch WHERE pipeline = $pipeline AND ts >= $since
GROUP BY time_bucket(to_milliseconds($width_ms), ts) ORDER BY 1
"""

_CHANGES = """
SELECT pipeline, max(ts), max(epoch), arg_max(to_position, ts), coalesce(sum(changes), 0)::BIGINT,
       coalesce(sum(transactions), 0)::BIGINT, max(read_s), max(commit_s)
FROM epoch WHERE ts >= $since
GROUP BY pipeline, time_bucket(to_milliseconds($width_ms), ts) ORDER BY 1, 2
"""

_TOTALS = """
SELECT count(*), coalesce(sum(changes), 0)::BIGINT, max(ts), arg_max(epoch, ts), arg_max(to_position, ts)
FROM epoch WHERE pipeline = $pipeline
"""

_MARKS = """
SELECT ts, run, event, coalesce(body->>'$.state', body->>'$.kind', body->>'$.outcome', ''),
       coalesce(body->>'$.reason', body->>'$.statement')
FROM event WHERE pipeline = $pipeline AND ts >= $since
      AND event IN ('run.started', 'run.state', 'run.ended', 'source.event')
ORDER BY ts DESC, seq DESC LIMIT $limit
"""


def latest_lag(cursor: Cursor, pipeline: str) -> Lag | None:
    """The newest reading, or None."""
    return fetch_one(cursor, Lag, _LATEST, {"pipeline": pipeline})


def latest_lags(cursor: Cursor, since: datetime) -> dict[str, Lag]:
    """`latest_lag` of each pipeline that has a reading since then."""
    rows = fetch(cursor, lambda name, *values: (name, Lag(*values)), _NEWEST, {"since": naive(since)})
    return dict(rows)


def lag_series(cursor: Cursor, pipeline: str, since: datetime, width_ms: int) -> list[Lag]:
    """The worst reading in each `width_ms`; intervals without readings are left out."""
    return fetch(cursor, Lag, _LAG, {"pipeline": pipeline, "since": naive(since), "width_ms": width_ms})


def epoch_series(cursor: Cursor, pipeline: str, since: datetime, width_ms: int) -> list[Epoch]:
    """Commits, added up per `width_ms`."""
    return fetch(cursor, Epoch, _EPOCHS, {"pipeline": pipeline, "since": naive(since), "width_ms": width_ms})


def lags(cursor: Cursor, since: datetime, width_ms: int) -> dict[str, list[Lag]]:
    """`lag_series` of all pipelines that have readings."""
    return _by_pipeline(cursor, Lag, _LAGS, since, width_ms)


def epochs(cursor: Cursor, since: datetime, width_ms: int) -> dict[str, list[Epoch]]:
    """`epoch_series` of all pipelines that have commits."""
    return _by_pipeline(cursor, Epoch, _CHANGES, since, width_ms)


def _by_pipeline(
    cursor: Cursor, kind: Callable[..., T], sql: str, since: datetime, width_ms: int
) -> dict[str, list[T]]:
    found = defaultdict[str, list[T]](list)
    rows = fetch(
        cursor, lambda name, *values: (name, kind(*values)), sql, {"since": naive(since), "width_ms": width_ms}
    )
    for name, one in rows:
        found[name].append(one)
    return dict(found)


def epoch_totals(cursor: Cursor, pipeline: str) -> EpochTotals:
    """The totals of the pipeline's commits."""
    return fetch_one(cursor, EpochTotals, _TOTALS, {"pipeline": pipeline}) or EpochTotals(0, 0, None, None, None)


def marks(cursor: Cursor, pipeline: str, since: datetime, limit: int = 200) -> list[Mark]:
    """The newest marks, in ascending order of time."""
    found = fetch(cursor, Mark, _MARKS, {"pipeline": pipeline, "since": naive(since), "limit": limit})
    return found[::-1]

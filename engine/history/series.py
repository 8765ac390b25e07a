"""Time series: lag, epochs and rows."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from engine.history.fetch import Cursor, aware, fetch, fetch_one, naive

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
    log_p50_s: float | None = None
    """In the ten minutes before, half of the changes could be read in the change log so soon after their commit on the
    source."""
    log_p99_s: float | None = None
    mirror_p50_s: float | None = None
    """The same in the mirror."""
    mirror_p99_s: float | None = None


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
class RowRate:
    """Rows that were read, by one or several readers."""

    started: datetime
    ended: datetime
    rows: int


@dataclass(frozen=True)
class EpochTotals:
    """The totals of a pipeline's commits."""

    epochs: int
    changes: int
    last: datetime | None
    epoch: int | None
    to_position: str | None


_LATEST = """
SELECT ts, lag_s, lag_bytes, runway_s, position, source_position, mirror_age_s,
       log_p50_s, log_p99_s, mirror_p50_s, mirror_p99_s
FROM lag WHERE pipeline = $pipeline
ORDER BY ts DESC, seq DESC LIMIT 1
"""

_LAG = """
SELECT time_bucket(to_milliseconds($width_ms), ts) AS bucket, max(lag_s), max(lag_bytes), min(runway_s),
       arg_max(position, ts), arg_max(source_position, ts), max(mirror_age_s),
       max(log_p50_s), max(log_p99_s), max(mirror_p50_s), max(mirror_p99_s)
FROM lag WHERE pipeline = $pipeline AND ts >= $since AND ($until IS NULL OR ts < $until) GROUP BY bucket ORDER BY bucket
"""

_LAGS = """
SELECT pipeline, time_bucket(to_milliseconds($width_ms), ts) AS bucket, max(lag_s), max(lag_bytes), min(runway_s),
       arg_max(position, ts), arg_max(source_position, ts), max(mirror_age_s),
       max(log_p50_s), max(log_p99_s), max(mirror_p50_s), max(mirror_p99_s)
FROM lag WHERE ts >= $since GROUP BY pipeline, bucket ORDER BY pipeline, bucket
"""


_NEWEST = """
SELECT pipeline, ts, lag_s, lag_bytes, runway_s, position, source_position, mirror_age_s,
       log_p50_s, log_p99_s, mirror_p50_s, mirror_p99_s
FROM lag WHERE ts >= $since
QUALIFY row_number() OVER (PARTITION BY pipeline ORDER BY ts DESC, seq DESC) = 1
"""

_WORST = """
SELECT pipeline, list({'at': bucket, 'lag_s': lag_s} ORDER BY bucket) FROM (
    SELECT pipeline, time_bucket(to_milliseconds($width_ms), ts) AS bucket, max(lag_s) AS lag_s
    FROM lag WHERE ts >= $since GROUP BY pipeline, bucket)
GROUP BY pipeline
"""

_EPOCHS = """
SELECT max(ts), max(epoch), arg_max(to_position, ts), coalesce(sum(changes), 0)::BIGINT,
       coalesce(sum(transactions), 0)::BIGINT, max(read_s), max(commit_s)
FROM epoch WHERE pipeline = $pipeline AND ts >= $since AND ($until IS NULL OR ts < $until)
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

# Chunks that began in one interval and ended in one count as one.
_ROWS = """
SELECT min(started), max(ended), sum(rows)::BIGINT FROM finished
WHERE pipeline = $pipeline AND ended >= $since AND ts >= $since \
AND started < coalesce($until, started + INTERVAL 1 SECOND)
GROUP BY time_bucket(to_milliseconds($width_ms), started), time_bucket(to_milliseconds($width_ms), ended) ORDER BY 1, 2
"""


def latest_lag(cursor: Cursor, pipeline: str) -> Lag | None:
    """The newest reading, or None."""
    return fetch_one(cursor, Lag, _LATEST, {"pipeline": pipeline})


def lag_series(
    cursor: Cursor, pipeline: str, since: datetime, width_ms: int, until: datetime | None = None
) -> list[Lag]:
    """The worst reading in each `width_ms`; intervals without readings are left out."""
    return fetch(cursor, Lag, _LAG, _interval(pipeline, since, width_ms, until))


def epoch_series(
    cursor: Cursor, pipeline: str, since: datetime, width_ms: int, until: datetime | None = None
) -> list[Epoch]:
    """Commits, added up per `width_ms`."""
    return fetch(cursor, Epoch, _EPOCHS, _interval(pipeline, since, width_ms, until))


def row_series(
    cursor: Cursor, pipeline: str, since: datetime, width_ms: int, until: datetime | None = None
) -> list[RowRate]:
    """Rows of finished chunks, added up by the `width_ms` in which they began and ended."""
    return fetch(cursor, RowRate, _ROWS, _interval(pipeline, since, width_ms, until))


def _interval(pipeline: str, since: datetime, width_ms: int, until: datetime | None) -> dict[str, object]:
    return {"pipeline": pipeline, "since": naive(since), "width_ms": width_ms, "until": until and naive(until)}


def newest_lags(cursor: Cursor, since: datetime) -> dict[str, Lag]:
    """The newest reading of every pipeline that has one since then."""
    return dict(fetch(cursor, lambda name, *values: (name, Lag(*values)), _NEWEST, {"since": naive(since)}))


def worst_lags(cursor: Cursor, since: datetime, width_ms: int) -> dict[str, list[tuple[datetime, float | None]]]:
    """The largest lag in each `width_ms`, in seconds, of every pipeline that has readings. For many small charts."""
    rows = fetch(cursor, lambda name, points: (name, points), _WORST, {"since": naive(since), "width_ms": width_ms})
    return {name: [(aware(point["at"]), point["lag_s"]) for point in points] for name, points in rows}


def lags(cursor: Cursor, since: datetime, width_ms: int) -> dict[str, list[Lag]]:
    """`lag_series` of all pipelines that have readings."""
    return _by_pipeline(cursor, Lag, _LAGS, since, width_ms)


def epochs(cursor: Cursor, since: datetime, width_ms: int) -> dict[str, list[Epoch]]:
    """`epoch_series` of all pipelines that have commits."""
    return _by_pipeline(cursor, Epoch, _CHANGES, since, width_ms)


def _by_pipeline(
    cursor: Cursor, kind: Callable[..., T], sql: str, since: datetime, width_ms: int
) -> dict[str, list[T]]:
    points = defaultdict[str, list[T]](list)
    rows = fetch(
        cursor, lambda name, *values: (name, kind(*values)), sql, {"since": naive(since), "width_ms": width_ms}
    )
    for name, one in rows:
        points[name].append(one)
    return dict(points)


def epoch_totals(cursor: Cursor, pipeline: str) -> EpochTotals:
    """The totals of the pipeline's commits."""
    return fetch_one(cursor, EpochTotals, _TOTALS, {"pipeline": pipeline}) or EpochTotals(0, 0, None, None, None)

"""What reading costs: the seconds of the readers by step, and the bytes and seconds that were asked of the source."""

from dataclasses import dataclass
from datetime import datetime

from engine.history.fetch import Cursor, fetch_one, naive


@dataclass(frozen=True)
class ReaderSeconds:
    """The seconds of all readers in an interval, by the steps of their chunks."""

    chunks: int
    """Those that ended in it."""
    read_s: float
    """The SELECT, decoding, and the pauses of a throttle."""
    watermarks_s: float
    backfill_s: float
    write_s: float
    bytes: float
    """Of the files that were written."""

    @property
    def busy_s(self) -> float:
        """All steps together."""
        return self.read_s + self.watermarks_s + self.backfill_s + self.write_s


@dataclass(frozen=True)
class SourceCost:
    """What was asked of the source since a time."""

    chunks: int
    rows: int
    file_bytes: int
    """Of the files that the rows became. The source sent more: the files are compressed."""
    read_s: float
    """Of all readers: the SELECTs, with decoding and the pauses of a throttle, and the watermarks."""
    backfill_bytes: int
    """Of binlog between watermarks of chunks; without those whose watermarks lie in two files."""
    backfill_s: float
    epochs: int
    binlog_bytes: int
    binlog_s: float
    redumped_rows: int


# A chunk counts with the part of its time that lies in the interval.
_SECONDS = """
WITH read AS (
    SELECT *, CASE WHEN ended > started
        THEN greatest(epoch(least(ended, $until) - greatest(started, $since)), 0) / epoch(ended - started) \
ELSE 1 END AS share
    FROM finished WHERE pipeline = $pipeline AND ended > $since AND started < $until AND ts >= $since)
SELECT count(*) FILTER (ended <= $until), coalesce(sum(share * read_s), 0), coalesce(sum(share * (low_s + high_s)), 0),
       coalesce(sum(share * backfill_s), 0), coalesce(sum(share * write_s), 0), coalesce(sum(share * bytes), 0)::DOUBLE
FROM read
"""


_SOURCE_COST = """
SELECT c.*, e.*, r.* FROM (
    SELECT count(*), coalesce(sum(rows), 0)::BIGINT, coalesce(sum(bytes), 0)::BIGINT,
           coalesce(sum(low_s + read_s + high_s), 0), coalesce(sum(gap_bytes), 0)::BIGINT, coalesce(sum(backfill_s), 0)
    FROM finished WHERE pipeline = $pipeline AND ts >= $since) c, (
    SELECT count(*), coalesce(sum(bytes), 0)::BIGINT, coalesce(sum(read_s), 0)
    FROM epoch WHERE pipeline = $pipeline AND ts >= $since) e, (
    SELECT coalesce(sum(TRY_CAST(body->>'$.rows' AS BIGINT)), 0)::BIGINT
    FROM event WHERE pipeline = $pipeline AND ts >= $since AND event = 'redump.chunk') r
"""


def source_cost(cursor: Cursor, pipeline: str, since: datetime) -> SourceCost:
    """What the pipeline asked of its source since a time."""
    cost = fetch_one(cursor, SourceCost, _SOURCE_COST, {"pipeline": pipeline, "since": naive(since)})
    return cost or SourceCost(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def reader_seconds(cursor: Cursor, pipeline: str, since: datetime, until: datetime) -> ReaderSeconds:
    """What the readers of finished chunks did in an interval."""
    parameters = {"pipeline": pipeline, "since": naive(since), "until": naive(until)}
    seconds = fetch_one(cursor, ReaderSeconds, _SECONDS, parameters)
    return seconds or ReaderSeconds(0, 0, 0, 0, 0, 0)

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


# A chunk counts with the part of its time that lies in the interval.
_SECONDS = """
WITH read AS (
    SELECT *, CASE WHEN ended > started
        THEN greatest(epoch(least(ended, $until) - greatest(started, $since)), 0) / epoch(ended - started) ELSE 1 END AS share
    FROM finished WHERE pipeline = $pipeline AND ended > $since AND started < $until AND ts >= $since)
SELECT count(*) FILTER (ended <= $until), coalesce(sum(share * read_s), 0), coalesce(sum(share * (low_s + high_s)), 0),
       coalesce(sum(share * backfill_s), 0), coalesce(sum(share * write_s), 0), coalesce(sum(share * bytes), 0)::DOUBLE
FROM read
"""


def reader_seconds(cursor: Cursor, pipeline: str, since: datetime, until: datetime) -> ReaderSeconds:
    """What the readers of finished chunks did in an interval."""
    parameters = {"pipeline": pipeline, "since": naive(since), "until": naive(until)}
    found = fetch_one(cursor, ReaderSeconds, _SECONDS, parameters)
    return found or ReaderSeconds(0, 0, 0, 0, 0, 0)

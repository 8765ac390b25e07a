"""MySQL's GTID sets: which transactions a position has behind it.

Ours because mysql-replication's `Gtid` refuses overlapping intervals (replays overlap by design) and its reading of
PREVIOUS_GTIDS takes the exclusive ends of intervals for inclusive ones.
"""

import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from engine.errors import SourceLostError

Interval = tuple[int, int]


@dataclass(frozen=True)
class GtidSet:
    """For each server uuid the closed intervals of transaction numbers, sorted and not touching one another."""

    intervals: Mapping[str, tuple[Interval, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        """As the server writes it: `uuid:1-5:7,uuid:1-3`."""
        return ",".join(
            sid + "".join(f":{a}" if a == b else f":{a}-{b}" for a, b in self.intervals[sid])
            for sid in sorted(self.intervals)
        )

    def union(self, other: "GtidSet") -> "GtidSet":
        merged = dict(self.intervals)
        for sid, intervals in other.intervals.items():
            merged[sid] = _merged([*merged.get(sid, ()), *intervals])
        return GtidSet(merged)


def _merged(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    out: list[Interval] = []
    for a, b in sorted(intervals):
        if out and a <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(b, out[-1][1]))
        else:
            out.append((a, b))
    return tuple(out)


def parse_gtid_set(text: str) -> GtidSet:
    """The inverse of `str`; takes the line breaks that the server prints. Raises ValueError for anything else."""
    intervals: dict[str, tuple[Interval, ...]] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        sid, *ranges = part.split(":")
        parsed = [(int(first), int(last or first)) for first, _, last in (r.partition("-") for r in ranges)]
        if not parsed or any(not 0 < first <= last for first, last in parsed):
            raise ValueError(f"{part!r} is not a server uuid with intervals of transaction numbers")
        key = str(uuid.UUID(sid))
        intervals[key] = _merged([*intervals.get(key, ()), *parsed])
    return GtidSet(intervals)


def gtid_set_of(sources: Sequence[str], source: npt.NDArray[np.int64], number: npt.NDArray[np.int64]) -> GtidSet:
    """The set of many transactions. source: for each one the index of its `uuid:` in `sources`; number: its number."""
    return GtidSet(
        {
            sources[n].removesuffix(":"): _intervals(np.unique(number[source == n]))
            for n in np.flatnonzero(np.bincount(source)).tolist()
        }
    )


def _intervals(numbers: npt.NDArray[np.int64]) -> tuple[Interval, ...]:
    """Sorted numbers as closed intervals."""
    cuts = np.flatnonzero(np.diff(numbers) > 1)
    first, last = np.concatenate([[0], cuts + 1]), np.append(cuts, len(numbers) - 1)
    return tuple(zip(numbers[first].tolist(), numbers[last].tolist(), strict=True))


def sid_text(low: int, high: int) -> str:
    """A server uuid from the two little-endian words that its sixteen bytes make."""
    return str(uuid.UUID(bytes=struct.pack("<QQ", low, high)))


def read_previous_gtids(body: bytes) -> GtidSet:
    """The body of a PREVIOUS_GTIDS event, without checksum: the set before that file's first transaction.

    Raises SourceLostError for the format with tags (MySQL 8.4 and later, when tagged GTIDs were used) and for bytes that
    are no set.
    """
    try:
        return _previous_gtids(body)
    except (struct.error, ValueError) as error:
        raise SourceLostError(
            "A PREVIOUS_GTIDS event in the binlog does not have the layout of one.",
            detail="The GTID set at the start cannot be known; nothing was copied.",
            hint="Check the binlog with mysqlbinlog --verify-binlog-checksum.",
        ) from error


def _previous_gtids(body: bytes) -> GtidSet:
    (count,) = struct.unpack_from("<Q", body)
    if count >> 56:
        raise SourceLostError(
            "The binlog holds tagged GTIDs, which this version does not follow.",
            detail="The GTID set at the start cannot be known; nothing was copied.",
            hint="Let applications use untagged GTIDs.",
        )
    at, intervals = 8, {}
    for _ in range(count):
        sid = str(uuid.UUID(bytes=body[at : at + 16]))
        (ranges,) = struct.unpack_from("<Q", body, at + 16)
        at += 24
        bounds = struct.unpack_from(f"<{2 * ranges}q", body, at)
        at += 16 * ranges
        intervals[sid] = tuple((a, b - 1) for a, b in zip(bounds[0::2], bounds[1::2], strict=True))
    return GtidSet(intervals)

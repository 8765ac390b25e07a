"""The transactions before a position: MySQL's GTID sets and MariaDB's GTID positions.

A set names every transaction. A position names the last one of each domain. That is enough, because a domain has the
same order of transactions on all servers.

We do not use mysql-replication's `Gtid`: it refuses overlapping intervals (replays overlap by design), does not know
tags, and reads the exclusive interval ends of PREVIOUS_GTIDS as inclusive.
"""

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby

import numpy as np
import numpy.typing as npt

Interval = tuple[int, int]
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")


@dataclass(frozen=True)
class GtidSet:
    """For each server uuid, or `uuid:tag`, the closed intervals of transaction numbers.

    They are sorted, disjoint and not adjacent.
    """

    intervals: Mapping[str, tuple[Interval, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        """As the server writes it: `uuid:1-5:7:tag:1-2,uuid:1-3`."""
        servers = groupby(sorted(self.intervals), lambda source: source.partition(":")[0])
        return ",".join(sid + "".join(self._text(source) for source in sources) for sid, sources in servers)

    def _text(self, source: str) -> str:
        _, colon, tag = source.partition(":")
        return colon + tag + "".join(f":{a}" if a == b else f":{a}-{b}" for a, b in self.intervals[source])

    def union(self, other: "GtidSet") -> "GtidSet":
        merged = dict(self.intervals)
        for source, intervals in other.intervals.items():
            merged[source] = _merged([*merged.get(source, ()), *intervals])
        return GtidSet(merged)

    def __le__(self, other: "GtidSet") -> bool:
        """Whether `other` contains every transaction of this set."""
        return all(
            any(c <= a and b <= d for c, d in other.intervals.get(source, ()))
            for source, intervals in self.intervals.items()
            for a, b in intervals
        )

    def holds(self, source: str, number: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """A mask of those transactions of one source that are in the set."""
        bounds = np.array(self.intervals.get(source, ()), np.int64).reshape(-1, 2)
        at = np.searchsorted(bounds[:, 0], number, side="right") - 1
        return np.asarray((at >= 0) & (number <= np.append(bounds[:, 1], 0)[at]))


@dataclass(frozen=True)
class GtidPosition:
    """MariaDB: for each domain, the server id and number of its last transaction."""

    last: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def __str__(self) -> str:
        """As the server writes it: `0-1-5,1-2-7`."""
        return ",".join(f"{domain}-{server}-{number}" for domain, (server, number) in sorted(self.last.items()))

    def union(self, later: "GtidPosition") -> "GtidPosition":
        """The position after `later`, which must start at or after this position, or include it."""
        return GtidPosition({**self.last, **later.last})


def _merged(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    out: list[Interval] = []
    for a, b in sorted(intervals):
        if out and a <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(b, out[-1][1]))
        else:
            out.append((a, b))
    return tuple(out)


def parse_gtid_set(text: str) -> GtidSet:
    """The inverse of `str`; accepts the line breaks that the server prints. Raises ValueError for anything else."""
    intervals: dict[str, tuple[Interval, ...]] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        sid, *rest = (piece.strip() for piece in part.split(":"))
        source, needs = str(uuid.UUID(sid)), True
        for piece in rest:
            if _TAG.fullmatch(piece.lower()) and not (needs and ":" in source):
                source, needs = f"{source.partition(':')[0]}:{piece.lower()}", True
                continue
            first, _, last = piece.partition("-")
            interval = int(first), int(last or first)
            if not 0 < interval[0] <= interval[1]:
                raise ValueError(f"{part!r} is not a server uuid with intervals of transaction numbers")
            intervals[source], needs = _merged([*intervals.get(source, ()), interval]), False
        if needs:
            raise ValueError(f"{part!r} is not a server uuid with intervals of transaction numbers")
    return GtidSet(intervals)


def parse_gtid_position(text: str) -> GtidPosition:
    """The inverse of `str`. Raises ValueError for anything else, and for a duplicate domain."""
    last: dict[int, tuple[int, int]] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        if not re.fullmatch(r"\d+-\d+-\d+", part):
            raise ValueError(f"{part!r} is not of the form domain-server-number")
        domain, server, number = map(int, part.split("-"))
        if domain in last:
            raise ValueError(f"domain {domain} occurs twice")
        last[domain] = server, number
    return GtidPosition(last)


Gtids = GtidSet | GtidPosition


def parse_gtids(text: str, *, mariadb: bool) -> Gtids:
    """Parse the text of either server. Raises ValueError if it is invalid."""
    return parse_gtid_position(text) if mariadb else parse_gtid_set(text)


def united(before: Gtids, after: Gtids) -> Gtids:
    """The union of two values of the same kind. For positions, `after` is the later one."""
    if isinstance(before, GtidSet):
        assert isinstance(after, GtidSet)
        return before.union(after)
    assert isinstance(after, GtidPosition)
    return before.union(after)


def joined(texts: Iterable[str], *, mariadb: bool) -> str:
    """Unite a position's GTIDs with those of the binlog ranges after it, given in order; returns the text."""
    parsed = [parse_gtids(text, mariadb=mariadb) for text in texts]
    return str(reduce(united, parsed))


def gtid_set_of(sources: Sequence[str], source: npt.NDArray[np.int64], number: npt.NDArray[np.int64]) -> GtidSet:
    """The set of many transactions. source: for each one, the index of its `uuid:` in `sources`; number: its number."""
    return GtidSet(
        {
            sources[n].removesuffix(":"): _intervals(_rising(number[source == n]))
            for n in np.flatnonzero(np.bincount(source)).tolist()
        }
    )


def _rising(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The distinct numbers, sorted. Usually they already are, and checking is much cheaper than sorting."""
    return numbers if (numbers[1:] > numbers[:-1]).all() else np.unique(numbers)


def _intervals(numbers: npt.NDArray[np.int64]) -> tuple[Interval, ...]:
    """Sorted numbers as closed intervals."""
    cuts = np.flatnonzero(np.diff(numbers) > 1)
    first, last = np.concatenate([[0], cuts + 1]), np.append(cuts, len(numbers) - 1)
    return tuple(zip(numbers[first].tolist(), numbers[last].tolist(), strict=True))

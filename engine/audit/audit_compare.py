"""Compares a table's images of the binlog with those of its change log, in order. Pure.

Both sides are batches that end at the same position. Usually they are equal, which is found column by column. If not,
the images are compared event by event: all images of one row event have the same position.

    missing     the binlog has the image, the change log has not
    extra       the change log has the image, the binlog has not
    different   the same row, but other values, or another transaction (`_tm_tx`, `_tm_ts`)
    kind        the same row, but another kind of change
    order       the image comes later in the change log than in the binlog
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

_TOO_MANY = 200
"""Candidates that are tried for one image of a table without a key, or of a key that one event changes often."""


@dataclass(frozen=True)
class AuditImages:
    """Images in order, as columns."""

    orders: list[int]
    """Their positions, packed (`destination.delta.read.change_log`)."""
    kinds: list[str]
    columns: list[list[Any]]
    """Values in the common form (`audit_values`), with those of `_tm_tx` and `_tm_ts`."""

    def __len__(self) -> int:
        return len(self.orders)

    def row(self, n: int) -> list[Any]:
        return [column[n] for column in self.columns]

    def part(self, begin: int, end: int) -> "AuditImages":
        """A range of the images."""
        columns = [column[begin:end] for column in self.columns]
        return AuditImages(self.orders[begin:end], self.kinds[begin:end], columns)

    def take(self, chosen: Sequence[int]) -> "AuditImages":
        """Some images, by number."""
        return AuditImages(
            [self.orders[n] for n in chosen],
            [self.kinds[n] for n in chosen],
            [[column[n] for n in chosen] for column in self.columns],
        )


@dataclass(frozen=True)
class AuditDifference:
    """A difference between the sides. `theirs` and `ours`: the rows, None where there is none."""

    kind: str
    order: int
    columns: tuple[int, ...] = ()
    """The numbers of the columns that differ."""
    theirs: list[Any] | None = None
    ours: list[Any] | None = None


def compared(theirs: AuditImages, ours: AuditImages, key: Sequence[int]) -> list[AuditDifference]:
    """The differences. key: the numbers of the columns that identify a row; empty if there are none."""
    if _equal(theirs, ours):
        return []
    largest = list(accumulate(ours.orders, max))
    late = [n for n, order in enumerate(ours.orders) if order < largest[n]]
    differences = [AuditDifference("order", ours.orders[n], ours=ours.row(n)) for n in late]
    if late:
        ours = ours.take(sorted(range(len(ours)), key=lambda n: ours.orders[n]))
    begin = end = 0
    while begin < len(theirs) or end < len(ours):
        order = min([*theirs.orders[begin : begin + 1], *ours.orders[end : end + 1]])
        begins, ends = _end(theirs, begin, order), _end(ours, end, order)
        differences += _event(theirs.part(begin, begins), ours.part(end, ends), key)
        begin, end = begins, ends
    return differences


def _equal(theirs: AuditImages, ours: AuditImages) -> bool:
    return theirs.orders == ours.orders and theirs.kinds == ours.kinds and theirs.columns == ours.columns


def _end(images: AuditImages, begin: int, order: int) -> int:
    end = begin
    while end < len(images) and images.orders[end] == order:
        end += 1
    return end


def _event(theirs: AuditImages, ours: AuditImages, key: Sequence[int]) -> list[AuditDifference]:
    """The differences of one event's images."""
    if _equal(theirs, ours):
        return []
    pairs: dict[int, int] = {}  # numbers of `ours`, by numbers of `theirs`
    if len(theirs) == len(ours):
        pairs = {n: n for n in range(len(ours)) if _is_equal(theirs, n, ours, n, key)}
    extra = set(range(len(ours))) - set(pairs.values())
    by_key = _by_key(ours, extra, key)
    for fits in (_is_equal, _has_kind, _has_key):
        for n in range(len(theirs)):
            if n not in pairs:
                near = by_key[_key(theirs, n, key)] if key else sorted(extra)
                m = next((m for m in near[:_TOO_MANY] if m in extra and fits(theirs, n, ours, m, key)), None)
                if m is not None:
                    pairs[n] = m
                    extra.discard(m)
    unpaired = [n for n in range(len(theirs)) if n not in pairs]
    if len(unpaired) == len(extra):  # the key itself differs
        pairs.update(zip(unpaired, sorted(extra), strict=True))
        extra = set()
    return _named(theirs, ours, pairs, extra)


def _named(theirs: AuditImages, ours: AuditImages, pairs: dict[int, int], extra: set[int]) -> list[AuditDifference]:
    differences = []
    late = _late([pairs[n] for n in range(len(theirs)) if n in pairs])
    for n in range(len(theirs)):
        if n not in pairs:
            differences.append(AuditDifference("missing", theirs.orders[n], theirs=theirs.row(n)))
            continue
        m, row = pairs[n], theirs.row(n)
        mine = ours.row(m)
        differ = tuple(k for k, (a, b) in enumerate(zip(row, mine, strict=True)) if not a == b)  # noqa: SIM201 - UNSURE
        about = AuditDifference("", theirs.orders[n], differ, row, mine)
        if theirs.kinds[n] != ours.kinds[m]:
            differences.append(replace(about, kind="kind"))
        if differ:
            differences.append(replace(about, kind="different"))
        if m in late:
            differences.append(replace(about, kind="order"))
    differences += [AuditDifference("extra", ours.orders[m], ours=ours.row(m)) for m in sorted(extra)]
    return differences


def _late(numbers: Sequence[int]) -> set[int]:
    """The numbers that are larger than one after them."""
    least = list(accumulate(reversed(numbers), min))[::-1]
    return {number for number, after in zip(numbers, least, strict=True) if number > after}


def _key(images: AuditImages, n: int, key: Sequence[int]) -> str:
    return repr([images.columns[k][n] for k in key])


def _by_key(images: AuditImages, numbers: set[int], key: Sequence[int]) -> defaultdict[str, list[int]]:
    groups = defaultdict[str, list[int]](list)
    for n in sorted(numbers) if key else ():
        groups[_key(images, n, key)].append(n)
    return groups


def _is_equal(theirs: AuditImages, n: int, ours: AuditImages, m: int, _: Sequence[int]) -> bool:
    return theirs.kinds[n] == ours.kinds[m] and theirs.row(n) == ours.row(m)


def _has_kind(theirs: AuditImages, n: int, ours: AuditImages, m: int, key: Sequence[int]) -> bool:
    return bool(key) and theirs.kinds[n] == ours.kinds[m]


def _has_key(theirs: AuditImages, n: int, ours: AuditImages, m: int, key: Sequence[int]) -> bool:
    return bool(key) or theirs.row(n) == ours.row(m)

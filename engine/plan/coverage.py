"""Which ranges of a table are finished, split, or not split yet; together they cover it without gaps or overlaps. Pure.

Neighbours share a bound, text for text. So neighbouring runs join, and ranges are put in key order, without comparing a
key, which only the server could do.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from engine.plan.chunks import WHOLE, Plan, Range, range_from
from engine.plan.keys import Bound

SplitWay = Literal["even", "walk", "whole"]
NumberRanges = tuple[tuple[int, int], ...]
"""Closed ranges of numbers, ascending."""


@dataclass(frozen=True)
class Chunk:
    """A chunk to be read."""

    number: int
    limits: Range


@dataclass(frozen=True)
class Unsplit:
    """A range not split yet.

    `way`: into the plan's even chunks, by a walk, or not at all. Its first chunk gets `number`.
    """

    number: int
    limits: Range
    way: SplitWay
    parent: int | None = None
    """The chunk whose rest this is; None if it is no rest of a chunk."""


@dataclass(frozen=True)
class Split:
    """The result of splitting the unsplit range `of`: chunks from its lower end, and the rest."""

    of: Unsplit
    chunks: tuple[Range, ...]
    rest: Range | None


@dataclass(frozen=True)
class Piece:
    """A range of `Coverage.pieces`: finished, or a pending chunk (with its number), or neither."""

    limits: Range
    finished: bool = False
    number: int | None = None


@dataclass(frozen=True)
class Coverage:
    """How far a table has been split and read."""

    runs: tuple[Range, ...] = ()
    """Finished ranges, with neighbours joined."""
    finished: NumberRanges = ()
    """The numbers of finished chunks."""
    pending: Mapping[int, Range] = field(default_factory=dict)
    """Chunks that are split off but not finished; a bounded number."""
    unsplit: tuple[Unsplit, ...] = ()
    """Ranges not split yet, in the order in which they will be split."""
    next_number: int = 0
    """The number of the next chunk."""

    @property
    def done(self) -> int:
        """The number of finished chunks."""
        return sum(last - first + 1 for first, last in self.finished)

    @property
    def copied(self) -> bool:
        """Whether the whole table is finished."""
        return bool(self.runs) and not self.pending and not self.unsplit

    def total(self, estimate: int) -> int:
        """The number of chunks; at least `estimate` while some ranges are not split yet."""
        count = self.done + len(self.pending)
        return max(count + len(self.unsplit), estimate) if self.unsplit else count

    def split(self, chunks: Iterable[Chunk], unsplit: Iterable[Unsplit], next_number: int) -> "Coverage":
        """Return the coverage with these new or shortened chunks, and these unsplit ranges."""
        pending = {**self.pending, **{chunk.number: chunk.limits for chunk in chunks}}
        return replace(self, pending=pending, unsplit=tuple(unsplit), next_number=next_number)

    def after(self, split: Split) -> tuple["Coverage", list[Chunk]]:
        """Return the coverage after a split, and the new, numbered chunks.

        Even chunks have the plan's numbers. In a walk, the first chunk has its range's number; others and the rest get
        new ones.
        """
        ranges = [*split.chunks, *([split.rest] if split.rest else [])]
        new = split.of.number + 1 if split.of.way == "even" else self.next_number
        numbers = [split.of.number, *range(new, new + len(ranges) - 1)]
        chunks = [Chunk(*pair) for pair in zip(numbers, split.chunks, strict=False)]
        rest = [replace(split.of, number=numbers[-1], limits=split.rest)] if split.rest else []
        following = self.next_number if split.of.way == "even" else self.next_number + len(ranges) - 1
        at = self.unsplit.index(split.of)
        return self.split(chunks, [*self.unsplit[:at], *rest, *self.unsplit[at + 1 :]], following), chunks

    def shortened(self, number: int, limits: Range) -> "Coverage":
        """A reader stopped early, so the pending chunk ends at a nearer bound. The rest will be walked."""
        rest = Unsplit(self.next_number, Range(limits.upper, self.pending[number].upper), "walk", number)
        # Rests of read chunks are split before anything else, so that there are never many of them.
        return self.split([Chunk(number, limits)], [rest, *self.unsplit], self.next_number + 1)

    def finish(self, numbers: Iterable[int]) -> "Coverage":
        """Return the coverage with these pending chunks finished."""
        chosen = sorted(numbers)
        pending = {number: limits for number, limits in self.pending.items() if number not in chosen}
        runs = _joined([*self.runs, *(self.pending[number] for number in chosen)])
        return replace(self, runs=runs, finished=_numbers(self.finished, chosen), pending=pending)

    def pieces(self) -> list[Piece]:
        """All ranges in key order."""
        pieces = [Piece(run, finished=True) for run in self.runs]
        pieces += [Piece(limits, number=number) for number, limits in self.pending.items()]
        pieces += [Piece(unsplit.limits) for unsplit in self.unsplit]
        by_lower = {piece.limits.lower: piece for piece in pieces}
        ordered, lower = [], None
        while pieces:
            ordered.append(by_lower.pop(lower))
            lower = ordered[-1].limits.upper
            if lower is None:
                break
        assert not by_lower, "the ranges of a table do not cover it"
        return ordered

    def as_dict(self) -> dict[str, Any]:
        """The record for the ledger; `coverage_from_dict` is the inverse."""
        return {
            "runs": [run.as_list() for run in self.runs],
            "finished": [list(ends) for ends in self.finished],
            **split_as_dict([Chunk(number, limits) for number, limits in self.pending.items()], self),
        }


def covers(ranges: Iterable[tuple[Hashable, Hashable]]) -> bool:
    """Whether ranges, given by their bounds, lead from open to open: each begins where another ends, text for text.

    Such a chain has every key, whatever order the bounds are in: take the first range whose upper bound is after the
    key. The key is not before its lower bound, which is the upper bound of the range before.
    """
    listed = list(ranges)
    following = dict(listed)
    if len(following) < len(listed) or None not in following:
        return False
    lower = following.pop(None)
    while lower is not None and lower in following:
        lower = following.pop(lower)
    return lower is None and not following


EMPTY = Coverage(runs=(WHOLE,), finished=((0, 0),), next_number=1)
"""A table that is streamed without a snapshot: one finished chunk."""


def split_as_dict(chunks: Iterable[Chunk], coverage: Coverage) -> dict[str, Any]:
    """A split for an epoch's record: the chunks, and all ranges that remain unsplit."""
    return {
        "chunks": [[chunk.number, *chunk.limits.as_list()] for chunk in chunks],
        "unsplit": [[rest.number, *rest.limits.as_list(), rest.way] for rest in coverage.unsplit],
        "next_number": coverage.next_number,
        "parents": {str(rest.number): rest.parent for rest in coverage.unsplit if rest.parent is not None},
    }


def split_from_dict(coverage: Coverage, record: Mapping[str, Any]) -> Coverage:
    """Apply a record of `split_as_dict` to the coverage."""
    chunks = [Chunk(number, range_from(ends)) for number, *ends in record["chunks"]]
    parents = record.get("parents") or {}  # ledgers of earlier versions have none
    unsplit = [Unsplit(n, range_from(ends), way, parents.get(str(n))) for n, *ends, way in record["unsplit"]]
    return coverage.split(chunks, unsplit, record["next_number"])


def coverage_from_dict(record: Mapping[str, Any]) -> Coverage:
    """The inverse of `Coverage.as_dict`."""
    runs = tuple(range_from(run) for run in record["runs"])
    finished = tuple((first, last) for first, last in record["finished"])
    return split_from_dict(Coverage(runs, finished), record)


def unsplit_table(plan: Plan) -> Coverage:
    """The coverage of a table before the first split."""
    way: SplitWay = "even" if plan.strategy == "even" else "walk" if plan.strategy == "uneven" else "whole"
    return Coverage(unsplit=(Unsplit(0, WHOLE, way),), next_number=plan.estimated_chunks if way == "even" else 1)


def _joined(runs: Iterable[Range]) -> tuple[Range, ...]:
    """Join neighbouring runs."""
    by_lower: dict[Bound | None, Range] = {}
    by_upper: dict[Bound, Range] = {}
    for run in runs:
        lower, upper = run.lower, run.upper
        if lower is not None and lower in by_upper:
            lower = by_upper.pop(lower).lower
        if upper is not None and upper in by_lower:
            following = by_lower.pop(upper)
            upper = following.upper
        joined = Range(lower, upper)
        by_lower[lower] = joined
        if upper is not None:
            by_upper[upper] = joined
    return tuple(by_lower.values())


def _numbers(numbers: NumberRanges, more: Iterable[int]) -> NumberRanges:
    out: list[tuple[int, int]] = []
    for first, last in sorted([*numbers, *((number, number) for number in more)]):
        if out and first == out[-1][1] + 1:
            out[-1] = (out[-1][0], last)
        else:
            out.append((first, last))
    return tuple(out)

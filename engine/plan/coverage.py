"""Which part of a table is read, planned, and not even cut: ranges that together cover it with no gap and no overlap. Pure.

Neighbours share a bound, text for text. So neighbouring runs join, and the ranges are put in the order of their keys, without one
comparison of keys, which only the server could make.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from engine.plan.chunks import WHOLE, Plan, Range, range_from
from engine.plan.keys import Bound

Way = Literal["even", "walk", "whole"]
Numbers = tuple[tuple[int, int], ...]
"""Closed ranges of numbers, ascending."""


@dataclass(frozen=True)
class Chunk:
    """A chunk that is to be read."""

    number: int
    limits: Range


@dataclass(frozen=True)
class Uncut:
    """A range that is not cut yet: into the plan's even chunks, by a walk, or not at all; its first chunk gets `number`."""

    number: int
    limits: Range
    way: Way


@dataclass(frozen=True)
class Cut:
    """What was cut off the uncut range `of`: the chunks from its lower end on, and what is left of it."""

    of: Uncut
    chunks: tuple[Range, ...]
    rest: Range | None


@dataclass(frozen=True)
class Piece:
    """A range of `Coverage.pieces`: finished, or a chunk that waits (its number), or neither."""

    limits: Range
    finished: bool = False
    number: int | None = None


@dataclass(frozen=True)
class Coverage:
    """How far a table is cut and read."""

    runs: tuple[Range, ...] = ()
    """Finished ranges, neighbours joined."""
    finished: Numbers = ()
    """Numbers of finished chunks."""
    pending: Mapping[int, Range] = field(default_factory=dict)
    """Chunks that are cut and not finished: a bounded number."""
    uncut: tuple[Uncut, ...] = ()
    """Ranges that are not cut yet, in the order in which they are cut."""
    next_number: int = 0
    """The number of the next chunk."""

    @property
    def done(self) -> int:
        """How many chunks are finished."""
        return sum(last - first + 1 for first, last in self.finished)

    @property
    def copied(self) -> bool:
        """Whether everything is finished."""
        return bool(self.runs) and not self.pending and not self.uncut

    def total(self, estimate: int) -> int:
        """How many chunks there are; while some are not cut, no fewer than `estimate`."""
        known = self.done + len(self.pending)
        return max(known + len(self.uncut), estimate) if self.uncut else known

    def cut(self, chunks: Iterable[Chunk], uncut: Iterable[Uncut], next_number: int) -> "Coverage":
        """With more chunks, or nearer bounds for some, and what is left uncut then."""
        pending = {**self.pending, **{chunk.number: chunk.limits for chunk in chunks}}
        return replace(self, pending=pending, uncut=tuple(uncut), next_number=next_number)

    def after(self, cut: Cut) -> tuple["Coverage", list[Chunk]]:
        """With what was cut off one of the uncut ranges, and the new chunks, numbered.

        Even chunks have the plan's numbers. Of a walk the first has its range's number; the others, and what is left, new ones.
        """
        ranges = [*cut.chunks, *([cut.rest] if cut.rest else [])]
        new = cut.of.number + 1 if cut.of.way == "even" else self.next_number
        numbers = [cut.of.number, *range(new, new + len(ranges) - 1)]
        chunks = [Chunk(*pair) for pair in zip(numbers, cut.chunks, strict=False)]
        rest = [Uncut(numbers[-1], cut.rest, cut.of.way)] if cut.rest else []
        following = self.next_number if cut.of.way == "even" else self.next_number + len(ranges) - 1
        at = self.uncut.index(cut.of)
        return self.cut(chunks, [*self.uncut[:at], *rest, *self.uncut[at + 1 :]], following), chunks

    def shortened(self, number: int, limits: Range) -> "Coverage":
        """A pending chunk was read up to a nearer bound only; the rest is cut by a walk."""
        rest = Uncut(self.next_number, Range(limits.upper, self.pending[number].upper), "walk")
        # In front: what is left of read chunks is cut before anything else, so that there are never many such rests.
        return self.cut([Chunk(number, limits)], [rest, *self.uncut], self.next_number + 1)

    def finish(self, numbers: Iterable[int]) -> "Coverage":
        """With these pending chunks finished."""
        chosen = sorted(numbers)
        pending = {number: limits for number, limits in self.pending.items() if number not in chosen}
        runs = _joined([*self.runs, *(self.pending[number] for number in chosen)])
        return replace(self, runs=runs, finished=_numbers(self.finished, chosen), pending=pending)

    def pieces(self) -> list[Piece]:
        """All ranges in the order of their keys."""
        pieces = [Piece(run, finished=True) for run in self.runs]
        pieces += [Piece(limits, number=number) for number, limits in self.pending.items()]
        pieces += [Piece(uncut.limits) for uncut in self.uncut]
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
        """For the ledger; `coverage_from_dict` is the inverse."""
        return {
            "runs": [run.as_list() for run in self.runs],
            "finished": [list(ends) for ends in self.finished],
            **cut_as_dict([Chunk(number, limits) for number, limits in self.pending.items()], self),
        }


EMPTY = Coverage(runs=(WHOLE,), finished=((0, 0),), next_number=1)
"""A table that is streamed without a copy: one finished chunk."""


def cut_as_dict(chunks: Iterable[Chunk], coverage: Coverage) -> dict[str, Any]:
    """What was cut, for an epoch's record: the chunks, and all that is uncut after them."""
    return {
        "chunks": [[chunk.number, *chunk.limits.as_list()] for chunk in chunks],
        "uncut": [[rest.number, *rest.limits.as_list(), rest.way] for rest in coverage.uncut],
        "next_number": coverage.next_number,
    }


def cut_from_dict(coverage: Coverage, record: Mapping[str, Any]) -> Coverage:
    """The coverage after what `cut_as_dict` wrote."""
    chunks = [Chunk(number, range_from(ends)) for number, *ends in record["chunks"]]
    uncut = [Uncut(number, range_from(ends), way) for number, *ends, way in record["uncut"]]
    return coverage.cut(chunks, uncut, record["next_number"])


def coverage_from_dict(record: Mapping[str, Any]) -> Coverage:
    """The inverse of `Coverage.as_dict`."""
    runs = tuple(range_from(run) for run in record["runs"])
    finished = tuple((first, last) for first, last in record["finished"])
    return cut_from_dict(Coverage(runs, finished), record)


def uncut_table(plan: Plan) -> Coverage:
    """A table of which nothing is cut yet."""
    way: Way = "even" if plan.strategy == "even" else "walk" if plan.strategy == "uneven" else "whole"
    return Coverage(uncut=(Uncut(0, WHOLE, way),), next_number=plan.estimated_chunks if way == "even" else 1)


def _joined(runs: Iterable[Range]) -> tuple[Range, ...]:
    """Runs, neighbours joined."""
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


def _numbers(held: Numbers, more: Iterable[int]) -> Numbers:
    out: list[tuple[int, int]] = []
    for first, last in sorted([*held, *((number, number) for number in more)]):
        if out and first == out[-1][1] + 1:
            out[-1] = (out[-1][0], last)
        else:
            out.append((first, last))
    return tuple(out)

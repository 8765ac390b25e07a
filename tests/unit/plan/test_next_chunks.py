"""Splitting while reading, compared with a naive model.

Whatever the keys, each row is in exactly one chunk at any time.
"""

import json
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decode.schema import Index
from engine.plan.chunks import WHOLE, Plan, Range, plan_from_dict, predicate
from engine.plan.coverage import (
    Chunk,
    Coverage,
    Split,
    Unsplit,
    coverage_from_dict,
    split_as_dict,
    split_from_dict,
    unsplit_table,
)
from engine.plan.keys import Bound, bound_at
from engine.plan.next_chunks import split
from engine.plan.places import place
from engine.plan.strategy import KeyEnds, decide
from engine.plan.walk import key_ends, next_bound
from engine.source.catalog import Statistics
from engine.spec.settings import Snapshot
from tests.support.depth import depth
from tests.unit.plan.support import Key, Server, below, walking

__all__ = ["walking"]
ENDS = (-(2**63), -(2**63) + 1, 2**63 - 1, 2**63 - 2)


def keys(rng: Random, columns: int, *, nullable: bool) -> list[Key]:
    """Any multiset of keys: dense or sparse, with duplicates, NULLs and the bounds of the type."""
    spread = rng.choice([1, 3, 12, 300, 2**62])
    rows: list[Key] = []
    for _ in range(rng.choice([0, 1, 5, 20, 45])):
        first: int | None = rng.randrange(-spread, spread)
        if rng.random() < 0.04:
            first = rng.choice(ENDS)
        if nullable and rng.random() < 0.2:
            first = None
        rows += [(first, *(rng.randrange(4) for _ in range(columns - 1)))] * rng.choice([1, 1, 1, 4])
    return rows


def plan_of(server: Server, rng: Random) -> Plan:
    """A plan with any settings, from statistics that may be wrong."""
    spec = Snapshot(
        chunk_rows=rng.randrange(1, 9),
        even_factor_lower=rng.choice([0.0, 0.05, 3.0]),
        even_factor_upper=rng.choice([1000.0, 1e30]),
    )
    known = Statistics(rng.choice([len(server.keys), len(server.keys) // 3, 0]), 100, 0)
    # As a table whose key is configured: it may have ties and NULLs.
    indexed = replace(server.table, indexes=(Index("i", server.key.names),))
    spec = spec.model_copy(update={"chunk_key": {"main.t": "k0"}})
    return decide(indexed, known, KeyEnds(*key_ends(server, indexed, server.key)), spec)


def numbers(bound: Bound) -> tuple[int, ...]:
    """A bound in Python's order: in front of all keys that begin with it."""
    return tuple(int(part) for part in bound)


def check(coverage: Coverage) -> None:
    """No gap, no overlap, in key order, and each number once."""
    pieces = coverage.pieces()
    assert pieces[0].limits.lower is None
    assert pieces[-1].limits.upper is None
    for one, other in pairwise(pieces):
        assert one.limits.upper is not None
        assert one.limits.upper == other.limits.lower
        assert not (one.finished and other.finished), "neighbours that are finished join"
    bounds = [numbers(piece.limits.lower) for piece in pieces if piece.limits.lower is not None]
    assert bounds == sorted(set(bounds))
    used = [n for first, last in coverage.finished for n in range(first, last + 1)]
    used += [*coverage.pending, *(unsplit.number for unsplit in coverage.unsplit)]
    assert len(used) == len(set(used))
    assert all(number < coverage.next_number for number in used)
    assert coverage.done + len(coverage.pending) <= coverage.total(0)


class Copy:
    """A table that is being split and read, with the ledger's knowledge of it."""

    def __init__(self, server: Server, plan: Plan, rng: Random) -> None:
        self.server, self.plan, self._rng = server, plan, rng
        self.coverage = self.committed = unsplit_table(plan)
        self._since: dict[int, Chunk] = {}
        self._read: list[int] = []
        self.chunks: dict[int, Range] = {}

    def _note(self, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            self._since[chunk.number] = chunk
            self.chunks[chunk.number] = chunk.limits

    def step(self) -> None:
        """Any next step."""
        act = self._rng.random()
        if act < 0.45 and self.coverage.unsplit:
            self._split()
        elif act < 0.75 and self.coverage.pending:
            self._finish()
        elif act < 0.9:
            self._commit()
        else:
            self.server.insert([(self._rng.choice([7, 2**62, 2**63 - 1]), *[1] * (len(self.server.key.columns) - 1))])

    def _split(self) -> None:
        most, patience_s = self._rng.randrange(1, 5), self._rng.choice([0.0, 60.0])
        piece = self._rng.choice(self.coverage.unsplit)
        server = self.server
        off = split(server, server.table, server.key, self.plan, piece, most, patience_s)
        assert len(off.chunks) <= most
        assert off.chunks
        self.coverage, chunks = self.coverage.after(off)
        self._note(chunks)

    def _finish(self) -> None:
        """Read a chunk; one that is larger than planned is read to the row limit."""
        number = self._rng.choice([n for n in self.coverage.pending if n not in self._read] or [-1])
        if number < 0:
            return
        self._read.append(number)
        limits = self.coverage.pending[number]
        bound = self._end_of(limits)
        if bound is not None and self._rng.random() < 0.8:
            nearer = Range(limits.lower, bound)
            self.coverage = self.coverage.shortened(number, nearer)
            self._note([Chunk(number, nearer)])

    def _end_of(self, limits: Range) -> Bound | None:
        """The key at which a reader stops; None at the end."""
        server, lower = self.server, limits.lower
        rows = sorted(
            server.keys[n] for n in server.rows(predicate(server.key, limits)) if server.keys[n][0] is not None
        )
        if len(rows) < 2 * self.plan.chunk_rows:
            return None
        last = rows[2 * self.plan.chunk_rows - 1]
        found = bound_at(
            server.key, pa.table({name: [part] for name, part in zip(server.key.names, last, strict=True)}), 0
        )
        return None if found == lower else found

    def _commit(self) -> None:
        """Commit an epoch's record, sometimes with a full state."""
        record = json.loads(json.dumps(split_as_dict(list(self._since.values()), self.coverage)))
        self.committed = split_from_dict(self.committed, record).finish(self._read)
        self.coverage = self.coverage.finish(self._read)
        assert self.committed == self.coverage
        self._since, self._read = {}, []
        self.committed = coverage_from_dict(json.loads(json.dumps(self.committed.as_dict())))
        assert self.committed == self.coverage


@given(st.integers(0, 2**32))
@settings(max_examples=depth(60, 600))
def test_chunks_cover_every_key_exactly_once(walking: None, seed: int) -> None:
    """Split, shortened, finished, stored and restored in any order, while the table grows."""
    rng = Random(seed)
    nullable = rng.random() < 0.3
    with closing(Server(rng.choice([1, 1, 2, 3]), nullable=nullable)) as server:
        server.insert(keys(rng, len(server.key.columns), nullable=nullable))
        copy = Copy(server, plan_of(server, rng), rng)
        check(copy.coverage)
        for _ in range(3000):
            copy.step()
            check(copy.coverage)
            if copy.coverage.copied:
                break
        assert copy.coverage.runs == (WHOLE,)
        assert copy.coverage.done == copy.coverage.total(10**6) == len(copy.chunks)
        _check_chunks(server, copy)


def _check_chunks(server: Server, copy: Copy) -> None:
    """The server's predicates, the definition and the placing of changes agree on each row."""
    bounds = sorted((limits.lower for limits in copy.chunks.values() if limits.lower is not None), key=numbers)
    columns = {
        column.name: pa.array([key[n] for key in server.keys], pa.int64())
        for n, column in enumerate(server.key.columns)
    }
    placed = place(pa.table(columns), bounds, server.key, _nobody)
    for limits in copy.chunks.values():
        naive = [
            n
            for n, key in enumerate(server.keys)
            if (limits.lower is None or not below(key, limits.lower))
            and (limits.upper is None or below(key, limits.upper))
        ]
        at = 0 if limits.lower is None else 1 + bounds.index(limits.lower)
        assert server.rows(predicate(server.key, limits)) == naive == np.flatnonzero(placed == at).tolist()


def _nobody(*_: object) -> Any:
    raise AssertionError("integers are compared by Arrow")


@given(st.integers(0, 2**32), st.integers(1, 9))
def test_a_walk_follows_the_published_rule(walking: None, seed: int, rows: int) -> None:
    """MAX of the next `rows` keys, or the next larger key if that equals the bound; ends at the table's MAX."""
    rng = Random(seed)
    with closing(Server(rng.choice([1, 2]), nullable=False)) as server:
        server.insert(keys(rng, len(server.key.columns), nullable=False))
        left, lower = sorted(server.keys), None
        for _ in range(len(left) + 1):
            found = next_bound(server, server.table, server.key, Range(lower, None), rows)
            expected = _published(left, lower, rows)
            assert found == (None if expected is None else tuple(map(str, expected)))
            if found is None:
                break
            lower = found
            left = [key for key in left if not below(key, found)]
        else:
            pytest.fail("the walk does not end")


def _published(left: list[Key], lower: Bound | None, rows: int) -> Key | None:
    if len(left) < rows:
        return None
    end = left[rows - 1]
    if lower is not None and end == numbers(lower):
        end = min((key for key in left if key > end), default=end)
    return None if end == left[-1] else end


def test_a_walk_does_not_leave_its_range(walking: None) -> None:
    """A part of an even plan is walked to its end, over all columns of the key."""
    with closing(Server(2, nullable=False)) as server:
        server.insert((n // 10, n % 10) for n in range(40))
        plan = Plan("main.t", 40, 0, server.key.names, "i", "0", "3", 0.1, "even", "", 5, 4, "1", "1")
        piece = Unsplit(2, Range(("2",), ("3",)), "walk")
        walked = split(server, server.table, server.key, plan, piece, 99, 60.0)
    ends = [("2",), ("2", "4"), ("2", "8"), ("3",)]
    assert walked == Split(piece, tuple(Range(*pair) for pair in pairwise(ends)), None)


@pytest.mark.parametrize(
    ("most", "patience_s", "chunks"), [(1, 60.0, 1), (3, 60.0, 3), (4, 60.0, 4), (9, 60.0, 4), (9, 0.0, 1)]
)
def test_even_chunks_come_by_arithmetic_alone(most: int, patience_s: float, chunks: int) -> None:
    """Without a query to the server; at least one chunk, however short the time limit."""
    plan = Plan("d.t", 40, 0, ("k0",), "i", "0", "39", 1.0, "even", "", 10, 4, "10", "10")
    with closing(Server(1, nullable=False)) as server:
        piece = unsplit_table(plan).unsplit[0]
        coverage, new = unsplit_table(plan).after(split(None, server.table, server.key, plan, piece, most, patience_s))
    assert new == [Chunk(n, plan.even_range(n)) for n in range(chunks)]
    left = (Unsplit(chunks, Range(plan.even_bound(chunks), None), "even"),) if chunks < 4 else ()
    assert (coverage.unsplit, coverage.next_number) == (left, 4)


def made(plan: Plan, coverage: Coverage) -> tuple[Coverage, list[Chunk]]:
    """The chunks of the first unsplit range."""
    with closing(Server(1, nullable=False)) as server:
        key = plan.key(server.table)
        return coverage.after(split(server, server.table, key, plan, coverage.unsplit[0], 9, 60.0))


def test_what_cannot_be_split_is_one_chunk() -> None:
    """Without a key, or with a plan of one chunk, the server is not asked."""
    plan = Plan("d.t", 9, 0, (), "", None, None, None, "one", "", 10, 1)
    coverage, chunks = made(plan, unsplit_table(plan))
    assert chunks == [Chunk(0, WHOLE)]
    assert not coverage.copied
    assert coverage.finish([0]).copied
    assert not Coverage().copied


def test_the_rest_of_a_shortened_chunk_is_walked_before_anything_else() -> None:
    """It keeps its place in key order. Even chunks keep the plan's numbers, walked chunks get new ones."""
    coverage = Coverage(unsplit=(Unsplit(0, WHOLE, "even"),), next_number=3)
    even = (Range(None, ("1",)), Range(("1",), ("2",)))
    coverage, _ = coverage.after(Split(coverage.unsplit[0], even, Range(("2",), None)))
    coverage = coverage.shortened(1, Range(("1",), ("1", "5"))).finish([1])
    assert coverage.unsplit == (
        Unsplit(3, Range(("1", "5"), ("2",)), "walk", 1),
        Unsplit(2, Range(("2",), None), "even"),
    )
    walked = (Range(("1", "5"), ("1", "7")), Range(("1", "7"), ("1", "8")))
    coverage, chunks = coverage.after(Split(coverage.unsplit[0], walked, Range(("1", "8"), ("2",))))
    assert [chunk.number for chunk in chunks] == [3, 4]
    assert [(unsplit.number, unsplit.parent) for unsplit in coverage.unsplit] == [(5, 1), (2, None)]
    assert coverage.next_number == 6
    assert [(piece.number, piece.finished) for piece in coverage.pieces()] == [
        (0, False),
        (None, True),
        (3, False),
        (4, False),
        (None, False),
        (None, False),
    ]
    assert (coverage.total(2), coverage.total(9)) == (6, 9)


def test_a_coverage_with_a_gap_is_no_coverage() -> None:
    """It is refused."""
    with pytest.raises((AssertionError, KeyError)):
        Coverage(runs=(Range(None, ("1",)), Range(("2",), None))).pieces()


@given(st.integers(-(10**6), 2**64), st.integers(0, 10**6), st.integers(1, 999))
def test_an_even_plan_is_the_same_when_it_is_read_back(low: int, span: int, step: int) -> None:
    """Bounds are text, computed as min + step, min + 2·step … ≤ max; both ends are open."""
    count = span // step + 1
    plan = Plan(
        "d.t", 9, 1, ("k",), "i", str(low), str(low + span), 1.0, "even", "", 9, count, str(low + step), str(step)
    )
    again = plan_from_dict(json.loads(json.dumps(plan.as_dict())))
    assert again == plan
    for number in {0, 1, count // 2, count - 1} & set(range(count)):
        lower, upper = again.even_range(number).lower, again.even_range(number).upper
        assert lower == ((str(low + number * step),) if number else None)
        assert upper == ((str(low + (number + 1) * step),) if number + 1 < count else None)
        assert upper is None or int(upper[0]) <= low + span

"""Compares two tables of rows by identity. Pure.

Values are equal if Arrow says so: both sides have the types of the published columns, so equal values have equal
representations.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.capture.chunk.backfill import among
from engine.decode.framing import Mask
from engine.pipeline.verification_records import DifferenceKind

KINDS: tuple[DifferenceKind, ...] = ("missing", "extra", "different", "duplicate")
"""A row that only the source has, that only the mirror has, with other values in the mirror, or more than once in the
mirror."""


@dataclass(frozen=True)
class RowComparison:
    """How a mirror's rows differ from the source's. Rows of a table have the published columns."""

    missing: pa.Table
    """Rows of the source."""
    extra: pa.Table
    """Rows of the mirror, one per key."""
    source: pa.Table
    """Rows of the source that the mirror has with other values, …"""
    mirror: pa.Table
    """… and the mirror's rows for the same keys, in the same order."""
    duplicate: pa.Table
    """Rows of the mirror whose key is there more than once, one per key."""
    equal: int
    """Rows that are equal."""

    @property
    def total(self) -> int:
        """The number of differences; a key may be both different and duplicate."""
        return sum(map(len, (self.missing, self.extra, self.source, self.duplicate)))

    @property
    def counts(self) -> dict[DifferenceKind, int]:
        """The number of differences by kind."""
        return dict(zip(KINDS, map(len, (self.missing, self.extra, self.source, self.duplicate)), strict=True))

    def first(self, most: int) -> "RowComparison":
        """At most so many differences of each kind, without the memory of the others."""
        parts = (self.missing, self.extra, self.source, self.mirror, self.duplicate)
        first_rows = [part if len(part) <= most else part.take(pa.array(range(most))) for part in parts]
        missing, extra, source, mirror, duplicate = first_rows
        return RowComparison(missing, extra, source, mirror, duplicate, self.equal)

    def keys(self, names: Sequence[str]) -> pa.Table:
        """The keys of all differences."""
        parts = (self.missing, self.extra, self.source, self.duplicate)
        return pa.concat_tables([part.select(names) for part in parts]).group_by(list(names)).aggregate([])


def compare(source: pa.Table, mirror: pa.Table, key: Sequence[str]) -> RowComparison:
    """Compare rows of the same schema. The source's keys are unique; the mirror's need not be."""
    names = list(key)
    source, mirror = _ordered(source, names), _ordered(mirror, names)
    duplicate = mirror.slice(0, 0)
    if (repeated := _repeated(mirror, names)).any():
        first = np.append(True, ~repeated[1:]) if len(repeated) else repeated
        duplicate = mirror.filter(pa.array(first & np.append(repeated[1:], False)))
        # A duplicate that differs from the source's row must not hide behind one that does not.
        mirror = _one_of_each(source, mirror, names)
    missing, extra = source.slice(0, 0), mirror.slice(0, 0)
    if not source.select(names).equals(mirror.select(names)):
        here, there = among(source, mirror.select(names)), among(mirror, source.select(names))
        missing, extra = source.filter(pa.array(~here)), mirror.filter(pa.array(~there))
        source, mirror = source.filter(pa.array(here)), mirror.filter(pa.array(there))
    other = _unequal(source, mirror)
    return RowComparison(
        missing, extra, source.filter(pa.array(other)), mirror.filter(pa.array(other)), duplicate, int((~other).sum())
    )


def with_plain_json(rows: pa.Table, names: Collection[str]) -> pa.Table:
    """The rows with one text for each meaning of the JSON in these columns."""
    for name in names:
        if name in rows.column_names:
            texts = [None if one is None else _plain_json(one) for one in rows[name].to_pylist()]
            number, field = rows.column_names.index(name), rows.schema.field(name)
            rows = rows.set_column(number, field, pa.array(texts, field.type))
    return rows


def _plain_json(text: str) -> str:
    try:
        value = json.loads(text, parse_int=_number)
    except (ValueError, RecursionError):
        return text
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _number(digits: str) -> int | float:
    """A whole number beyond 64 bits is a float in a database."""
    value = int(digits)
    return value if -(1 << 63) <= value < 1 << 64 else float(digits)


def unequal_columns(source: pa.Table, mirror: pa.Table) -> list[list[str]]:
    """For rows in the same order, the names of the columns that differ in each."""
    masks = {name: _differs(source[name], mirror[name]) for name in source.column_names}
    return [[name for name, mask in masks.items() if mask[row]] for row in range(source.num_rows)]


def _ordered(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows in the order of their keys; as they are, if they are in order."""
    if rows.num_rows < 2:
        return rows.combine_chunks()
    order = pc.sort_indices(rows.select(names), [(name, "ascending") for name in names])
    if pc.all(pc.equal(order, pa.array(np.arange(rows.num_rows, dtype=np.uint64)))).as_py():
        return rows.combine_chunks()
    return rows.take(order).combine_chunks()


def _repeated(rows: pa.Table, names: Sequence[str]) -> Mask:
    """For rows in order: which have the key of the row before."""
    same = np.ones(rows.num_rows, bool)
    same[:1] = False
    for name in names:
        column = rows[name]
        equal = pc.equal(column.slice(1), column.slice(0, max(len(column) - 1, 0)))
        same[1:] &= np.asarray(pc.fill_null(equal, False).to_numpy(), bool)
    return same


def _one_of_each(source: pa.Table, mirror: pa.Table, names: Sequence[str]) -> pa.Table:
    """One of the mirror's rows per key: one that differs from the source's row, if there is any."""
    numbered = source.select(names).append_column("\0n", pa.array(np.arange(source.num_rows)))
    placed = mirror.select(names).append_column("\0m", pa.array(np.arange(mirror.num_rows)))
    pairs = placed.join(numbered, list(names), join_type="inner").sort_by("\0m")
    at, of = pairs["\0m"].to_numpy(), pairs["\0n"].to_numpy()
    differs = np.zeros(mirror.num_rows, bool)
    differs[at] = _unequal(source.take(pa.array(of)), mirror.take(pa.array(at)))
    numbers = np.arange(mirror.num_rows)
    group = np.cumsum(~_repeated(mirror, names)) - 1
    best = np.full(group[-1] + 1 if len(group) else 0, -1, np.int64)
    best[group[::-1]] = numbers[::-1]
    best[group[differs][::-1]] = numbers[differs][::-1]
    return mirror.take(pa.array(best))


def _unequal(source: pa.Table, mirror: pa.Table) -> Mask:
    other = np.zeros(source.num_rows, bool)
    for name in source.column_names:
        if not source[name].equals(mirror[name]):
            other |= _differs(source[name], mirror[name])
    return other


def _differs(one: pa.ChunkedArray, other: pa.ChunkedArray) -> Mask:
    if pa.types.is_nested(one.type):
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return np.fromiter((a != b for a, b in pairs), bool, len(one))
    unequal = np.asarray(pc.fill_null(pc.not_equal(one, other), False).to_numpy(), bool)
    nulls = np.asarray(one.is_null().to_numpy(), bool) != np.asarray(other.is_null().to_numpy(), bool)
    return np.asarray(unequal | nulls, bool)

"""Ranges of a chunk key as conditions for Arrow's scans. Pure."""

from collections.abc import Sequence
from functools import reduce
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc

from engine.decode.types import value_type
from engine.plan.chunks import Range
from engine.plan.keys import Bound, ChunkKey, order_of, scalar


def is_comparable(key: ChunkKey) -> bool:
    """Whether Arrow orders all columns of the key as the server does, so that every range has a condition."""
    return all(order_of(c).scalar is not None and not pa.types.is_string(value_type(c).arrow(c)) for c in key.columns)


def condition_of(key: ChunkKey, limits: Range) -> pc.Expression | None:
    """The rows of a range; NULL belongs to the lowest.

    None if Arrow compares its columns differently from the server.
    """
    parts = []
    first = pc.field(key.names[0])
    if limits.lower is not None:
        lower = _at_least(key, limits.lower)
        parts.append(lower)
    if limits.upper is not None:
        upper = _at_least(key, limits.upper)
        parts.append(None if upper is None else ~upper if limits.lower is not None else ~upper | first.is_null())
    if any(part is None for part in parts):
        return None
    return reduce(and_, parts) if parts else pc.scalar(True)


def _at_least(key: ChunkKey, bound: Bound) -> pc.Expression | None:
    """The rows whose key is at or after a bound, in Arrow: (a, b) >= (x, y)."""
    values = [scalar(column, value) for column, value in zip(key.columns, bound, strict=False)]
    if None in values:
        return None
    fields: Sequence[pc.Expression] = [pc.field(name) for name in key.names]
    *above, last = range(len(values))
    condition = fields[last] >= values[last]
    for n in reversed(above):
        condition = (fields[n] > values[n]) | ((fields[n] == values[n]) & condition)
    return condition

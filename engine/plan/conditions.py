"""Ranges of a chunk key as conditions. Pure."""

import pyarrow as pa

from engine.decode.types import value_type
from engine.plan.chunks import Range
from engine.plan.keys import Bound, ChunkKey, order_of, scalar
from engine.plan.row_conditions import AllOf, AnyOf, Compared, NullColumn, RowCondition, Sign


def is_comparable(key: ChunkKey) -> bool:
    """Whether Arrow orders all columns of the key as the server does, so that every range has a condition."""
    return all(order_of(c).scalar is not None and not pa.types.is_string(value_type(c).arrow(c)) for c in key.columns)


def condition_of(key: ChunkKey, limits: Range) -> RowCondition | None:
    """The rows of a range; NULL belongs to the lowest.

    None if Arrow compares its columns differently from the server.
    """
    parts = list[RowCondition]()
    if limits.lower is not None:
        if (lower := _beyond(key, limits.lower, ">", ">=")) is None:
            return None
        parts.append(lower)
    if limits.upper is not None:
        if (upper := _beyond(key, limits.upper, "<", "<")) is None:
            return None
        parts.append(AnyOf([upper, NullColumn(key.names[0])]) if limits.lower is None else upper)
    return AllOf(parts)


def _beyond(key: ChunkKey, bound: Bound, sign: Sign, last_sign: Sign) -> RowCondition | None:
    """The rows whose key is beyond a bound: (a, b) >= (x, y), or (a, b) < (x, y)."""
    values = [scalar(column, value) for column, value in zip(key.columns, bound, strict=False)]
    if None in values:
        return None
    *above, last = range(len(values))
    condition: RowCondition = Compared(key.names[last], last_sign, values[last])
    for n in reversed(above):
        equal = AllOf([Compared(key.names[n], "=", values[n]), condition])
        condition = AnyOf([Compared(key.names[n], sign, values[n]), equal])
    return condition

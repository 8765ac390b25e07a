"""A row filter: a condition on a table's columns, and the rows that meet it. Pure; `filter_parser` parses its text.

The logic is SQL's three-valued logic: a comparison with NULL is unknown, and a row passes if the condition is true. The
same code evaluates selected rows and row images of the log, over the same Arrow types, so both agree exactly. Texts
compare by code point (the byte order of UTF-8) and binaries by byte, never by a collation.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.decode.schema import Table

_EXACT = ("binary", "_0900_bin", "_nopad_bin")
"""The ends of the names of collations that compare code points and nothing else."""
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True)
class Compare:
    """`column operator value`. The value fits the column's Arrow type (a double for a float column)."""

    column: str
    operator: str
    value: Any


@dataclass(frozen=True)
class Among:
    """`column IN values`. Not for floats, whose two zeros are equal."""

    column: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class IsNull:
    """`column IS NULL`."""

    column: str


@dataclass(frozen=True)
class Not:
    """`NOT condition`."""

    condition: "Condition"


@dataclass(frozen=True)
class Every:
    """Conditions joined by AND."""

    conditions: tuple["Condition", ...]


@dataclass(frozen=True)
class Some:
    """Conditions joined by OR."""

    conditions: tuple["Condition", ...]


Condition = Compare | Among | IsNull | Not | Every | Some


def columns_of(condition: Condition) -> Iterator[str]:
    """Yield the columns that a condition uses."""
    if isinstance(condition, Not):
        yield from columns_of(condition.condition)
    elif isinstance(condition, Every | Some):
        for part in condition.conditions:
            yield from columns_of(part)
    else:
        yield condition.column


def collated_columns(condition: Condition, table: Table) -> dict[str, str]:
    """The columns that it uses and the server compares by a collation, with that: their equal texts may differ."""
    collations = {column.name: column.collation or "" for column in table.columns if not column.labels}
    return {
        name: collations[name]
        for name in columns_of(condition)
        if collations.get(name) and not collations[name].endswith(_EXACT)
    }


def filter_mask(condition: Condition, rows: pa.Table) -> npt.NDArray[np.bool_]:
    """A mask of the rows for which the condition is true."""
    return np.asarray(pc.fill_null(_truth(condition, rows), False).to_numpy(), bool)


def _truth(condition: Condition, rows: pa.Table) -> pa.ChunkedArray:
    """For each row true, false, or NULL for unknown."""
    if isinstance(condition, Compare):
        values = _comparable(rows[condition.column])
        return _COMPARE[condition.operator](values, pa.scalar(condition.value, values.type))
    if isinstance(condition, Among):
        values = rows[condition.column]
        mask = pc.is_in(values, pa.array(condition.values, values.type))
        return pc.if_else(pc.is_valid(values), mask, pa.scalar(None, pa.bool_()))
    if isinstance(condition, IsNull):
        return pc.is_null(rows[condition.column])
    if isinstance(condition, Not):
        return pc.invert(_truth(condition.condition, rows))
    joined = pc.and_kleene if isinstance(condition, Every) else pc.or_kleene
    return reduce(joined, (_truth(part, rows) for part in condition.conditions))


def _comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    # The servers compare a FLOAT with a literal as doubles.
    return values.cast(pa.float64()) if pa.types.is_float32(values.type) else values

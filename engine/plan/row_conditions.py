"""Conditions for the rows of a mirror, whatever keeps it: for Arrow's scans, and for the statements of a database.

They are true, false or, for a NULL, neither, in Arrow as in SQL: such a row is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, or_
from typing import Literal, assert_never

import pyarrow as pa
import pyarrow.compute as pc

Sign = Literal["<", "<=", "=", ">=", ">"]


@dataclass(frozen=True)
class Compared:
    """A column compared with a value, which is not NULL."""

    column: str
    sign: Sign
    value: pa.Scalar


@dataclass(frozen=True)
class OneOf:
    """A column whose value is in a list. The list has no NULL."""

    column: str
    values: pa.ChunkedArray


@dataclass(frozen=True)
class NullColumn:
    """A column that is NULL."""

    column: str


@dataclass(frozen=True)
class AllOf:
    """All of the parts; without any, every row."""

    parts: "Sequence[RowCondition]"


@dataclass(frozen=True)
class AnyOf:
    """One of the parts at least; without any, no row."""

    parts: "Sequence[RowCondition]"


RowCondition = Compared | OneOf | NullColumn | AllOf | AnyOf
EVERY_ROW = AllOf(())
_SIGNS = {"<": lt, "<=": le, "=": eq, ">=": ge, ">": gt}


def columns_of(condition: RowCondition) -> frozenset[str]:
    """The columns that a condition names."""
    if isinstance(condition, AllOf | AnyOf):
        return frozenset().union(*map(columns_of, condition.parts))
    return frozenset({condition.column})


def expression_of(condition: RowCondition) -> pc.Expression:
    """The condition for Arrow."""
    match condition:
        case Compared(column, sign, value):
            return _SIGNS[sign](pc.field(column), value)
        case OneOf(column, values):
            field, ends = pc.field(column), pc.min_max(values)  # a scan skips files by comparisons alone
            return (field >= ends["min"]) & (field <= ends["max"]) & field.isin(values)
        case NullColumn(column):
            return pc.field(column).is_null()
        case AllOf(parts):
            return reduce(and_, map(expression_of, parts)) if parts else pc.scalar(True)
        case AnyOf(parts):
            return reduce(or_, map(expression_of, parts)) if parts else pc.scalar(False)
        case _:
            assert_never(condition)

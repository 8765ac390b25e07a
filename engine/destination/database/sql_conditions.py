"""Conditions for rows as SQL."""

from collections.abc import Callable
from typing import assert_never

import pyarrow as pa

from engine.plan.row_conditions import AllOf, AnyOf, Compared, NullColumn, OneOf, RowCondition

_NOTHING, _EVERYTHING = "1 = 0", "1 = 1"


def where_of(
    condition: RowCondition, quoted: Callable[[str], str], literals: Callable[[pa.ChunkedArray], pa.ChunkedArray]
) -> str:
    """The condition of a WHERE clause. quoted: quotes a name. literals: writes values, without NULL, as SQL."""

    def joined(parts: list[str], word: str, without: str) -> str:
        return f"({f' {word} '.join(parts)})" if parts else without

    def sql(one: RowCondition) -> str:
        match one:
            case Compared(column, sign, value):
                return f"{quoted(column)} {sign} {literals(pa.chunked_array([pa.repeat(value, 1)]))[0].as_py()}"
            case OneOf(column, values):
                texts = literals(pa.chunked_array(values)).to_pylist() if len(values) else []
                return f"{quoted(column)} IN ({', '.join(texts)})" if texts else _NOTHING
            case NullColumn(column):
                return f"{quoted(column)} IS NULL"
            case AllOf(parts):
                return joined([*map(sql, parts)], "AND", _EVERYTHING)
            case AnyOf(parts):
                return joined([*map(sql, parts)], "OR", _NOTHING)
            case _:
                assert_never(one)

    return sql(condition)

"""Decodes rows of the binary protocol to Arrow, column by column.

A row of a prepared statement's result is: one zero byte; a bitmap of the NULL columns, its first two bits unused; the
non-NULL values one after the other, each in the layout of its type ("Binary Protocol Resultset", MySQL client/server
protocol manual). All rows of a buffer are decoded together, with one cursor per row that moves from column to column.
`engine.decode.types` decodes the values of a type.
"""

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from engine.base.errors import DecodeError
from engine.decode.framing import Bytes, Offsets
from engine.decode.schema import Column
from engine.decode.types import value_type
from engine.decode.types.base import RecordBuffer, null_bits


def check_types(columns: Sequence[Column], announced: Sequence[int]) -> None:
    """Raises DecodeError if the types that the result set announces are not those of the columns."""
    for column, code in zip(columns, announced, strict=True):
        if code not in value_type(column).protocol:
            raise DecodeError(
                f"Column {column.name!r} is {column.type.upper()} in the catalog, "
                f"but the server announced type {code} for it.",
                detail="The rows were not read.",
                hint="If the table has just been altered, start the pipeline again; otherwise report this with the "
                "server's version.",
            )


def decode_rows(
    buffer: Bytes, start: Offsets, end: Offsets, columns: Sequence[Column], nulled: Counter[str] | None = None
) -> pa.RecordBatch:
    """The rows in `buffer[start[i]:end[i]]`, as one record batch with the Arrow types of docs/types.md.

    `buffer` has `framing.PADDING` bytes after its last row. It may be reused afterwards: everything is copied. nulled:
    counts invalid dates that became NULL, by column. Raises DecodeError if the bytes are not such rows.
    """
    records = RecordBuffer.over(buffer, end, Counter() if nulled is None else nulled)
    bitmap = (len(columns) + 9) // 8
    at = start + 1 + bitmap
    if (at > end).any():
        raise DecodeError("A row is shorter than its NULL bitmap.", hint="Report this with the server's version.")
    arrays = []
    for column, null in zip(columns, null_bits(buffer, start + 1, len(columns), unused=2), strict=True):
        array, at = value_type(column).row(records, at, null, column)
        arrays.append(array)
    if (at != end).any():
        raise DecodeError(
            "A row has bytes after its last column.",
            detail="The bytes do not have the layout of the columns; none of them was used.",
            hint="If the table has just been altered, start the pipeline again; "
            "otherwise report this with the server's version.",
        )
    return pa.record_batch(arrays, names=[column.name for column in columns])

"""Columns that are not needed: their values are skipped, whatever they are.

They occur only in row images, never in a SELECT.
"""

from typing import NoReturn

import pyarrow as pa

from engine.base.errors import DecodeError
from engine.decode.extents import COUNTED, FIXED, fixed_width
from engine.decode.framing import Offsets
from engine.decode.schema import Column
from engine.decode.types.base import Mapped, Nulls, RecordBuffer, ValueType, advance
from engine.decode.types.strings import length_bytes


def _image(records: RecordBuffer, at: Offsets, null: Nulls, column: Column, mapped: Mapped) -> tuple[pa.Array, Offsets]:
    width: int | Offsets | None = fixed_width(mapped.code, mapped.metadata)
    if width is None:
        prefix = length_bytes(mapped)
        width = records.unsigned(records.inside(at, column), prefix).astype("int64") + prefix
    return pa.nulls(len(at)), advance(at, width, null)


def _row(_records: RecordBuffer, _at: Offsets, _null: Nulls, column: Column) -> NoReturn:
    raise DecodeError(f"Column {column.name!r} was read, which no SELECT should name.", hint="Report this.")


UNREAD = ValueType(lambda _: pa.null(), _row, _image, frozenset(), FIXED | COUNTED)

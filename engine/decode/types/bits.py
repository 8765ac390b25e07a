"""BIT: BIT(1) is a boolean; longer ones are the server's big-endian bytes, in rows and in images alike."""

import numpy as np
import pyarrow as pa

from engine.decode.framing import Offsets
from engine.decode.schema import Column
from engine.decode.types.base import Mapped, Nulls, RecordBuffer, ValueType, advance, fail, slices

_CODE = 16


def _arrow(column: Column) -> pa.DataType:
    return pa.bool_() if column.precision == 1 else pa.binary()


def _values(records: RecordBuffer, start: Offsets, width: int, null: Nulls, column: Column) -> pa.Array:
    if column.precision == 1:
        return pa.array(records.buffer[start] & 1 == 1, mask=null)
    return slices(
        records.buffer,
        start,
        start + width if null is None else np.where(null, start, start + width),
        null,
        pa.binary(),
    )


def _rows(records: RecordBuffer, at: Offsets, null: Nulls, column: Column) -> tuple[pa.Array, Offsets]:
    start, after = records.counted(at, null, column)
    width = (column.precision + 7) // 8
    length = after - start
    if (length != (width if null is None else np.where(null, 0, width))).any():
        raise fail(
            column, "a bit field has a different length than its column", "Report this with the server's version."
        )
    return _values(records, start, width, null, column), after


def _images(records: RecordBuffer, at: Offsets, null: Nulls, column: Column, _: Mapped) -> tuple[pa.Array, Offsets]:
    width = (column.precision + 7) // 8
    after = records.inside(advance(at, width, null), column)
    return _values(records, at, width, null, column), after


TYPES = {
    "bit": ValueType(
        arrow=_arrow,
        row=_rows,
        image=_images,
        protocol=frozenset({_CODE}),
        binlog=frozenset({_CODE}),
        fits=lambda column, mapped: mapped.metadata == bytes((column.precision % 8, column.precision // 8)),
    ),
}

"""Integers and floating-point numbers.

Integers are little-endian in rows and in images; the binary protocol widens MEDIUMINT to four bytes. Each Arrow type is
the smallest signed one that fits every value, because Delta has no unsigned types; BIGINT UNSIGNED becomes decimal(20,
0).
"""

from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.decode.framing import Offsets
from engine.decode.schema import Column
from engine.decode.types.base import Mapped, Nulls, RecordBuffer, ValueType, advance, validity

_SIGNED = {1: pa.int8(), 2: pa.int16(), 3: pa.int32(), 4: pa.int32(), 8: pa.int64()}
_UNSIGNED = {1: pa.int16(), 2: pa.int32(), 3: pa.int32(), 4: pa.int64(), 8: pa.decimal128(20, 0)}


def _integer_type(width: int, column: Column) -> pa.DataType:
    return (_UNSIGNED if column.unsigned else _SIGNED)[width]


def decimal_of_words(
    low: npt.NDArray[np.uint64], high: npt.NDArray[np.int64], null: Nulls, type_: pa.DataType
) -> pa.Array:
    """A decimal128 array from the two halves of its 128-bit integers."""
    halves = np.empty((len(low), 2), dtype=np.uint64)
    halves[:, 0], halves[:, 1] = low, high.view(np.uint64)
    return pa.Array.from_buffers(type_, len(low), [validity(null), pa.py_buffer(halves)])


def _integers(records: RecordBuffer, at: Offsets, null: Nulls, column: Column, width: int) -> pa.Array:
    type_ = _integer_type(width, column)
    if not column.unsigned:
        return pa.array(records.signed(at, width).astype(type_.to_pandas_dtype(), copy=False), mask=null)
    value = records.unsigned(at, width)
    if width == 8:
        return decimal_of_words(value, np.zeros(len(value), np.int64), null, type_)
    return pa.array(value.astype(type_.to_pandas_dtype()), mask=null)


def _row_integers(
    width: int, sent: int, records: RecordBuffer, at: Offsets, null: Nulls, column: Column
) -> tuple[pa.Array, Offsets]:
    after = records.inside(advance(at, sent, null), column)
    return _integers(records, at, null, column, width), after


def _image_integers(
    width: int, records: RecordBuffer, at: Offsets, null: Nulls, column: Column, _: Mapped
) -> tuple[pa.Array, Offsets]:
    return _row_integers(width, width, records, at, null, column)


def _row_floats(
    width: int, records: RecordBuffer, at: Offsets, null: Nulls, column: Column
) -> tuple[pa.Array, Offsets]:
    after = records.inside(advance(at, width, null), column)
    raw = records.unsigned(at, width)
    value = raw.view(np.float64) if width == 8 else raw.astype(np.uint32).view(np.float32)
    return pa.array(value, mask=null, from_pandas=False), after


def _image_floats(
    width: int, records: RecordBuffer, at: Offsets, null: Nulls, column: Column, _: Mapped
) -> tuple[pa.Array, Offsets]:
    return _row_floats(width, records, at, null, column)


def _signs_fit(column: Column, mapped: Mapped) -> bool:
    return mapped.unsigned in (column.unsigned, None)


def _integer(width: int, sent: int, protocol: int, binlog: int) -> ValueType:
    return ValueType(
        arrow=partial(_integer_type, width),
        row=partial(_row_integers, width, sent),
        image=partial(_image_integers, width),
        protocol=frozenset({protocol}),
        binlog=frozenset({binlog}),
        fits=_signs_fit,
    )


def _floating(width: int, type_: pa.DataType, code: int) -> ValueType:
    return ValueType(
        arrow=lambda _: type_,
        row=partial(_row_floats, width),
        image=partial(_image_floats, width),
        protocol=frozenset({code}),
        binlog=frozenset({code}),
    )


TYPES = {
    "tinyint": _integer(1, 1, 1, 1),
    "smallint": _integer(2, 2, 2, 2),
    "mediumint": _integer(3, 4, 9, 9),
    "int": _integer(4, 4, 3, 3),
    "bigint": _integer(8, 8, 8, 8),
    "float": _floating(4, pa.float32(), 4),
    "double": _floating(8, pa.float64(), 5),
}

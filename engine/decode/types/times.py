"""TIME and YEAR.

TIME exceeds a day and may be negative, so it becomes a text, as the server prints it: `-838:59:59.000000`. Rows: one
length byte (0, 8 or 12), sign, days (4), hour, minute, second, microseconds (4). Images (TIME2): the parts of the
magnitude and the fraction, packed into one big-endian number of 3 + (digits + 1) // 2 bytes. Negative values are the
complement; the highest bit is set from zero up (MySQL source, mysys/my_time.cc, `my_time_packed_to_binary`).

YEAR is a number: two bytes in rows; one in images, counted from 1900, where 0 is the year 0.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.decode.framing import Bytes, Offsets
from engine.decode.schema import Column
from engine.decode.types.base import Mapped, Nulls, RecordBuffer, ValueType, advance, fail, slices
from engine.decode.types.temporal import fraction_fits

_SECOND_US, _LONGEST_HOURS = 1_000_000, 838
_SHORT_HOURS = 99
Integers = npt.NDArray[np.int64]


def _texts(minus: npt.NDArray[np.bool_], seconds: Integers, us: Integers, null: Nulls, column: Column) -> pa.Array:
    """Magnitudes as the server prints them: at least two digits of hours, and `column.fraction` fractional digits."""
    hours = seconds // 3600
    wrong = (hours > _LONGEST_HOURS) | (us >= _SECOND_US)
    if null is not None:
        wrong &= ~null
    if wrong.any():
        raise fail(column, "a time is out of range", "Report this with the server's version.")
    tail = column.fraction + 1 if column.fraction else 0
    width = 10 + tail  # -HHH:MM:SS and the fraction
    text = np.full((len(seconds), width), ord("0"), np.uint8)
    for end, value, digits in (
        (4, hours, 3),
        (7, seconds // 60 % 60, 2),
        (10, seconds % 60, 2),
        (width, us // 10 ** (6 - column.fraction), column.fraction),
    ):
        for place in range(digits):
            text[:, end - 1 - place] += (value // 10**place % 10).astype(np.uint8)
    text[:, 4] = text[:, 7] = ord(":")
    if tail:
        text[:, 10] = ord(".")
    row = np.arange(len(seconds), dtype=np.int64) * width
    first = row + np.where(hours > _SHORT_HOURS, 1, 2)
    letters: Bytes = text.ravel()
    letters[(first - 1)[minus]] = ord("-")
    return slices(letters, first - minus, row + width, null, pa.string())


def _rows(records: RecordBuffer, at: Offsets, null: Nulls, column: Column) -> tuple[pa.Array, Offsets]:
    length = records.buffer[at].astype(np.int64)
    if null is not None:
        length = np.where(null, 0, length)
    after = records.inside(advance(at, 1 + length, null), column)
    if not np.isin(length, (0, 8, 12)).all():
        raise fail(column, "a time has an invalid length", "Report this with the server's version.")
    there = length > 0
    minus = there & (records.buffer[at + 1] != 0)
    days = records.unsigned(at + 2, 4).view(np.int64)
    clock = records.unsigned(at + 6, 3).view(np.int64)
    seconds = ((days * 24 + (clock & 0xFF)) * 60 + (clock >> 8 & 0xFF)) * 60 + (clock >> 16)
    us = np.where(length > 8, records.unsigned(np.minimum(at + 9, after), 4).view(np.int64), 0)
    return _texts(minus, np.where(there, seconds, 0), us, null, column), after


def _images(
    records: RecordBuffer, at: Offsets, null: Nulls, column: Column, mapped: Mapped
) -> tuple[pa.Array, Offsets]:
    size = (mapped.metadata[0] + 1) // 2
    after = records.inside(advance(at, 3 + size, null), column)
    packed = records.big_endian(at, 3 + size).view(np.int64) - (0x800000 << 8 * size)
    if null is not None:
        packed = np.where(null, 0, packed)
    magnitude = np.abs(packed)
    parts, fraction = magnitude >> 8 * size, magnitude & ((1 << 8 * size) - 1)
    seconds = ((parts >> 12 & 0x3FF) * 60 + (parts >> 6 & 63)) * 60 + (parts & 63)
    return _texts(packed < 0, seconds, fraction * 100 ** (3 - size), null, column), after


def _row_years(records: RecordBuffer, at: Offsets, null: Nulls, column: Column) -> tuple[pa.Array, Offsets]:
    after = records.inside(advance(at, 2, null), column)
    return pa.array(records.unsigned(at, 2).astype(np.int32), mask=null), after


def _image_years(
    records: RecordBuffer, at: Offsets, null: Nulls, column: Column, _: Mapped
) -> tuple[pa.Array, Offsets]:
    after = records.inside(advance(at, 1, null), column)
    year = records.unsigned(at, 1).astype(np.int32)
    return pa.array(np.where(year == 0, 0, year + 1900), mask=null), after


TYPES = {
    "time": ValueType(
        arrow=lambda _: pa.string(),
        row=_rows,
        image=_images,
        protocol=frozenset({11}),
        binlog=frozenset({19}),
        fits=fraction_fits,
    ),
    "year": ValueType(
        arrow=lambda _: pa.int32(),
        row=_row_years,
        image=_image_years,
        protocol=frozenset({13}),
        binlog=frozenset({13}),
    ),
}

"""DATE, DATETIME and TIMESTAMP.

Rows: one length byte (0, 4, 7 or 11), year (2), month, day, hour, minute, second, microseconds (4). Images: DATE packs
its parts into three little-endian bytes; DATETIME2 and TIMESTAMP2 are big-endian, with (digits + 1) // 2 bytes of
fraction (MySQL source, mysys/my_time.cc). The session's time zone is UTC, so a TIMESTAMP is in UTC in both.

An invalid date (zero, a zero part, 31 February) has no Arrow value. If the column permits it (`Column.null_dates`), it
becomes NULL and is counted; otherwise it stops the table.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.decode.framing import Offsets
from engine.decode.schema import Column
from engine.decode.types.base import Mapped, Nulls, RecordBuffer, ValueType, advance, fail

_DATETIME_ZERO = 0x8000000000
_DAY_S, _SECOND_US, _DAY_US = 86_400, 1_000_000, 86_400_000_000


def _calendar() -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The calendar by year × 16 + month.

    Days from 1970-01-01 to the day before the first, and days in the month (0: no such month).
    """
    first = np.arange("0000-01", "10000-01", dtype="M8[M]")
    days = first.astype("M8[D]").astype(np.int64)
    length = (first + 1).astype("M8[D]").astype(np.int64) - days
    before, lengths = np.zeros((10000, 16), np.int32), np.zeros((10000, 16), np.int32)
    before[:, 1:13], lengths[:, 1:13] = (days - 1).reshape(-1, 12), length.reshape(-1, 12)
    return before.ravel(), lengths.ravel()


_BEFORE, _LENGTH = _calendar()


def _without_wrong(
    wrong: npt.NDArray[np.bool_], text_of: Callable[[int], str], null: Nulls, records: RecordBuffer, column: Column
) -> Nulls:
    """Add the `wrong` values to the NULLs if the column permits it.

    Otherwise raises DecodeError with the text of the first one.
    """
    if null is not None:
        wrong = wrong & ~null
    if not wrong.any():
        return null
    if column.null_dates:
        records.nulled[column.name] += int(wrong.sum())
        return wrong if null is None else wrong | null
    raise fail(
        column,
        f"the date {text_of(int(np.flatnonzero(wrong)[0]))} does not exist",
        "Correct the value in the source, or have such dates written as NULL and counted: with source.invalid_dates = "
        "'null' in the spec, the next start resnapshots the table (never for a column of the key).",
    )


def _days(
    year_month: npt.NDArray[np.int64], day: npt.NDArray[np.int64], null: Nulls, records: RecordBuffer, column: Column
) -> tuple[npt.NDArray[np.int64], Nulls]:
    """Days since 1970, and a mask of NULLs. Raises DecodeError for an invalid date."""
    index = np.minimum(year_month, len(_LENGTH) - 1)
    wrong = (day < 1) | (day > _LENGTH[index]) | (year_month != index)
    null = _without_wrong(
        wrong, lambda n: f"{year_month[n] >> 4:04d}-{year_month[n] & 15:02d}-{day[n]:02d}", null, records, column
    )
    return np.asarray(_BEFORE[index] + day), null


def _parts(
    records: RecordBuffer, at: Offsets, null: Nulls, column: Column
) -> tuple[npt.NDArray[np.uint64], Offsets, Offsets]:
    """The seven bytes of date and time of each value, the length bytes, and the cursors after them.

    Absent values are zero.
    """
    length = records.buffer[at].astype(np.int64)
    if null is not None:
        length = np.where(null, 0, length)
    after = records.inside(advance(at, 1 + length, null), column)
    if not np.isin(length, (0, 4, 7, 11)).all():
        raise fail(column, "a date has an invalid length", "Report this with the server's version.")
    bits = (8 * np.minimum(length, 7)).astype(np.uint64)
    return records.u64[at + 1] & ((np.uint64(1) << bits) - np.uint64(1)), length, after


def _split(parts: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Split the bytes into (year × 16 + month, day, second of the day)."""
    v = parts.view(np.int64)
    seconds = ((v >> 32 & 0xFF) * 60 + (v >> 40 & 0xFF)) * 60 + (v >> 48 & 0xFF)
    return ((v & 0xFFFF) << 4) + np.minimum(v >> 16 & 0xFF, 15), v >> 24 & 0xFF, seconds


def _time(
    seconds: npt.NDArray[np.int64], us: npt.NDArray[np.int64], null: Nulls, column: Column
) -> npt.NDArray[np.int64]:
    """Microseconds of the day. Raises DecodeError for an invalid time of day."""
    wrong = (seconds >= _DAY_S) | (us >= _SECOND_US)
    if null is not None:
        wrong &= ~null
    if wrong.any():
        raise fail(column, "a time of day is invalid", "Report this with the server's version.")
    return seconds * _SECOND_US + us


def _row_dates(records: RecordBuffer, at: Offsets, null: Nulls, column: Column) -> tuple[pa.Array, Offsets]:
    parts, _, after = _parts(records, at, null, column)
    year_month, day, _ = _split(parts)
    days, null = _days(year_month, day, null, records, column)
    return pa.array(days.astype("M8[D]"), mask=null), after


def _row_datetimes(
    type_: pa.DataType, records: RecordBuffer, at: Offsets, null: Nulls, column: Column
) -> tuple[pa.Array, Offsets]:
    parts, length, after = _parts(records, at, null, column)
    year_month, day, seconds = _split(parts)
    us = np.where(length > 7, records.unsigned(at + 8, 4).view(np.int64), 0)
    days, null = _days(year_month, day, null, records, column)
    value = days * _DAY_US + _time(seconds, us, null, column)
    return pa.array(value, mask=null).view(type_), after


def _image_dates(
    records: RecordBuffer, at: Offsets, null: Nulls, column: Column, _: Mapped
) -> tuple[pa.Array, Offsets]:
    after = records.inside(advance(at, 3, null), column)
    v = records.unsigned(at, 3).view(np.int64)
    days, null = _days(v >> 5, v & 31, null, records, column)
    return pa.array(days.astype("M8[D]"), mask=null), after


def fraction(records: RecordBuffer, at: Offsets, digits: int) -> npt.NDArray[np.int64]:
    """Microseconds from the (digits + 1) // 2 bytes at the cursors."""
    size = (digits + 1) // 2
    if not size:
        return np.zeros(len(at), np.int64)
    return np.asarray(records.big_endian(at, size).view(np.int64) * 100 ** (3 - size))


def _image_datetimes(
    records: RecordBuffer, at: Offsets, null: Nulls, column: Column, mapped: Mapped
) -> tuple[pa.Array, Offsets]:
    after = records.inside(advance(at, 5 + (mapped.metadata[0] + 1) // 2, null), column)
    packed = records.big_endian(at, 5).view(np.int64) - _DATETIME_ZERO
    months = packed >> 22
    year_month = ((months // 13) << 4) + months % 13
    seconds = ((packed >> 12 & 31) * 60 + (packed >> 6 & 63)) * 60 + (packed & 63)
    days, null = _days(np.maximum(year_month, 0), packed >> 17 & 31, null, records, column)
    value = days * _DAY_US + _time(seconds, fraction(records, at + 5, mapped.metadata[0]), null, column)
    return pa.array(value, mask=null).view(pa.timestamp("us")), after


def _image_timestamps(
    records: RecordBuffer, at: Offsets, null: Nulls, column: Column, mapped: Mapped
) -> tuple[pa.Array, Offsets]:
    after = records.inside(advance(at, 4 + (mapped.metadata[0] + 1) // 2, null), column)
    seconds = records.big_endian(at, 4).view(np.int64)
    us = fraction(records, at + 4, mapped.metadata[0])
    # 0 is '0000-00-00 00:00:00'. MariaDB also stores fractions of 1970's first second; MySQL begins with the next
    # second.
    null = _without_wrong((seconds == 0) & (us == 0), lambda _: "0000-00-00 00:00:00", null, records, column)
    return pa.array(seconds * 1_000_000 + us, mask=null).view(pa.timestamp("us", "UTC")), after


def fraction_fits(column: Column, mapped: Mapped) -> bool:
    """Whether the table map announces the column's own number of fractional digits."""
    return mapped.metadata == bytes((column.fraction,))


TYPES = {
    "date": ValueType(
        arrow=lambda _: pa.date32(),
        row=_row_dates,
        image=_image_dates,
        protocol=frozenset({10, 14}),
        binlog=frozenset({10}),
    ),
    "datetime": ValueType(
        arrow=lambda _: pa.timestamp("us"),
        row=partial(_row_datetimes, pa.timestamp("us")),
        image=_image_datetimes,
        protocol=frozenset({12}),
        binlog=frozenset({18}),
        fits=fraction_fits,
    ),
    "timestamp": ValueType(
        arrow=lambda _: pa.timestamp("us", "UTC"),
        row=partial(_row_datetimes, pa.timestamp("us", "UTC")),
        image=_image_timestamps,
        protocol=frozenset({7}),
        binlog=frozenset({17}),
        fits=fraction_fits,
    ),
}

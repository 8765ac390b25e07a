"""DECIMAL: text in the binary protocol, packed groups of nine digits in row images.

Packed format (MySQL source, strings/decimal.cc, `decimal2bin`): big-endian; the whole digits as a first group of fewer
than nine, then full groups of nine in four bytes each; the fraction as full groups, then a last group of fewer. A group
of n < 9 digits takes `_BYTES[n]` bytes. The highest bit is set for values from zero up; negative values have all bits
inverted.

Up to 38 digits become decimal128; more become the server's own text.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.base.errors import DecodeError
from engine.decode.framing import Offsets
from engine.decode.schema import Column
from engine.decode.types.base import Mapped, Nulls, RecordBuffer, ValueType, advance, fail, slices, validity
from engine.decode.types.numbers import decimal_of_words

_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_ARROW_DIGITS = 38
_WORD_DIGITS = 18


def _arrow(column: Column) -> pa.DataType:
    if column.precision > _ARROW_DIGITS:
        return pa.string()
    return pa.decimal128(column.precision, column.scale)


def _rows(records: RecordBuffer, at: Offsets, null: Nulls, column: Column) -> tuple[pa.Array, Offsets]:
    start, after = records.counted(at, null, column)
    if column.precision <= _WORD_DIGITS and len(at):
        return _short(records, start, after, null, column), after
    text = slices(records.buffer, start, after, null, pa.string())
    type_ = _arrow(column)
    if pa.types.is_string(type_):
        if pc.any(pc.invert(pc.match_substring_regex(text, _pattern(column)))).as_py():
            raise _not_a_decimal(column)
        return pc.replace_substring_regex(text, r"^(-?)0+([0-9])", r"\1\2"), after  # ZEROFILL pads, images do not
    try:
        return text.cast(type_), after
    except pa.ArrowInvalid:
        raise _not_a_decimal(column) from None


def _pattern(column: Column) -> str:
    return r"^-?[0-9]+" + (rf"\.[0-9]{{{column.scale}}}$" if column.scale else "$")


def _not_a_decimal(column: Column) -> DecodeError:
    what = "the server sent a text that is not a decimal of its precision and scale"
    return fail(column, what, "Report this with the server's version.")


def _short(records: RecordBuffer, start: Offsets, after: Offsets, null: Nulls, column: Column) -> pa.Array:
    """Decimals of up to 18 digits, from their texts.

    The server prints every value with exactly `scale` digits after the point, so each digit has a fixed place, counted
    from the end. Digits are decoded from the right, all rows at once.
    """
    length = after - start
    minus = (records.buffer[start] == ord("-")) & (length > 0)
    first = start + minus
    value = np.zeros(len(start), np.int64)
    point = column.scale + 1 if column.scale else 0
    wrong = after - first <= point
    if point:
        wrong |= records.buffer[after - point] != ord(".")
    unit, longest = 1, int((after - first).max())
    if longest > column.precision + (2 if point else 0):  # the point, and a leading zero if there is no whole digit
        raise _not_a_decimal(column)
    for place in range(1, longest + 1):
        if place == point:
            continue
        at = after - place
        present = at >= first
        digit = records.buffer[np.maximum(at, 0)].astype(np.int64) - ord("0")
        wrong |= present & ((digit < 0) | (digit > 9))
        value += np.where(present, digit, 0) * unit
        unit = min(unit * 10, 10**_WORD_DIGITS)
    wrong |= value.view(np.uint64) >= np.uint64(10**column.precision)
    if null is not None:
        wrong &= ~null
    if wrong.any():
        raise _not_a_decimal(column)
    value = np.where(minus, -value, value)
    return decimal_of_words(value.view(np.uint64), value >> 63, null, _arrow(column))


def _groups(precision: int, scale: int) -> list[tuple[int, int]]:
    """The (digits, bytes) of each group, first to last."""
    whole, fraction = precision - scale, scale
    digits = [whole % 9, *[9] * (whole // 9), *[9] * (fraction // 9), fraction % 9]
    return [(n, _BYTES[n]) for n in digits if n]


def packed_bytes(precision: int, scale: int) -> int:
    """The bytes of a packed decimal."""
    return sum(size for _, size in _groups(precision, scale))


def _images(
    records: RecordBuffer, at: Offsets, null: Nulls, column: Column, mapped: Mapped
) -> tuple[pa.Array, Offsets]:
    precision, scale = mapped.metadata
    groups = _groups(precision, scale)
    after = records.inside(advance(at, packed_bytes(precision, scale), null), column)
    negative = (records.buffer[at] & 0x80) == 0
    values, here = [], at
    for n, (_, size) in enumerate(groups):
        raw = records.big_endian(here, size)
        if n == 0:
            raw ^= np.uint64(0x80 << (8 * (size - 1)))
        values.append(np.where(negative, raw ^ np.uint64((1 << 8 * size) - 1), raw))
        here = here + size
    for (digits, _), value in zip(groups, values, strict=True):
        present = value if null is None else value[~null]
        if (present >= np.uint64(10**digits)).any():
            raise fail(column, "a group of digits is out of range", "Report this with the server's version.")
    if precision > _ARROW_DIGITS:
        return _texts(groups, values, negative, null, precision - scale), after
    type_ = pa.decimal128(precision, scale)
    low, high = _combine(groups, values, precision)
    low, high = _negated(low, high, negative)
    return decimal_of_words(low, high, null, type_), after


def _combine(
    groups: list[tuple[int, int]], values: list[npt.NDArray[np.uint64]], precision: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """The 128-bit integers of the groups' digits, as (low, high) words: schoolbook arithmetic on 32-bit limbs."""
    if precision <= _WORD_DIGITS:
        total = np.zeros(len(values[0]), np.uint64)
        for (digits, _), value in zip(groups, values, strict=True):
            total = total * np.uint64(10**digits) + value
        return total, np.zeros(len(total), np.int64)
    limbs = [np.zeros(len(values[0]), np.uint64) for _ in range(4)]
    for (digits, _), value in zip(groups, values, strict=True):
        carry = value
        for i in range(4):
            product = limbs[i] * np.uint64(10**digits) + carry
            limbs[i], carry = product & np.uint64(0xFFFFFFFF), product >> np.uint64(32)
    return limbs[0] | limbs[1] << np.uint64(32), (limbs[2] | limbs[3] << np.uint64(32)).view(np.int64)


def _negated(
    low: npt.NDArray[np.uint64], high: npt.NDArray[np.int64], negative: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """The two's complement of the values marked `negative`."""
    flipped_low = ~low + np.uint64(1)
    flipped_high = ~high + (flipped_low == 0)
    return np.where(negative, flipped_low, low), np.where(negative, flipped_high, high)


def _texts(
    groups: list[tuple[int, int]],
    values: list[npt.NDArray[np.uint64]],
    negative: npt.NDArray[np.bool_],
    null: Nulls,
    whole: int,
) -> pa.Array:
    """Decimals of more than 38 digits, as the server prints them. whole: digits before the point, at least one.

    A row of `text` has a place for each character: the sign, all digits, the point. `visible` marks those that it
    prints. No group has digits on both sides of the point.
    """
    digits = sum(n for n, _ in groups)
    has_point = digits > whole
    text = np.empty((1 + digits + has_point, len(negative)), np.uint8)
    visible = np.ones(text.shape, bool)
    text[0], visible[0] = ord("-"), negative
    if has_point:
        text[1 + whole] = ord(".")
    after = 1
    for (n, _), value in zip(groups, values, strict=True):
        after += n + (has_point and after == 1 + whole)
        rest = value.astype(np.uint32)
        for place in range(after - 1, after - 1 - n, -1):
            rest, text[place] = np.divmod(rest, np.uint32(10))
            text[place] += ord("0")
    np.logical_or.accumulate(text[1:whole] != ord("0"), axis=0, out=visible[1:whole])  # no leading zeros
    if null is not None:
        visible[:, null] = False
    ends = np.zeros(len(negative) + 1, np.int32)
    visible.sum(axis=0).cumsum(out=ends[1:])
    buffers = [validity(null), pa.py_buffer(ends), pa.py_buffer(text.T[visible.T])]
    return pa.Array.from_buffers(pa.string(), len(negative), buffers)


TYPES = {
    "decimal": ValueType(
        arrow=_arrow,
        row=_rows,
        image=_images,
        protocol=frozenset({246, 0}),
        binlog=frozenset({246}),
        fits=lambda column, mapped: mapped.metadata == bytes((column.precision, column.scale)),
    ),
}

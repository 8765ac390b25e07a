"""The common part of all type decoders: cursors over many records, and Arrow arrays copied from a buffer.

A decoder gets one cursor per record, all on the same column. It returns the values as an Arrow array, and the cursors
after them. Nothing is ever done row by row. Loads at a cursor may exceed a record by up to eight bytes, which
`framing.PADDING` makes safe. Once per column, a check ensures that no cursor has left its record.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.base.errors import DecodeError
from engine.decode.framing import Bytes, Offsets, words
from engine.decode.schema import Column

Nulls = npt.NDArray[np.bool_] | None


@dataclass(frozen=True)
class RecordBuffer:
    """A buffer, the ends of the records in it, and ways to load integers from it."""

    buffer: Bytes
    u64: npt.NDArray[np.uint64]
    end: Offsets
    nulled: Counter[str] = field(default_factory=Counter)
    """Invalid dates that became NULL, by column (`Column.null_dates`)."""

    @staticmethod
    def over(buffer: Bytes, end: Offsets, nulled: Counter[str]) -> "RecordBuffer":
        return RecordBuffer(buffer, words(buffer), end, nulled)

    def rows(self, chosen: npt.NDArray[np.bool_]) -> "RecordBuffer":
        """The same buffer with some of the records."""
        return RecordBuffer(self.buffer, self.u64, self.end[chosen], self.nulled)

    def inside(self, at: Offsets, column: Column) -> Offsets:
        """Return `at` if no cursor is past the end of its record. Raises DecodeError otherwise."""
        if (at > self.end).any():
            raise _outside(column)
        return at

    def unsigned(self, at: Offsets, width: int) -> npt.NDArray[np.uint64]:
        """The unsigned little-endian integers of `width` (1 to 8) bytes at the cursors."""
        if width == 1:
            return self.buffer[at].astype(np.uint64)  # an aligned load costs an eighth
        value = self.u64[at]
        return value if width == 8 else value & np.uint64((1 << 8 * width) - 1)

    def signed(self, at: Offsets, width: int) -> npt.NDArray[np.int64]:
        """The signed little-endian integers of `width` bytes at the cursors."""
        shift = np.uint64(64 - 8 * width)
        return (self.u64[at] << shift).view(np.int64) >> shift.astype(np.int64)

    def big_endian(self, at: Offsets, width: int) -> npt.NDArray[np.uint64]:
        """The unsigned big-endian integers of `width` bytes at the cursors."""
        return self.u64[at].byteswap() >> np.uint64(64 - 8 * width)

    def length(self, at: Offsets) -> tuple[Offsets, Offsets]:
        """Length-encoded integers at the cursors: their values (-1 if invalid) and the cursors after them."""
        word = self.u64[at]
        first = (word & np.uint64(0xFF)).astype(np.int64)
        value, after = first, at + 1
        if (first > 0xFA).any():
            value = value.copy()
            for mark, width in ((0xFC, 2), (0xFD, 3), (0xFE, 8)):
                some = np.flatnonzero(first == mark)
                value[some] = self.unsigned(at[some] + 1, width).astype(np.int64)
                after[some] += width
            value[(first == 0xFB) | (first == 0xFF)] = -1
        return value, after

    def counted(self, at: Offsets, null: Nulls, column: Column) -> tuple[Offsets, Offsets]:
        """The starts and ends of values with a length-encoded prefix. A NULL is empty and takes no bytes.

        Raises DecodeError if one exceeds its record.
        """
        length, start = self.length(at)
        if null is not None:
            length, start = np.where(null, 0, length), np.where(null, at, start)
        # Do not compare the sum: a length of eight bytes would overflow.
        if ((length < 0) | (length > self.end - start)).any():
            raise _outside(column)
        return start, start + length


def _outside(column: Column) -> DecodeError:
    return DecodeError(
        f"Column {column.name!r} ({column.type.upper()}) exceeds the end of its record.",
        detail="The bytes do not have the layout of the column's definition; none of them was used.",
        hint="If the table has just been altered, start the pipeline again; otherwise report this with the "
        "server's version.",
    )


_INT32_MAX = (1 << 31) - 1
_WIDE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}

Decode = Callable[[RecordBuffer, Offsets, Nulls, Column], tuple[pa.Array, Offsets]]
DecodeImage = Callable[[RecordBuffer, Offsets, Nulls, Column, "Mapped"], tuple[pa.Array, Offsets]]


@dataclass(frozen=True)
class Mapped:
    """A column as announced in a table map: its binlog type code and the type's metadata bytes.

    The other fields are None if `binlog_row_metadata` omits them.
    """

    code: int
    metadata: bytes
    unsigned: bool | None = None
    collation: int | None = None
    """The collation's number."""
    labels: tuple[bytes, ...] | None = None
    """The labels of an ENUM or SET, in its character set."""


@dataclass(frozen=True)
class ValueType:
    """One MySQL type."""

    arrow: Callable[[Column], pa.DataType]
    """The Arrow type of a column."""
    row: Decode
    """Decodes the binary protocol."""
    image: DecodeImage
    """Decodes row images; the last argument is the column's entry in the table map."""
    protocol: frozenset[int]
    """Type codes that a result set may announce."""
    binlog: frozenset[int]
    """Type codes that a table map may announce."""
    fits: Callable[[Column, Mapped], bool] = lambda _column, _mapped: True
    """Whether the table map's metadata announce the layout that `image` decodes."""
    fault: Callable[[Column], str | None] = lambda _: None
    """Why a column cannot be decoded; None if it can."""


def null_bits(buffer: Bytes, at: Offsets, columns: int, unused: int = 0) -> Iterator[Nulls]:
    """Yield, per column, which values are NULL, from the bitmaps at the cursors.

    The first `unused` bits belong to no column.
    """
    byte = buffer[at]
    for bit in range(unused, unused + columns):
        if not bit & 7:
            byte = buffer[at + (bit >> 3)]
        null = (byte & np.uint8(1 << (bit & 7))).astype(bool)
        yield null if null.any() else None


def advance(at: Offsets, width: int | Offsets, null: Nulls) -> Offsets:
    """The cursors after values of `width` bytes; a NULL takes none."""
    return at + width if null is None else at + np.where(null, 0, width)


def validity(null: Nulls) -> pa.Buffer | None:
    """Arrow's validity bitmap."""
    return None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))


def slices(buffer: Bytes, start: Offsets, end: Offsets, null: Nulls, type_: pa.DataType) -> pa.Array:
    """Strings or binaries from the buffer, copied by Arrow.

    The offsets start, end, start, end, … form an array over the buffer whose even slots are the values; `take` copies
    those. A NULL must have start = end.
    """
    count = len(start)
    if not count:
        return pa.array([], type_)
    if (start[1:] < start[:-1]).any():  # Arrow's offsets must ascend, but unpacked events lie after plain ones
        order = np.argsort(start, kind="stable")
        back = np.empty(count, np.int64)
        back[order] = np.arange(count)
        sorted_ = slices(buffer, start[order], end[order], None if null is None else null[order], type_)
        return sorted_.take(pa.array(back))
    wide = len(buffer) > _INT32_MAX
    offsets = np.empty(2 * count, dtype=np.int64 if wide else np.int32)
    offsets[0::2], offsets[1::2] = start, end
    over = _WIDE[type_] if wide else type_
    whole = pa.Array.from_buffers(over, 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(buffer)])
    slots = np.arange(0, 2 * count - 1, 2, dtype=np.int32)
    return whole.take(pa.array(slots, mask=null)).cast(type_)


def fail(column: Column, what: str, hint: str) -> DecodeError:
    """The error for a value that cannot be represented."""
    return DecodeError(
        f"Column {column.name!r} ({column.type.upper()}): {what}.",
        detail="The table stops here. Its published data is correct up to the last committed position.",
        hint=hint,
    )

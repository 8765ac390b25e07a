"""What the decoders of all types share: cursors over many records, and Arrow arrays cut out of a buffer.

A decoder is given one cursor a record, all standing on the same column, and returns the values as an Arrow array and the
cursors moved behind them. Nothing is ever done row by row. Loads at a cursor may run up to eight bytes over the end
of a record, which `framing.PADDING` makes safe; that no cursor leaves its record is checked once a column.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.decode.framing import Bytes, Offsets, words
from engine.decode.schema import Column
from engine.errors import DecodeError

Nulls = npt.NDArray[np.bool_] | None


@dataclass(frozen=True)
class Records:
    """A buffer, where each record in it ends, and how to load integers from it."""

    buffer: Bytes
    u64: npt.NDArray[np.uint64]
    end: Offsets
    nulled: Counter[str] = field(default_factory=Counter)
    """By column, how many dates became NULL because they do not exist (`Column.null_dates`)."""

    @staticmethod
    def over(buffer: Bytes, end: Offsets, nulled: Counter[str]) -> "Records":
        return Records(buffer, words(buffer), end, nulled)

    def rows(self, chosen: npt.NDArray[np.bool_]) -> "Records":
        """The same buffer for some of the records."""
        return Records(self.buffer, self.u64, self.end[chosen], self.nulled)

    def inside(self, at: Offsets, column: Column) -> Offsets:
        """`at`, when no cursor is behind the end of its record. Raises DecodeError otherwise."""
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
        """Length-encoded integers at the cursors: their values (-1 for what is none) and the cursors behind them."""
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
        """Where values with a length-encoded length in front start and end; a NULL is empty and takes no byte.

        Raises DecodeError when one reaches over the end of its record.
        """
        length, start = self.length(at)
        if null is not None:
            length, start = np.where(null, 0, length), np.where(null, at, start)
        # Not by the sum of both: a length of eight bytes would run over.
        if ((length < 0) | (length > self.end - start)).any():
            raise _outside(column)
        return start, start + length


def _outside(column: Column) -> DecodeError:
    return DecodeError(
        f"Column {column.name!r} ({column.type.upper()}) reaches over the end of its record.",
        detail="The bytes do not have the layout that the column's definition promises; none of them was used.",
        hint="If the table was altered just now, start the pipeline again; otherwise report this with the "
        "server's version.",
    )


_INT32_MAX = (1 << 31) - 1
_WIDE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}

Decode = Callable[[Records, Offsets, Nulls, Column], tuple[pa.Array, Offsets]]
DecodeImage = Callable[[Records, Offsets, Nulls, Column, "Mapped"], tuple[pa.Array, Offsets]]


@dataclass(frozen=True)
class Mapped:
    """How a table map announces one column: its binlog type code and that type's metadata bytes.

    The rest is None where `binlog_row_metadata` leaves it out.
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
    """Decoder of the binary protocol."""
    image: DecodeImage
    """Decoder of row images; its last argument is what the table map says of the column."""
    protocol: frozenset[int]
    """Type codes that a result set may announce."""
    binlog: frozenset[int]
    """Type codes that a table map may announce."""
    fits: Callable[[Column, Mapped], bool] = lambda _column, _mapped: True
    """Whether the table map's metadata promise the layout that `image` decodes."""
    fault: Callable[[Column], str | None] = lambda _: None
    """Why a column cannot be decoded; None where it can."""


def null_bits(buffer: Bytes, at: Offsets, columns: int, unused: int = 0) -> Iterator[Nulls]:
    """Of each column which values are NULL, out of the bitmaps at the cursors, whose first `unused` bits belong to no column."""
    byte = buffer[at]
    for bit in range(unused, unused + columns):
        if not bit & 7:
            byte = buffer[at + (bit >> 3)]
        null = (byte & np.uint8(1 << (bit & 7))).astype(bool)
        yield null if null.any() else None


def advance(at: Offsets, width: int | Offsets, null: Nulls) -> Offsets:
    """The cursors behind values of `width` bytes; a NULL takes none."""
    return at + width if null is None else at + np.where(null, 0, width)


def validity(null: Nulls) -> pa.Buffer | None:
    """Arrow's validity bitmap."""
    return None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))


def slices(buffer: Bytes, start: Offsets, end: Offsets, null: Nulls, type_: pa.DataType) -> pa.Array:
    """Strings or binaries cut out of the buffer, copied by Arrow.

    The offsets start, end, start, end, … make an array over the buffer whose even slots are the values; `take` copies those. A NULL
    must have start = end.
    """
    count = len(start)
    if not count:
        return pa.array([], type_)
    if (start[1:] < start[:-1]).any():  # Arrow's offsets rise; what was unpacked lies behind what came plain
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
        detail="The table stops here; what is published of it is right up to the last committed position.",
        hint=hint,
    )

"""Where row images end, computed from column widths alone.

Images follow one another without a length, and a block of the binlog has thousands of events with one image each, or
hundreds with a hundred. To decode all images at once however they are spread, their ends are found first: one cursor
per event moves over image after image, as cheaply as possible. Columns of fixed width cost nothing by themselves. For
each byte of the NULL bitmap, a table of 256 tells how many bytes its columns take between two columns with a length
prefix. Only the prefixes are loaded.

The result is not trusted: the decoders move their own cursors, which must end at the same place
(`engine.decode.images`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from engine.base.errors import DecodeError
from engine.decode.framing import Offsets
from engine.decode.schema import Column
from engine.decode.types.base import Mapped, RecordBuffer
from engine.decode.types.decimals import packed_bytes
from engine.decode.types.labels import ENUM, SET
from engine.decode.types.strings import length_bytes

_FIXED = {1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 8: 8, 9: 3, 10: 3, 13: 1}
_BIT, _TIMESTAMP, _DATETIME, _TIME, _DECIMAL, _STRING = 16, 17, 18, 19, 246, 254
_BEFORE_FRACTION = {_TIMESTAMP: 4, _DATETIME: 5, _TIME: 3}
FIXED = frozenset({*_FIXED, *_BEFORE_FRACTION, _BIT, _DECIMAL})
"""Type codes of columns of fixed width."""
COUNTED = frozenset({15, 140, 141, 242, 245, 252, 253, 254, 255})
"""Type codes of columns with a length prefix, including those whose metadata decide whether they have one."""
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").astype(np.int64)


@dataclass(frozen=True)
class _Counted:
    """A column with a length prefix: its number, byte and bit in the NULL bitmap, and the bytes of the prefix."""

    column: int
    byte: int
    bit: np.uint8
    prefix: int


@dataclass(frozen=True)
class _ColumnGroup:
    """Columns of fixed width, as (byte of the bitmap, bytes by its value), and the prefixed column after them."""

    fixed: tuple[tuple[int, npt.NDArray[np.int64]], ...]
    last: int
    counted: _Counted | None


def ends(records: RecordBuffer, start: Offsets, columns: Sequence[Column], mapped: Sequence[Mapped]) -> Offsets:
    """The ends of the images at the cursors. Raises DecodeError if one exceeds its record."""
    size = (len(columns) + 7) // 8
    at = start + size
    if (at > records.end).any():
        raise DecodeError("A row image is shorter than its NULL bitmap.", detail="Nothing of it was used.")
    nulls = [records.buffer[start + n] for n in range(size)]
    for step in _steps(tuple((announced.code, announced.metadata) for announced in mapped)):
        for byte, widths in step.fixed:
            at = at + widths[nulls[byte]]
        if step.counted:
            counted = step.counted
            at = records.inside(at, columns[step.last])
            width = records.unsigned(at, counted.prefix).astype(np.int64) + counted.prefix
            width *= (nulls[counted.byte] & counted.bit) == 0
            at += width
        else:
            at = records.inside(at, columns[step.last])
    return at


@lru_cache(maxsize=256)
def _steps(announced: tuple[tuple[int, bytes], ...]) -> tuple[_ColumnGroup, ...]:
    steps, fixed = [], []
    for n, (code, metadata) in enumerate(announced):
        width = fixed_width(code, metadata)
        if width is not None:
            fixed.append((n, width))
            continue
        counted = _Counted(n, n >> 3, np.uint8(1 << (n & 7)), length_bytes(Mapped(code, metadata)))
        steps.append(_ColumnGroup(_by_byte(fixed), max(n - 1, 0), counted))
        fixed = []
    return (*steps, _ColumnGroup(_by_byte(fixed), len(announced) - 1, None))


def _by_byte(fixed: Iterable[tuple[int, int]]) -> tuple[tuple[int, npt.NDArray[np.int64]], ...]:
    """The widths of numbered columns, as tables per byte of the bitmap."""
    widths: dict[int, npt.NDArray[np.int64]] = {}
    for n, width in fixed:
        widths.setdefault(n >> 3, np.zeros(8, np.int64))[n & 7] = width
    return tuple((byte, (1 - _BITS) @ by_bit) for byte, by_bit in widths.items())


def fixed_width(code: int, metadata: bytes) -> int | None:
    """Bytes of a value in an image; None if it has a length prefix."""
    if code in _FIXED:
        return _FIXED[code]
    if code in _BEFORE_FRACTION:
        return _BEFORE_FRACTION[code] + (metadata[0] + 1) // 2
    if code == _BIT:
        return metadata[1] + (metadata[0] > 0)
    if code == _DECIMAL:
        return packed_bytes(*metadata)
    return metadata[1] if code == _STRING and metadata[0] in (ENUM, SET) else None

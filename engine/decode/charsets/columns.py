"""Decodes a column of encoded texts to an Arrow array of strings.

It handles any character set that can split bytes into characters.

The column's bytes are decoded in windows. So numpy's intermediate arrays stay in the CPU cache, and a LONGTEXT of a
gigabyte does not need twenty of them. A window may end inside a character, so its last two characters are left to the
next window. Two, because a set with up to four bytes per character may see such an end as two characters.
"""

import codecs
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.decode.framing import Bytes, Offsets

Points = npt.NDArray[np.uint32]

NOT_TEXT = 0xFFFFFFFF
"""The code point for bytes that are no character, and for everything else that UTF-8 cannot encode."""
_WINDOW = 1 << 16
_LONGEST = (1 << 31) - 1


class Characters(NamedTuple):
    """The characters of some bytes: their code points, and the byte at which each starts, ascending.

    Two may start at the same byte, if the server converts one code to two characters.
    """

    points: Points
    starts: Offsets


CharacterSplit = Callable[[Bytes], Characters]


class _CharacterWindow(NamedTuple):
    """Whole characters of a column.

    Their offset in its data, their bytes, their points, and their starts plus the final end.
    """

    at: int
    data: Bytes
    points: Points
    starts: Offsets

    def refused(self, charset: str, character: int, reason: str) -> UnicodeDecodeError:
        """The error for an invalid character."""
        start, end = self.starts[character : character + 2]
        code = self.data[start:end].tobytes()
        return UnicodeDecodeError(charset, code, 0, len(code), reason)


def is_ascii(values: pa.Array) -> bool:
    """Whether no byte of the values, including those under NULLs, is above 0x7F."""
    data, _ = _region(values)
    return not len(data) or int(data.max()) < 0x80


def decode(values: pa.Array, charset: str, split: CharacterSplit) -> pa.Array:
    """The values as strings. Raises UnicodeDecodeError and pyarrow.ArrowCapacityError."""
    data, bounds = _region(values)
    valid = None
    if values.null_count:
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        if np.diff(bounds)[~valid].any():  # Arrow allows bytes under NULLs; a copy has none
            data, bounds = _region(values.take(pa.array(np.arange(len(values)))))
    texts, ends = [], np.zeros(len(bounds), np.int64)
    size = done = 0
    for window in _windows(data, split):
        until = window.at + len(window.data)
        last = len(bounds) if until == len(data) else int(np.searchsorted(bounds, until))
        text, offsets = _encode(window, bounds[done:last] - window.at, charset)
        ends[done:last] = offsets + size
        size, done = size + len(text), last
        texts.append(text)
    if size > _LONGEST:
        raise pa.ArrowCapacityError(f"{size} bytes of text do not fit into one Arrow array; read fewer rows at once")
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bitmap, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def _region(values: pa.Array) -> tuple[Bytes, Offsets]:
    """The bytes that the array uses of its buffer, and the offset of each value in them, plus the final end."""
    _, offsets, content = values.buffers()
    if not len(values):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    data = np.frombuffer(content or b"", np.uint8)[bounds[0] : bounds[-1]]
    return data, bounds - bounds[0]


def _windows(data: Bytes, split: CharacterSplit) -> Iterator[_CharacterWindow]:
    """Split all the data into windows of whole characters."""
    at = 0
    while at < len(data):
        window = data[at : at + _WINDOW]
        points, starts = split(window)
        if at + len(window) < len(data):
            window = window[: starts[-2]]
            points = points[: np.searchsorted(starts, len(window))]
        yield _CharacterWindow(at, window, points, np.append(starts[: len(points)], len(window)))
        at += len(window)


def _encode(window: _CharacterWindow, bounds: Offsets, charset: str) -> tuple[bytes, Offsets]:
    """The characters as UTF-8, and the offsets in it of the values that start at `bounds`.

    Raises UnicodeDecodeError for an invalid character, and if a value starts inside a character.
    """
    points, starts = window.points, window.starts
    try:
        text, _ = codecs.utf_32_le_decode(points.data, "strict", True)
    except UnicodeDecodeError as error:
        raise window.refused(charset, error.start // 4, "no character of this set") from None
    ends = np.zeros(len(points) + 1, np.int64)
    np.cumsum((points >= 0x80).view(np.uint8) + (points >= 0x800) + (points >= 0x10000) + np.uint8(1), out=ends[1:])
    # If all characters are single bytes, a byte's number is its character's.
    index = bounds if len(points) == len(window.data) else np.searchsorted(starts, bounds)
    inside = np.flatnonzero(starts[index] != bounds)
    if len(inside):
        raise window.refused(charset, int(index[inside[0]]) - 1, "a text ends inside a character")
    return text.encode(), ends[index]

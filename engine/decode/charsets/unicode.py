"""Unicode in fixed-width units: ucs2, utf16, utf16le and utf32.

The servers treat a byte order mark as the character U+FEFF. Unpaired surrogates stay as they are, and cannot be
converted to UTF-8.
"""

from functools import partial

import numpy as np

from engine.decode.charsets.columns import NOT_TEXT, Characters, CharacterSplit
from engine.decode.framing import Bytes


def _units(dtype: str, data: Bytes) -> Characters:
    """Split into units: each is a character; an incomplete one at the end is invalid."""
    width = np.dtype(dtype).itemsize
    whole = len(data) // width
    points = data[: whole * width].view(dtype).astype("<u4")
    if whole * width < len(data):
        points = np.append(points, np.uint32(NOT_TEXT))
    return Characters(points, np.arange(len(points)) * width)


def _utf16(dtype: str, data: Bytes) -> Characters:
    """Split into units, and merge each high surrogate with the low one after it."""
    points, starts = _units(dtype, data)
    if ((points & 0xF800) != 0xD800).all():
        return Characters(points, starts)
    high, low = (points & 0xFFFFFC00) == 0xD800, (points & 0xFFFFFC00) == 0xDC00
    first = np.flatnonzero(high[:-1] & low[1:])
    points[first] = 0x10000 + ((points[first] & 0x3FF) << 10 | points[first + 1] & 0x3FF)
    return Characters(np.delete(points, first + 1), np.delete(starts, first + 1))


SPLITS: dict[str, CharacterSplit] = {
    "ucs2": partial(_units, ">u2"),
    "utf16": partial(_utf16, ">u2"),
    "utf16le": partial(_utf16, "<u2"),
    "utf32": partial(_units, ">u4"),
}

"""Unicode in units of fixed width: ucs2, utf16, utf16le and utf32.

The servers take a byte order mark for the character U+FEFF that it also is. Surrogates that are no pair stay as they are, and no
UTF-8 can be made of them.
"""

from functools import partial

import numpy as np

from engine.decode.charsets.columns import NOT_TEXT, Bytes, Characters, Split


def _units(dtype: str, data: Bytes) -> Characters:
    """Every unit is a character; an incomplete one at the end is none."""
    width = np.dtype(dtype).itemsize
    whole = len(data) // width
    points = data[: whole * width].view(dtype).astype("<u4")
    if whole * width < len(data):
        points = np.append(points, np.uint32(NOT_TEXT))
    return Characters(points, np.arange(len(points)) * width)


def _utf16(dtype: str, data: Bytes) -> Characters:
    """Units, and a high surrogate with a low one behind it is one character."""
    points, starts = _units(dtype, data)
    if ((points & 0xF800) != 0xD800).all():
        return Characters(points, starts)
    high, low = (points & 0xFFFFFC00) == 0xD800, (points & 0xFFFFFC00) == 0xDC00
    first = np.flatnonzero(high[:-1] & low[1:])
    points[first] = 0x10000 + ((points[first] & 0x3FF) << 10 | points[first + 1] & 0x3FF)
    return Characters(np.delete(points, first + 1), np.delete(starts, first + 1))


SPLITS: dict[str, Split] = {
    "ucs2": partial(_units, ">u2"),
    "utf16": partial(_utf16, ">u2"),
    "utf16le": partial(_utf16, "<u2"),
    "utf32": partial(_units, ">u4"),
}

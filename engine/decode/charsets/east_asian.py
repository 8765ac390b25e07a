"""Chinese, Japanese and Korean sets: characters of one byte and of two, in some also of three or four.

A byte that may be the first of two may also be the second, so what it is depends on what is before it. A byte that cannot be a
first one always ends a character; so in a run of bytes that can, the first, third, fifth … are first bytes, and what is
behind each of them is its second byte. This is meant for valid text: in any other there is a pair that no table has.
Two kinds of sets need one step more:

* in ujis and eucjpms 8F, which is never part of a pair, goes before a pair and chooses another table;
* gb18030's codes of four bytes are two pairs, each with a digit as its second byte, which no code of two bytes has. In a
  run of such halves the first, third, fifth … are first ones, by the same argument.
"""

import numpy as np
import numpy.typing as npt

from engine.decode.charsets.code_tables import HALF, HALVES, PREFIX, SETS, TWICE, leads, numbered, pairs, prefixed
from engine.decode.charsets.columns import Bytes, Characters, Offsets, Points

Codes = npt.NDArray[np.uint16]
Flags = npt.NDArray[np.bool_]
CHARSETS = frozenset(SETS)


def split(charset: str, data: Bytes) -> Characters:
    """The characters of the bytes; points over U+10FFFF where there is none."""
    padded = np.append(data, np.zeros(2, np.uint8))
    codes: Codes = padded[:-1].astype(np.uint16) << np.uint16(8) | padded[1:]
    starts = np.flatnonzero(~_seconds(leads(charset).take(data)))
    points = pairs(charset).take(codes.take(starts))
    if SETS[charset].prefixed:
        return _prefixed(charset, codes, points, starts)
    return _four_bytes(points, starts) if SETS[charset].halves else Characters(points, starts)


def _seconds(firsts: Flags) -> Flags:
    """What is behind the first, third, fifth … element of each run of `firsts`.

    Calculated with one long integer that has a bit an element: adding its lowest bit to a run clears the run, as the carry goes
    through to its end. That tells the runs that start at an even place from the others.
    """
    size = len(firsts) // 8 + 1
    runs = int.from_bytes(np.packbits(firsts, bitorder="little").tobytes(), "little")
    even = int.from_bytes(b"\x55" * size, "little")
    lowest = runs & ~(runs << 1)
    from_even = runs & ~(runs + (lowest & even))
    owners = (from_even & even) | (runs & ~from_even & ~even)
    seconds = np.frombuffer((owners << 1).to_bytes(size, "little"), np.uint8)
    return np.unpackbits(seconds, count=len(firsts), bitorder="little").view(np.bool_)


def _prefixed(charset: str, codes: Codes, points: Points, starts: Offsets) -> Characters:
    """8F and the pair behind it as one character, and codes that are two of them."""
    prefix = points == PREFIX
    behind = np.flatnonzero(prefix[:-1] & ~prefix[1:]) + 1
    if len(behind):
        points[behind - 1] = prefixed(charset).take(codes.take(starts[behind]))
        points, starts = np.delete(points, behind), np.delete(starts, behind)
    twice = points == TWICE
    if twice.any():
        points[twice] = ord("?")
        points, starts = np.repeat(points, twice + 1), np.repeat(starts, twice + 1)
    return Characters(points, starts)


def _four_bytes(points: Points, starts: Offsets) -> Characters:
    """Two halves as one character; a half that is alone stays none."""
    half = (points >= HALF) & (points < HALF + HALVES)
    if not half.any():
        return Characters(points, starts)
    second = np.flatnonzero(_seconds(half) & half)
    points[second - 1] = numbered((points[second - 1] - HALF) * HALVES + (points[second] - HALF))
    return Characters(np.delete(points, second), np.delete(starts, second))

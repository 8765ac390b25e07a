"""Chinese, Japanese and Korean character sets: characters of one or two bytes, in some sets also of three or four.

A byte that may be the first of two may also be the second, so its role depends on what comes before it. A byte that
cannot be a first byte always ends a character. So in a run of bytes that can, the first, third, fifth … are first
bytes, and each is followed by its second byte. This holds for valid text; any other contains a pair that is in no
table. Two kinds of sets need one more step:

* in ujis and eucjpms 8F, which is never part of a pair, comes before a pair and selects another table;
* gb18030's four-byte codes are two pairs, each with a digit as its second byte, which no two-byte code has. In a run of
  such halves the first, third, fifth … are first halves, by the same argument.
"""

import numpy as np
import numpy.typing as npt

from engine.decode.charsets.code_tables import HALF, HALVES, PREFIX, SETS, TWICE, leads, numbered, pairs, prefixed
from engine.decode.charsets.columns import Characters, Points
from engine.decode.framing import Bytes, Offsets

CodeTable = npt.NDArray[np.uint16]
Flags = npt.NDArray[np.bool_]
CHARSETS = frozenset(SETS)


def split(charset: str, data: Bytes) -> Characters:
    """Split the bytes into characters. Invalid ones have points over U+10FFFF."""
    padded = np.append(data, np.zeros(2, np.uint8))
    codes: CodeTable = padded[:-1].astype(np.uint16) << np.uint16(8) | padded[1:]
    starts = np.flatnonzero(~_seconds(leads(charset).take(data)))
    points = pairs(charset).take(codes.take(starts))
    if SETS[charset].prefixed:
        return _prefixed(charset, codes, points, starts)
    return _four_bytes(points, starts) if SETS[charset].halves else Characters(points, starts)


def _seconds(firsts: Flags) -> Flags:
    """A mask of the elements after the first, third, fifth … element of each run of `firsts`.

    Computed with one long integer that has a bit per element: adding its lowest bit to a run clears the run, because
    the carry propagates to its end. That separates runs that start at an even place from the others.
    """
    size = len(firsts) // 8 + 1
    runs = int.from_bytes(np.packbits(firsts, bitorder="little").tobytes(), "little")
    even = int.from_bytes(b"\x55" * size, "little")
    lowest = runs & ~(runs << 1)
    from_even = runs & ~(runs + (lowest & even))
    owners = (from_even & even) | (runs & ~from_even & ~even)
    seconds = np.frombuffer((owners << 1).to_bytes(size, "little"), np.uint8)
    return np.unpackbits(seconds, count=len(firsts), bitorder="little").view(np.bool_)


def _prefixed(charset: str, codes: CodeTable, points: Points, starts: Offsets) -> Characters:
    """Merge 8F and the pair after it into one character, and split codes that become two."""
    prefix = points == PREFIX
    seconds = np.flatnonzero(prefix[:-1] & ~prefix[1:]) + 1
    if len(seconds):
        points[seconds - 1] = prefixed(charset).take(codes.take(starts[seconds]))
        points, starts = np.delete(points, seconds), np.delete(starts, seconds)
    twice = points == TWICE
    if twice.any():
        points[twice] = ord("?")
        points, starts = np.repeat(points, twice + 1), np.repeat(starts, twice + 1)
    return Characters(points, starts)


def _four_bytes(points: Points, starts: Offsets) -> Characters:
    """Merge two halves into one character; a single half stays invalid."""
    half = (points >= HALF) & (points < HALF + HALVES)
    if not half.any():
        return Characters(points, starts)
    second = np.flatnonzero(_seconds(half) & half)
    points[second - 1] = numbered((points[second - 1] - HALF) * HALVES + (points[second] - HALF))
    return Characters(np.delete(points, second), np.delete(starts, second))

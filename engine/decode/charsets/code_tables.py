"""The tables of the East Asian character sets: Python's codecs, corrected where the servers' tables differ.

Every set has one table of 65536 code points, indexed by a byte and the byte after it. In the row of a byte that is a
character by itself, all points are that character. Points over U+10FFFF have a special meaning, see the constants.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from engine.decode.charsets.columns import NOT_TEXT, Points

TWICE = 0xFFFFFFFE
"""Marks a code that the servers convert to two "?"."""
PREFIX = 0xFFFFFFFD
"""Marks the byte 8F before a pair of another table."""
HALF = 0x80000000
"""HALF plus its number marks half of a four-byte code."""
HALVES = 126 * 10
_LAST_BMP = 39_419
"""The number (first half * HALVES + second half) of gb18030's code of U+FFFF."""
_FIRST_ASTRAL = 189_000
"""The number of gb18030's code of U+10000; later codes are in Unicode's order."""

Area = tuple[range, range]
"""First bytes and second bytes of codes."""


@dataclass(frozen=True)
class Set:
    """A character set."""

    codec: str
    """The name of Python's codec."""
    areas: tuple[Area, ...]
    """The two-byte codes that a column may contain."""
    corrections: Mapping[int, str] = field(default_factory=dict)
    """First code of a run, to the characters that the servers return for the run. Codes that Python lacks and that are
    not corrected become "?"."""
    kana: bool = False
    """Whether the bytes A1 to DF are characters."""
    prefixed: bool = False
    """Whether 8F before a pair selects another table."""
    halves: bool = False
    """Whether pairs with a digit are halves of four-byte codes."""

    @cached_property
    def points(self) -> dict[int, int]:
        """The corrections, one per code."""
        return {first + n: ord(c) for first, run in self.corrections.items() for n, c in enumerate(run)}


def _bytes(first: int, last: int) -> range:
    return range(first, last + 1)


def _user_defined(code: int, point: int) -> dict[int, str]:
    """Ten rows of 94 codes for user-defined characters, which map to private ones of Unicode, in order."""
    return {code + 0x100 * n: "".join(map(chr, range(point + 94 * n, point + 94 * n + 94))) for n in range(10)}


_LOW, _EUC, _GBK_FIRST = _bytes(0x40, 0x7E), _bytes(0xA1, 0xFE), _bytes(0x81, 0xFE)
_GBK = ((_GBK_FIRST, _LOW), (_GBK_FIRST, _bytes(0x80, 0xFE)))
_SJIS = tuple((a, b) for a in (_bytes(0x81, 0x9F), _bytes(0xE0, 0xFC)) for b in (_LOW, _bytes(0x80, 0xFC)))
_UJIS = ((_EUC, _EUC), (_bytes(0x8E, 0x8E), _bytes(0xA1, 0xDF)))
_UJIS_USER = _user_defined(0xF5A1, 0xE000) | _user_defined(0x8FF5A1, 0xE3AC)
_UHC = tuple((_GBK_FIRST, b) for b in (_bytes(0x41, 0x5A), _bytes(0x61, 0x7A), _GBK_FIRST))

SETS = {
    "big5": Set(
        "big5",
        ((_bytes(0xA1, 0xF9), _LOW), (_bytes(0xA1, 0xF9), _EUC)),
        dict.fromkeys((0xA15A, 0xA1C3, 0xA1C5, 0xA1FE, 0xA240, 0xA2CC, 0xA2CE), "\ufffd") | {0xF9D6: "碁銹裏墻恒粧嫺"},
    ),
    "cp932": Set("cp932", _SJIS, kana=True),
    "eucjpms": Set(
        "euc_jp",
        _UJIS,
        _UJIS_USER
        | {0xA1C1: "～∥", 0xA1DD: "－", 0xA1F1: "￠￡", 0xA2CC: "￢", 0x8FA2B7: "～", 0x8FA2C3: "￤"}
        | {
            0xADA1: "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ",
            0xADC0: "㍉㌔㌢㍍㌘㌧㌃㌶㍑㍗㌍㌦㌣㌫㍊㌻㎜㎝㎞㎎㎏㏄㎡",
            0xADDF: "㍻〝〟№㏍℡㊤㊥㊦㊧㊨㈱㈲㈹㍾㍽㍼≒≡∫∮∑√⊥∠∟⊿∵∩∪",
            0x8FF3F3: "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡ",
            0x8FF4A1: "ⅢⅣⅤⅥⅦⅧⅨⅩ＇＂㈱№℡炻仼僴凬匇匤﨎咊坙﨏塚增寬峵嵓﨑德悅愠敎昻晥晴朗栁﨓﨔橫櫢淸淲瀨凞猪"
            "甁皂皞益礰礼神祥福竧靖精綠緖羽荢﨟薰蘒﨡蠇諸譿賴赶﨣﨤逸郞都鄕﨧﨨閒隆﨩霻靍靑飯飼館馞髙魲鶴黑",
        },
        prefixed=True,
    ),
    "euckr": Set("cp949", _UHC),
    "gb18030": Set("gb18030", _GBK, {0xA8BC: "ḿ", 0x8135F437: "\ue7c7"}, halves=True),
    "gb2312": Set("gb2312", ((_bytes(0xA1, 0xF7), _EUC),)),
    "gbk": Set("gbk", _GBK),
    "sjis": Set("shift_jis", _SJIS, {0x815F: "\\"}, kana=True),
    "ujis": Set("euc_jp", _UJIS, _UJIS_USER | {0xA1C0: "\\"}, prefixed=True),
}


@cache
def leads(charset: str) -> npt.NDArray[np.bool_]:
    """A mask of the bytes that may be the first of two."""
    table = np.zeros(256, np.bool_)
    for first, _ in SETS[charset].areas:
        table[first] = True
    return table


@cache
def pairs(charset: str) -> Points:
    """The code points by a byte and the byte after it."""
    this = SETS[charset]
    table = _decoded(this, this.areas)
    for byte in (*range(0x80), *(_bytes(0xA1, 0xDF) if this.kana else ())):
        table[byte << 8 : byte + 1 << 8] = ord(bytes([byte]).decode(this.codec))
    if this.prefixed:
        table[0x8F00:0x9000] = PREFIX
        table[0x8EA0] = TWICE
    if this.halves:
        for half in range(HALVES):
            table[(0x81 + half // 10) << 8 | (0x30 + half % 10)] = HALF + half
    return table


@cache
def prefixed(charset: str) -> Points:
    """The code points by the two bytes after 8F."""
    return _decoded(SETS[charset], ((_EUC, _EUC),), b"\x8f")


def numbered(number: Points) -> Points:
    """The code points of gb18030's four-byte codes, by their number: first half * HALVES + second half."""
    own = number - np.uint32(_FIRST_ASTRAL - 0x10000)
    astral = np.where((number >= _FIRST_ASTRAL) & (own <= 0x10FFFF), own, np.uint32(ord("?")))
    bmp = _four_bytes()
    return np.where(number < len(bmp), bmp.take(number, mode="clip"), astral)


@cache
def _four_bytes() -> Points:
    """The code points of gb18030's first four-byte codes, up to U+FFFF."""
    halves = [bytes((0x81 + half // 10, 0x30 + half % 10)) for half in range(HALVES)]
    codes = (halves[number // HALVES] + halves[number % HALVES] for number in range(_LAST_BMP + 1))
    return np.array([_point(SETS["gb18030"], code) for code in codes], dtype="<u4")


def _decoded(this: Set, areas: tuple[Area, ...], prefix: bytes = b"") -> Points:
    """A table of only these codes, by their last two bytes."""
    table = np.full(1 << 16, NOT_TEXT, dtype="<u4")
    for firsts, seconds in areas:
        for first in firsts:
            for second in seconds:
                table[first << 8 | second] = _point(this, prefix + bytes((first, second)))
    return table


def _point(this: Set, code: bytes) -> int:
    """The code point of one code."""
    number = int.from_bytes(code, "big")
    try:
        return this.points.get(number) or ord(code.decode(this.codec))
    except UnicodeDecodeError:
        return ord("?")

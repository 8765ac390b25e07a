"""Single-byte character sets: a table of 256 characters each."""

from functools import cache

import numpy as np

from engine.decode.charsets.columns import Characters, Points
from engine.decode.framing import Bytes

# Python's name of the set, or of the nearest one; then, by first byte, the characters that the servers return instead.
# Bytes that Python leaves undefined, and that are not corrected, become "?".
_SETS: dict[str, tuple[str, dict[int, str]]] = {
    "armscii8": (
        "latin-1",
        {
            0xA1: "❁§։)(»«—.՝,-՟…՜՛՞ԱաԲբԳգԴդԵեԶզԷէԸըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշՈոՉչՊպՋջՌռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ’'",
        },
    ),
    "ascii": ("ascii", {}),
    "cp1250": ("cp1250", {}),
    "cp1251": ("cp1251", {}),
    # Windows-1256 before Microsoft added letters of Urdu and others.
    "cp1256": ("cp1256", dict.fromkeys(b"\x8a\x8f\x98\x9a\x9f\xaa\xc0\xff", "?")),
    "cp1257": ("cp1257", {}),
    "cp850": ("cp850", {}),
    "cp852": ("cp852", {}),
    "cp866": ("cp866", {0xFC: "ⁿ²"}),
    "dec8": (
        "latin-1",
        dict.fromkeys(b"\xa4\xa6\xac\xad\xae\xaf\xb4\xb8\xbe\xd0\xf0", "?")
        | {0xA8: "¤", 0xD7: "Œ", 0xDD: "Ÿ?", 0xF7: "œ", 0xFD: "ÿ??"},
    ),
    "geostd8": (
        "latin-1",
        {
            0x80: "€?‚?„…†‡?‰?‹?????‘’“”•–—???›????",
            0xC0: "აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწჭხჴჯჰჵ???????????????????????№??",
        },
    ),
    "greek": ("iso8859-7", {0xA1: "ʽʼ", 0xA4: "??", 0xAA: "?"}),  # the edition of 1987
    "hebrew": ("iso8859-8", {0xAF: "‾"}),
    "hp8": ("hp-roman8", {}),
    "keybcs2": (
        "cp437",
        {0x80: "Č", 0x83: "ď", 0x85: "ĎŤčěĚĹÍľĺ", 0x8F: "Á", 0x91: "žŽ", 0x95: "ÓůÚý", 0x9B: "ŠĽÝŘť", 0xA4: "ňŇŮÔšřŕŔ"},
    ),
    "koi8r": ("koi8-r", {}),
    "koi8u": ("koi8-u", {0x95: "•"}),
    # Windows-1252 with its five undefined bytes passed through (MySQL manual, "West European Character Sets").
    "latin1": ("cp1252", {byte: chr(byte) for byte in b"\x81\x8d\x8f\x90\x9d"}),
    "latin2": ("iso8859-2", {}),
    "latin5": ("iso8859-9", {}),
    "latin7": ("iso8859-13", {}),
    "macce": ("mac-latin2", {}),
    "macroman": ("mac-roman", {}),
    "swe7": ("ascii", {0x40: "É", 0x5B: "ÄÖÅÜ", 0x60: "é", 0x7B: "äöåü?"}),
    "tis620": ("tis-620", {0xA0: "\ufffd", 0xDB: "\ufffd" * 4, 0xFC: "\ufffd" * 4}),
}
CHARSETS = frozenset(_SETS)


def split(charset: str, data: Bytes) -> Characters:
    """Split the bytes into characters: every byte is one."""
    return Characters(_points(charset).take(data), np.arange(len(data)))


@cache
def _points(charset: str) -> Points:
    """The code point of every byte."""
    codec, corrections = _SETS[charset]
    # Undefined bytes become surrogates, which no single-byte set has.
    table = bytes(range(256)).decode(codec, "surrogateescape")
    characters = ["?" if "\ud800" <= character < "\ue000" else character for character in table]
    for first, run in corrections.items():
        characters[first : first + len(run)] = run
    return np.array([ord(character) for character in characters], dtype="<u4")

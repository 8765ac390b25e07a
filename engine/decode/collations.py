"""The character set of a collation, by its number; table maps name character sets that way.

Source: `information_schema.COLLATIONS` of MySQL 9.7 and `COLLATION_CHARACTER_SET_APPLICABILITY` of MariaDB 10.11, which
agree wherever both have a number. MariaDB numbers its NOPAD collations 1024 above the padding ones, and has a block per
character set for newer ones.
"""

from bisect import bisect_right

_BELOW_1024 = """
armscii8 32 64; ascii 11 65; big5 1 84; binary 63; cp1250 26 34 44 66 99; cp1251 14 23 50-52; cp1256 57 67; \
cp1257 29 58-59;
cp850 4 80; cp852 40 81; cp866 36 68; cp932 95-96; dec8 3 69; eucjpms 97-98; euckr 19 85; gb18030 248-250; \
gb2312 24 86; gbk 28 87;
geostd8 92-93; greek 25 70; hebrew 16 71; hp8 6 72; keybcs2 37 73; koi8r 7 74; koi8u 22 75; latin1 5 8 15 31 47-49 94;
latin2 2 9 21 27 77; latin5 30 78; latin7 20 41-42 79; macce 38 43; macroman 39 53; sjis 13 88; swe7 10 82; \
tis620 18 89;
ucs2 35 90 128-151 159; ujis 12 91; utf16 54-55 101-124; utf16le 56 62; utf32 60-61 160-183; \
utf8mb3 33 76 83 192-215 223;
utf8mb4 45-46 224-247 255-323
"""
_BLOCKS = ((576, "utf8mb3"), (608, "utf8mb4"), (640, "ucs2"), (672, "utf16"), (704, ""), (736, "utf32"), (768, ""))
_UCA1400 = ((2048, "utf8mb3"), (2304, "utf8mb4"), (2560, "ucs2"), (2816, "utf16"), (3072, "utf32"), (3328, ""))
_NOPAD = 1024


def _numbers() -> dict[int, str]:
    table: dict[int, str] = {}
    for entry in _BELOW_1024.split(";"):
        charset, *spans = entry.split()
        for span in spans:
            first, _, last = span.partition("-")
            table |= dict.fromkeys(range(int(first), int(last or first) + 1), charset)
    return table


_CHARSETS = _numbers()


def charset_of(collation: int) -> str | None:
    """The character set of a collation; None for a number that neither server has assigned so far."""
    if _NOPAD <= collation < 2 * _NOPAD:
        collation -= _NOPAD
    if collation in _CHARSETS:
        return _CHARSETS[collation]
    blocks = _UCA1400 if collation >= 2 * _NOPAD else _BLOCKS
    block = bisect_right([first for first, _ in blocks], collation)
    return blocks[block - 1][1] or None if block else None

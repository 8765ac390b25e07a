"""MySQL character sets to UTF-8, exactly as the server converts them.

The rule: a text becomes what `SELECT` gives a client after `SET NAMES utf8mb4`. The servers convert character by
character, and what becomes of one does not depend on its neighbours. So a table a set says all, and a column is decoded at once:

    every value is text in a set  ⟺  all of them together are, and every value starts where one of those characters starts.

(From right to left: the first value then ends where a character starts, so it is whole characters; so is the second; …)
`columns` does this for every set that has a function from bytes to characters: `single`, `east_asian`, `unicode`.

The tables are Python's codecs with corrections. MySQL 9.7 and MariaDB 10.11 were asked for every code there is, stored in
columns; `tests/live/test_charsets.py` asks again, and where a server differs it prints the corrections as our tables
have them. The servers agree in every code that both store, so nobody needs to say which one he reads. What they do with
codes that are not quite characters, and we do too:

* a code without a Unicode character that a column may hold arrives as "?", in tis620 and some of big5 as U+FFFD;
* bytes over 0x7F in ascii, which only MariaDB's columns hold, arrive as "?";
* 8E A0 in ujis and eucjpms, which only MySQL's columns hold, arrives as "??".

utf8mb4 and utf8mb3 are checked by Arrow, which does not mind four bytes in utf8mb3: no column holds them.

Refused is what no column holds, and one thing that some do: surrogates (in ucs2; on MariaDB also in utf8mb3, utf8mb4 and
utf32), which the servers send as three bytes that are not UTF-8. No Arrow string may have them; the row decoder refuses them, too.
"""

from functools import partial

import pyarrow as pa

from engine.decode.charsets import east_asian, single, unicode
from engine.decode.charsets.columns import Split, decode, is_ascii

_UTF8 = frozenset({"utf8mb4", "utf8mb3", "utf8"})
_SPLITS: dict[str, Split] = {
    **{charset: partial(single.split, charset) for charset in single.CHARSETS},
    **{charset: partial(east_asian.split, charset) for charset in east_asian.CHARSETS},
    **unicode.SPLITS,
}
_NOT_ASCII = frozenset({"swe7", *unicode.SPLITS})
"""Sets in which a byte below 0x80 is not always the ASCII character."""
CHARSETS = _UTF8 | frozenset(_SPLITS)
"""Every set of MySQL 9 and MariaDB 10.11 but `binary`; `utf8` is what older servers call utf8mb3."""


def to_utf8(values: pa.Array, charset: str) -> pa.Array:
    """Binary values in `charset`, one of `CHARSETS`, as UTF-8 strings; NULL stays NULL.

    Raises pyarrow.ArrowInvalid or UnicodeDecodeError for bytes that are not text in that character set, and
    pyarrow.ArrowCapacityError when the strings together are longer than an Arrow array can be (2 GiB).
    """
    if charset in _UTF8 or (charset not in _NOT_ASCII and is_ascii(values)):
        return values.cast(pa.string())
    return decode(values, charset, _SPLITS[charset])

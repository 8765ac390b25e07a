"""Converts MySQL character sets to UTF-8, exactly as the server does.

The rule: a text becomes what `SELECT` returns to a client after `SET NAMES utf8mb4`. The servers convert each character
independently of its neighbours. So one table per character set is enough, and a column is decoded at once:

    every value is text in a set  ⟺  all of them together are, and every value starts where one of those characters
                                  starts.

(From right to left: the first value then ends where a character starts, so it consists of whole characters; so does the
second; …) `columns` does this for every set that has a function from bytes to characters: `single`, `east_asian`,
`unicode`.

The tables are Python's codecs with corrections. MySQL 9.7 and MariaDB 10.11 were queried for every existing code,
stored in columns. `tests/live/test_charsets.py` queries them again; if a server differs, it prints the corrections in
the format of our tables. The servers agree on every code that both store, so there is no need to know which server a
value is from. Some codes are not quite characters. The servers, and we, treat them like this:

* a code without a Unicode character that a column may contain arrives as "?", in tis620 and some of big5 as U+FFFD;
* bytes over 0x7F in ascii, which only MariaDB's columns can contain, arrive as "?";
* 8E A0 in ujis and eucjpms, which only MySQL's columns can contain, arrives as "??".

Arrow validates utf8mb4 and utf8mb3. It accepts four bytes in utf8mb3, but no column contains them.

We refuse whatever no column can contain, and one thing that some do: surrogates (in ucs2; on MariaDB also in utf8mb3,
utf8mb4 and utf32). The servers send them as three bytes that are not UTF-8. No Arrow string may contain them; the row
decoder refuses them too.
"""

from functools import partial

import pyarrow as pa

from engine.decode.charsets import east_asian, single, unicode
from engine.decode.charsets.columns import CharacterSplit, decode, is_ascii

_UTF8 = frozenset({"utf8mb4", "utf8mb3", "utf8"})
_SPLITS: dict[str, CharacterSplit] = {
    **{charset: partial(single.split, charset) for charset in single.CHARSETS},
    **{charset: partial(east_asian.split, charset) for charset in east_asian.CHARSETS},
    **unicode.SPLITS,
}
_NOT_ASCII = frozenset({"swe7", *unicode.SPLITS})
"""Sets in which a byte below 0x80 is not always the ASCII character."""
CHARSETS = _UTF8 | frozenset(_SPLITS)
"""Every character set of MySQL 9 and MariaDB 10.11 except `binary`; `utf8` is the name of utf8mb3 on older servers."""


def to_utf8(values: pa.Array, charset: str) -> pa.Array:
    """Convert binary values in `charset`, one of `CHARSETS`, to UTF-8 strings. NULL stays NULL.

    Raises pyarrow.ArrowInvalid or UnicodeDecodeError for bytes that are not text in that character set, and
    pyarrow.ArrowCapacityError if the strings together exceed the size of an Arrow array (2 GiB).
    """
    if charset in _UTF8 or (charset not in _NOT_ASCII and is_ascii(values)):
        return values.cast(pa.string())
    return decode(values, charset, _SPLITS[charset])

"""QUERY events: a statement as the server logged it, with the settings of its session that say how to read it.

A body is: thread id (4 bytes), seconds (4), length of the database's name (1), error code (2), length of the status
variables (2), the status variables, the database's name with a zero byte, and the statement. The name is in utf8mb3,
the statement in the session's `character_set_client`. The variables are numbered, and each has a length of its own; one
that is not known here ends what can be read of them ("Query_event", MySQL source,
libs/mysql/binlog/event/statement_events.h; MariaDB from 128).
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.decode.charsets import CHARSETS, to_utf8
from engine.decode.collations import charset_of
from engine.decode.framing import broken

BEGIN_TAIL, COMMIT_TAIL = (np.uint64(int.from_bytes(b"\0" + word, "little")) for word in (b"BEGIN", b"COMMIT"))
"""The last bytes of an event with this statement: 6 and 7, with the zero byte before it."""
REPLACED = "\ufffd"
"""Stands for bytes of a statement that are no text in its character set."""
_SQL_MODE, _CHARSET, _ALTER_PHASE = 1, 4, 130
_START_ALTER, _COMMIT_ALTER, _ROLLBACK_ALTER = 2, 4, 8
_UTF8 = ("utf8mb4", "utf8mb3", "utf8")
_CODECS = {"euckr": "cp949", "gb2312": "gb2312", "sjis": "shift_jis", "ujis": "euc_jp", "eucjpms": "euc_jp"}
_SWE7, _SWE7_LETTERS = "swe7", b"@[\\]^{|}~"
"""A set in which these bytes are letters."""
_ARMSCII8 = "armscii8"
"""A set in which bytes that are not ASCII are quotes, commas and parentheses."""


@dataclass(frozen=True)
class Query:
    """A QUERY event. statement: bytes that are no text became `REPLACED`."""

    database: str
    statement: str
    sql_mode: int | None = None
    """The session's SQL mode as a bit field; None if the event does not say it."""
    charset_known: bool = True
    """Whether the statement could be read in its character set; otherwise it was read as UTF-8."""
    raw: bytes = b""
    """The bytes of the statement."""
    unfinished: bool = False
    """Whether it is the beginning or the rollback of an ALTER that MariaDB logs in two phases; nothing has changed by
    then."""


def read_query(body: bytes) -> Query:
    """Decode the body of a QUERY event, without checksum. Raises SourceLostError if it is malformed."""
    try:
        _, _, database_size, _, status_size = struct.unpack_from("<IIBHH", body)
        at = 13 + status_size
        database = body[at : at + database_size].decode()
        variables = _variables(body[13:at])
    except (struct.error, IndexError, ValueError) as error:
        raise broken("QUERY") from error
    charset = charset_of(int.from_bytes(variables[_CHARSET][:2], "little")) if _CHARSET in variables else None
    text = body[at + database_size + 1 :]
    plain = text.isascii() and not (charset == _SWE7 and any(byte in text for byte in _SWE7_LETTERS))
    has_codec = charset in CHARSETS and charset not in (_SWE7, _ARMSCII8)
    statement = _decoded(text, charset if has_codec and charset else "utf8mb4")
    mode = int.from_bytes(variables[_SQL_MODE], "little") if _SQL_MODE in variables else None
    phase = variables.get(_ALTER_PHASE, b"\0")[0]
    return Query(database, statement, mode, has_codec or plain, text, bool(phase & (_START_ALTER | _ROLLBACK_ALTER)))


def _decoded(text: bytes, charset: str) -> str:
    if charset in _UTF8 or text.isascii():
        return text.decode("utf-8", "replace")
    try:
        converted: str = to_utf8(pa.array([text], pa.binary()), charset)[0].as_py()
    except (pa.ArrowException, UnicodeDecodeError):  # a literal may be anything
        return text.decode(_CODECS.get(charset, charset), "replace")
    return converted


def _text(status: bytes, at: int) -> int:
    return 1 + status[at]


def _catalog(status: bytes, at: int) -> int:
    return 2 + status[at]


def _invoker(status: bytes, at: int) -> int:
    user = 1 + status[at]
    return user + 1 + status[at + user]


def _databases(status: bytes, at: int) -> int:
    """Up to 254 names, each with a zero byte; more are not named."""
    count, end = status[at], at + 1
    for _ in range(count if count < 254 else 0):
        end = status.index(0, end) + 1
    return end - at


def _phase(status: bytes, at: int) -> int:
    return 9 if status[at] & (_COMMIT_ALTER | _ROLLBACK_ALTER) else 1


_SIZES: dict[int, int | Callable[[bytes, int], int]] = {
    0: 4,
    _SQL_MODE: 8,
    2: _catalog,
    3: 4,
    _CHARSET: 6,
    5: _text,
    6: _text,
    7: 2,
    8: 2,
    9: 8,
    10: 4,
    11: _invoker,
    12: _databases,
    13: 3,
    16: 1,
    17: 8,
    18: 2,
    19: 1,
    20: 1,
    128: 3,
    129: 8,
    _ALTER_PHASE: _phase,
}


def _variables(status: bytes) -> dict[int, bytes]:
    """The status variables up to the first that is not known here."""
    at, variables = 0, dict[int, bytes]()
    while at < len(status) and (size := _SIZES.get(status[at])) is not None:
        number, at = status[at], at + 1
        width = size(status, at) if callable(size) else size
        variables[number] = status[at : at + width]
        at += width
    return variables

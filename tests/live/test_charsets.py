"""Character sets: every code that a column can hold is decoded as the server converts it, on both servers.

When a server differs, the failing test prints the entries in the notation of the tables in `engine.decode.charsets`
(`single` or `tables`): from which code on, by its last byte, which characters. That is how those tables were made.
"""

import random
from collections.abc import Sequence
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest

from engine.decode.charsets import CHARSETS, east_asian, single, to_utf8
from engine.decode.charsets import code_tables as tables
from tests.servers import Server

BATCH = 2048
PACKET = 1 << 15
CODECS = {"ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be"}
KANA = range(0xA1, 0xE0)
NAMES = sorted(CHARSETS - {"utf8"})
"""The sets by the names of MySQL 9 and MariaDB 10.11."""


def test_all_sets_of_the_server_are_known(server: Server) -> None:
    """Every text character set in `SHOW CHARACTER SET` is supported; MariaDB has all but gb18030."""
    names = {str(row[0]) for row in server.execute("SHOW CHARACTER SET")} - {"binary"}
    assert names == set(NAMES) - ({"gb18030"} if server.flavor == "mariadb" else set())


@pytest.mark.parametrize("charset", NAMES)
def test_every_code_alone_and_beside_others(server: Server, charset: str) -> None:
    """Codes, alone and shuffled in long texts, decode as `SELECT` returns them.

    Codes that no column can hold are refused.
    """
    _skip_where_missing(server, charset)
    asked, held = _asked(charset), _held(server, charset)
    stored = _stored(server, charset, asked)
    assert stored.keys() == held & set(asked)
    refused = [code for code, sent in stored.items() if not _is_utf8(sent)]
    _assert_decoded(charset, {code: sent for code, sent in stored.items() if code not in refused})
    assert set(refused) == _surrogates(charset) & stored.keys()
    for code in refused:
        with pytest.raises((UnicodeDecodeError, pa.ArrowInvalid)):
            to_utf8(pa.array([code], pa.binary()), charset)
    codes = sorted(held - _surrogates(charset))
    random.Random(1).shuffle(codes)
    long = [b"".join(codes[n : n + BATCH]) for n in range(0, len(codes), BATCH)]
    _assert_decoded(charset, _all_stored(server, charset, long))


@pytest.mark.parametrize("charset", ["gb18030", "utf8mb4", "utf16", "utf16le", "utf32"])
def test_every_code_of_four_bytes(server: Server, charset: str) -> None:
    """All 1.6 million four-byte codes of gb18030, and all characters above U+FFFF of the Unicode sets."""
    _skip_where_missing(server, charset)
    if charset == "gb18030":
        halves = [bytes([a, b]) for a in range(0x81, 0xFF) for b in range(0x30, 0x3A)]
        long = [b"".join(first + second for second in halves) for first in halves]
    else:
        long = [_encoded(charset, *range(n, n + BATCH)) for n in range(0x10000, 0x110000, BATCH)]
    _assert_decoded(charset, _all_stored(server, charset, long))


def _skip_where_missing(server: Server, charset: str) -> None:
    if charset == "gb18030" and server.flavor == "mariadb":
        pytest.skip("MariaDB has no gb18030")


def _asked(charset: str) -> list[bytes]:
    """Codes to store alone: all that may be characters and many that are none; of the Unicode sets an eleventh."""
    ones, twos = [bytes([a]) for a in range(256)], [bytes([a, b]) for a in range(0x80, 256) for b in range(256)]
    if charset in single.CHARSETS:
        return ones
    if charset in east_asian.CHARSETS:
        this = tables.SETS[charset]
        codes = ones + [code for code in twos if not (this.kana and code[0] in KANA)]
        return codes + ([b"\x8f" + code for code in twos if code[1] > 0x8D] if this.prefixed else [])
    characters = [_encoded(charset, n) for n in range(0, 0x10000, 11)]
    if charset == "utf32":
        return characters + [n.to_bytes(4, "big") for n in (0x110000, 0x1FFFFF, 0x200000, 0xFFFFFFFF)]
    if charset in CODECS:
        halves = [_encoded(charset, 0xD800, 0x41), _encoded(charset, 0xDC00, 0xD800)]
        return [*characters, b"A", b"\0\0\0", *([] if charset == "ucs2" else halves)]
    longer = [b"\xe0\x9f\xbf", b"\xed\xbf", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80"]
    return characters + ones + twos[::5] + longer


def _held(server: Server, charset: str) -> set[bytes]:
    """The codes of up to three bytes that a column can hold.

    Those we decode, and the known differences of the servers.
    """
    mariadb = server.flavor == "mariadb"
    if charset in single.CHARSETS:
        return {bytes([a]) for a in range(128 if charset == "ascii" and not mariadb else 256)}
    if charset in east_asian.CHARSETS:
        only_mysql = {b"\x8e\xa0"} if mariadb and tables.SETS[charset].prefixed else set()
        return _east_asian_text(charset) - only_mysql
    held = {_encoded(charset, n) for n in range(0x10000)}
    if charset == "ucs2" or (charset not in ("utf16", "utf16le") and mariadb):
        return held
    return held - _surrogates(charset)


def _surrogates(charset: str) -> set[bytes]:
    """Surrogates, which servers that store them send as three bytes that are not UTF-8."""
    if charset in single.CHARSETS or charset in east_asian.CHARSETS:
        return set()
    return {_encoded(charset, n) for n in range(0xD800, 0xE000)}


def _east_asian_text(charset: str) -> set[bytes]:
    """Codes of one to three bytes that we decode as one character."""
    this, pairs = tables.SETS[charset], tables.pairs(charset)
    ones = {bytes([a]) for a in (*range(128), *(KANA if this.kana else ()))}
    first = np.arange(0x10000) >> 8
    known = ((pairs <= 0x10FFFF) | (pairs == tables.TWICE)) & (first >= 0x80)
    if this.kana:
        known &= (first < KANA.start) | (first >= KANA.stop)
    twos = {int(code).to_bytes(2, "big") for code in np.flatnonzero(known)}
    behind = np.flatnonzero(tables.prefixed(charset) <= 0x10FFFF) if this.prefixed else ()
    return ones | twos | {b"\x8f" + int(code).to_bytes(2, "big") for code in behind}


def _encoded(charset: str, *characters: int) -> bytes:
    return "".join(map(chr, characters)).encode(CODECS.get(charset, "utf-8"), "surrogatepass")


def _is_utf8(sent: bytes) -> bool:
    try:
        sent.decode()
    except UnicodeDecodeError:
        return False
    return True


def _all_stored(server: Server, charset: str, texts: Sequence[bytes]) -> dict[bytes, bytes]:
    stored = _stored(server, charset, texts)
    assert stored.keys() == set(texts)
    return stored


def _stored(server: Server, charset: str, texts: Sequence[bytes]) -> dict[bytes, bytes]:
    """What a utf8mb4 client reads for each text that a column of this set stores unchanged."""
    settings = {"use_unicode": False, "ssl_disabled": True, "init_command": "SET max_error_count = 0, sql_log_bin = 0"}
    type_ = f"{'VARCHAR(8)' if len(texts[0]) <= 8 else 'LONGTEXT'} CHARACTER SET {charset}"
    with closing(server.connect(**settings)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS charsets")
        cursor.execute(
            f"CREATE TEMPORARY TABLE charsets.t (id INT AUTO_INCREMENT PRIMARY KEY, v {type_}) ENGINE = MyISAM"
        )
        for n in range(0, len(texts), PACKET):
            rows = ",".join(f"(x'{text.hex()}')" for text in texts[n : n + PACKET])
            cursor.execute(f"INSERT IGNORE INTO charsets.t (v) VALUES {rows}")
        cursor.execute("SELECT CAST(v AS BINARY), v FROM charsets.t ORDER BY id")
        rows = cursor.fetchall()
    return {text: sent for text, (kept, sent) in zip(texts, rows, strict=True) if kept == text}


def _assert_decoded(charset: str, stored: dict[bytes, bytes]) -> None:
    """The stored texts, decoded as one column, equal what the server sent."""
    decoded = to_utf8(pa.array(stored.keys(), pa.binary()), charset)
    decoded.validate(full=True)
    ours = decoded.cast(pa.binary()).to_pylist()
    different = {code: sent for (code, sent), own in zip(stored.items(), ours, strict=True) if own != sent}
    assert not different, _entries(different)


def _entries(different: dict[bytes, bytes]) -> str:
    """Corrections as entries of our tables."""
    entries: dict[int, str] = {}
    first, before = 0, b""
    for code in sorted(different, key=lambda code: (len(code), code)):
        if not before or code[:-1] != before[:-1] or code[-1] != before[-1] + 1:
            first = int.from_bytes(code, "big")
        entries[first] = entries.get(first, "") + different[code].decode()
        before = code
    return "{" + ", ".join(f"0x{first:X}: {run!r}" for first, run in entries.items()) + "}"

"""Statements in QUERY events, by the character set and the modes of their session."""

import struct

import pytest

from engine.decode.query_event import REPLACED, read_query
from tests.unit.support.wire import Binlog

LATIN1, GBK, EUCKR, SJIS, UTF8MB4 = 8, 28, 19, 13, 45
COMMIT_ALTER = b"\x82\x04" + struct.pack("<Q", 7)
# An event of MySQL 9.7 and one of MariaDB 10.11, as they came from the servers: all variables, and `d` as the database.
MYSQL = (
    "0000000000012000a04500000000060373746404ff00ff00ff000b04726f6f74093132372e302e302e310c016400113b"
    "0000000000000012ff00"
)
MARIADB = "0000000001010000205400000000060373746404080008002d00811c00000000000000"


def body(statement: bytes, **settings: object) -> bytes:
    """The body of a QUERY event."""
    log = Binlog(checksum=False)
    log.query(statement, **settings)  # type: ignore[arg-type]
    return log.payloads[-1][20:]


@pytest.mark.parametrize(
    ("collation", "statement", "expected"),
    [
        (LATIN1, b"TRUNCATE `gr\xf6\xdfe`", "TRUNCATE `größe`"),
        (LATIN1, "TRUNCATE `größe`".encode(), "TRUNCATE `grÃ¶ÃŸe`"),
        (UTF8MB4, "TRUNCATE `größe`".encode(), "TRUNCATE `größe`"),
        (GBK, b"TRUNCATE `t_\xc4\xa3`", "TRUNCATE `t_模`"),
        (GBK, "DROP TABLE 学员".encode("gbk"), "DROP TABLE 学员"),
        (GBK, b"DROP TABLE `\xc4\x60`", "DROP TABLE `腵"),  # the second byte is a backtick in ASCII
        (EUCKR, b"DROP TABLE \xc7\xa5", "DROP TABLE 표"),
        (SJIS, b"COMMENT '\x83\x5c'", "COMMENT 'ソ'"),  # the second byte is a backslash in ASCII
        (GBK, b"INSERT INTO t VALUES ('\xff', 1)", f"INSERT INTO t VALUES ('{REPLACED}', 1)"),
        (UTF8MB4, b"TRUNCATE `\xf6`", f"TRUNCATE `{REPLACED}`"),
    ],
)
def test_a_statement_is_decoded_by_the_character_set_of_its_session(
    collation: int, statement: bytes, expected: str
) -> None:
    """A byte that looks like a quote or a backslash may be the second of a character."""
    query = read_query(body(statement, collation=collation))
    assert query.statement.startswith(expected)
    assert query.charset_known


def test_an_unknown_character_set_is_known_to_be_unknown() -> None:
    """Pure ASCII is the same in all of them; in swe7, some of its bytes are letters."""
    for collation in (10, 1023):
        assert not read_query(body(b"TRUNCATE `\xf6`", collation=collation)).charset_known
        assert read_query(body(b"TRUNCATE `t`", collation=collation)).charset_known
    assert not read_query(body(b"TRUNCATE `t{`", collation=10)).charset_known


def test_the_variables_of_both_servers_are_read() -> None:
    """Those of an event as it came from each of them, and MariaDB's phases of an ALTER."""
    for status, mode, collation in ((MYSQL, 0x45A00020, 255), (MARIADB, 0x54200000, 8)):
        raw = bytes.fromhex(status)
        event = struct.pack("<IIBHH", 7, 0, 1, 0, len(raw)) + raw + b"d\0TRUNCATE `\xc3\xb6`"
        query = read_query(event)
        assert (query.database, query.sql_mode) == ("d", mode)
        assert query.statement == ("TRUNCATE `ö`" if collation == 255 else "TRUNCATE `Ã¶`")
    for more, unfinished in (
        (b"\x82\x02", True),
        (COMMIT_ALTER, False),
        (COMMIT_ALTER.replace(b"\x04", b"\x08"), True),
    ):
        assert read_query(body(b"ALTER TABLE t FORCE", more=more)).unfinished == unfinished
    assert read_query(body(b"x", more=b"\xfa\1\2\3")).sql_mode == 0, "what is not known ends the variables"

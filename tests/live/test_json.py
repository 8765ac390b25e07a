"""JSON: documents of all kinds, and updates logged as differences, equal the server's own text."""

import base64
import json
import math
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from engine.decode.binary_json import apply_diffs, text_of
from tests.servers import Server

FORMAT_DESCRIPTION, TABLE_MAP, WRITE_ROWS, UPDATE_ROWS, PARTIAL_UPDATE_ROWS = 15, 19, 30, 31, 39
HEADER, CHECKSUM = 19, 4


@dataclass(frozen=True)
class Diffs:
    """The diff vector of a JSON column in an after-image."""

    data: bytes


def _place(server: Server) -> tuple[str, int]:
    """The file and offset behind the last write."""
    file, offset = server.execute("SHOW BINARY LOG STATUS")[0][:2]
    return str(file), int(offset)


def _events(server: Server, begin: tuple[str, int]) -> Iterator[tuple[int, bytes]]:
    """The event types from a position to the end of the binlog file, and the events without their checksums."""
    with (server.data / begin[0]).open("rb") as file:
        file.seek(begin[1])
        data, at = file.read(), 0
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        yield data[at + 4], data[at : at + size - CHECKSUM]
        at += size


class _Reader:
    """The images of a row event of a table whose columns are INT ("i") and JSON ("j")."""

    def __init__(self, event: bytes, kind: int, columns: str) -> None:
        self.body, self.kind, self.columns = event[HEADER:], kind, columns
        self.at = 8 + int.from_bytes(self.body[8:10], "little")

    def take(self, width: int) -> bytes:
        self.at += width
        return self.body[self.at - width : self.at]

    def bits(self, count: int) -> list[bool]:
        packed = int.from_bytes(self.take((count + 7) // 8), "little")
        return [bool(packed >> n & 1) for n in range(count)]

    def rows(self) -> Iterator[tuple[list[Any], list[Any]]]:
        """Before- and after-image of each row, or no before-image and the inserted one."""
        count = self.take(1)[0]
        assert count == len(self.columns)
        updates = self.kind != WRITE_ROWS
        assert all(all(self.bits(count)) for _ in range(1 + updates))
        while self.at < len(self.body):
            before = self.image(after=False) if updates else []
            yield before, self.image(after=True)

    def image(self, *, after: bool) -> list[Any]:
        """One image.

        An after-image of PARTIAL_UPDATE_ROWS begins with options and, if these are 1, one bit per JSON column.
        """
        partial = dict.fromkeys(range(len(self.columns)), False)
        if after and self.kind == PARTIAL_UPDATE_ROWS:
            options = self.take(1)[0]
            assert options in (0, 1)
            if options:
                of_json = [n for n, type_ in enumerate(self.columns) if type_ == "j"]
                partial |= dict(zip(of_json, self.bits(len(of_json)), strict=True))
        null = self.bits(len(self.columns))
        return [None if null[n] else self.value(type_, diffs=partial[n]) for n, type_ in enumerate(self.columns)]

    def value(self, type_: str, *, diffs: bool) -> int | bytes | Diffs:
        if type_ == "i":
            return int.from_bytes(self.take(4), "little", signed=True)
        data = self.take(int.from_bytes(self.take(4), "little"))
        return Diffs(data) if diffs else data


def _rows(server: Server, begin: tuple[str, int], columns: str) -> Iterator[tuple[list[Any], list[Any]]]:
    for kind, event in _events(server, begin):
        if kind in (WRITE_ROWS, UPDATE_ROWS, PARTIAL_UPDATE_ROWS):
            yield from _Reader(event, kind, columns).rows()


def _texts(server: Server, table: str) -> dict[int, str]:
    return dict(server.execute(f"SELECT id, CAST(j AS CHAR) FROM {table}"))


def _check(server: Server, table: str, begin: tuple[str, int]) -> None:
    """Every inserted image of `(id INT, j JSON)` has the text that the server returns."""
    expected = _texts(server, table)
    seen = {row[0]: row[1] for _, row in _rows(server, begin, "ij")}
    assert len(seen) == len(expected)
    for number, text in expected.items():
        assert text_of(seen[number]) == text


def _new_table(server: Server, database: str) -> str:
    server.execute(f"CREATE TABLE `{database}`.t (id INT AUTO_INCREMENT PRIMARY KEY, j JSON)")
    return f"`{database}`.t"


EXPRESSIONS = (
    "CAST('null' AS JSON)", "CAST('true' AS JSON)", "CAST('false' AS JSON)", "CAST('\"\"' AS JSON)", "JSON_OBJECT()",
    "JSON_ARRAY()",
    "JSON_ARRAY(NULL, TRUE, FALSE, 0, -1, 32767, 32768, -32768, -32769, 65535, 65536, 2147483647, -2147483648)",
    (
        "JSON_ARRAY(2147483648, -2147483649, 4294967295, 4294967296, 9223372036854775807, "
        "-9223372036854775808, 18446744073709551615)"
    ),
    "JSON_ARRAY(CAST(1 AS UNSIGNED), CAST(65535 AS UNSIGNED), CAST(65536 AS UNSIGNED), CAST(4294967295 AS UNSIGNED))",
    "CAST(32768 AS JSON)", "CAST(-1 AS JSON)", "CAST(CAST(1 AS UNSIGNED) AS JSON)", "CAST('-0' AS JSON)",
    "CAST('-0.0' AS JSON)",
    (
        "JSON_ARRAY(0e0, 1e0, -1e0, 0.1e0, 1e14, 1e15, 1e16, 123456789012345e0, 1234567890123456e0, "
        "1234567890123456.5e0, 1e-15)"
    ),
    (
        "CAST('[1e20, 5e-324, 1.7976931348623157e308, 2.2250738585072014e-308, 1e-16, 1e100, 1e-100, "
        "9007199254740993.0]' AS JSON)"
    ),
    "CAST('18446744073709551616' AS JSON)", "CAST(CAST(1.1 AS FLOAT) AS JSON)",
    (
        "JSON_ARRAY(1.50, -1.50, 0.0, 0.000, -0.001, 123456789.123456789, 1234567890.1234567890, 12345678901234567890, "
        "1/3)"
    ),
    "CAST(CAST('-99999999999999999999999999999999999.999999999999999999999999999999' AS DECIMAL(65,30)) AS JSON)",
    "JSON_ARRAY(CAST('0.000000000000000000000000000001' AS DECIMAL(65,30)), CAST(REPEAT('9', 65) AS DECIMAL(65,0)))",
    (
        "JSON_ARRAY(DATE'2024-02-29', DATE'1000-01-01', DATE'9999-12-31', CAST('0000-00-00' AS DATE), "
        "CAST('2024-00-00' AS DATE))"
    ),
    "CAST(TIME'12:34:56.7' AS JSON)", "CAST(TIME'-838:59:59' AS JSON)",
    "CAST(CAST('-00:00:00.000001' AS TIME(6)) AS JSON)",
    "JSON_ARRAY(TIME'838:59:59', TIME'100:00:00', TIME'00:00:00', CAST('-12:34:56.789' AS TIME(3)))",
    "CAST(TIMESTAMP'2024-02-29 12:34:56.123456' AS JSON)", "JSON_ARRAY(TIMESTAMP'9999-12-31 23:59:59.999999', NOW(3))",
    "CAST(CAST('2024-01-31 23:59:59.5' AS DATETIME(1)) AS JSON)", "JSON_ARRAY(CAST('0000-00-00 00:00:00' AS DATETIME))",
    "CAST(x'cafebabe' AS JSON)", "JSON_ARRAY(x'', x'00', x'ffff', b'101', CAST('abc' AS BINARY), UUID_TO_BIN(UUID()))",
    *(f"JSON_ARRAY(REPEAT(x'fe', {n}))" for n in (56, 57, 58, 114, 115, 127, 128, 1000, 70_000)),
    "ST_AsGeoJSON(ST_GeomFromText('POINT(1 2.5)'))", "JSON_ARRAY(ST_GeomFromText('LINESTRING(0 0, 1.5 1e20)'))",
    "ST_AsGeoJSON(ST_GeomFromText('POLYGON((0 0,10 0,10 10,0 10,0 0),(5 5,7 5,7 7,5 7,5 5))'), 5, 7)",
    "JSON_ARRAY(CAST(2024 AS YEAR), CAST('ä' AS CHAR CHARACTER SET latin1), _utf8mb4'日本😀', CAST('[1, {}]' AS JSON))",
    "JSON_OBJECT('b', 1, 'a', 2, 'aa', 3, '', 4, 'é', 5, '😀', 6, 'a\\nb', 7, 'a\"b', 8, 'A', 9)",
    *(f"JSON_OBJECT(REPEAT('k', {n}), REPEAT('v', {n}))" for n in (127, 128, 16383, 16384, 32_000, 65_535)),
)  # fmt: skip
"""The documents that only the server's functions make; those in JSON's own types are made at random."""


def test_what_the_servers_functions_make(
    server_with: Callable[..., Server], new_database: Callable[[Server], str]
) -> None:
    """Numbers, dates, times, decimals, binaries and geometries in documents, and INSERT IGNORE's empty document."""
    server = server_with("mysql")
    table = _new_table(server, new_database(server))
    begin = _place(server)
    with closing(server.connect(init_command="SET sql_mode = ''")) as connection, connection.cursor() as cursor:
        for expression in EXPRESSIONS:
            cursor.execute(f"INSERT INTO {table} (j) VALUES ({expression})")
    _check(server, table, begin)
    server.execute(f"DELETE FROM {table}")
    server.execute(f"ALTER TABLE {table} MODIFY j JSON NOT NULL")
    begin = _place(server)
    server.execute(f"INSERT IGNORE INTO {table} (j) VALUES (NULL), ('7')")
    assert [row[1] for _, row in _rows(server, begin, "ij")] == [b"", b"\x05\x07\x00"]
    _check(server, table, begin)


def test_values_of_columns_in_documents(
    server_with: Callable[..., Server], new_database: Callable[[Server], str]
) -> None:
    """JSON_OBJECT of columns of every type."""
    server = server_with("mysql")
    database = new_database(server)
    table = _new_table(server, database)
    server.execute(f"""CREATE TABLE `{database}`.c (bt BIT(64), bt1 BIT(1), e ENUM('x', 'é,\"'), s SET('a', 'b', 'c'), \
y YEAR,
        b BINARY(8), vb VARBINARY(300), bl BLOB, lb LONGBLOB, c CHAR(5), t TEXT CHARACTER SET latin1, d DATE, \
dt DATETIME,
        dt6 DATETIME(6), ti TIME, ti3 TIME(3), ts TIMESTAMP NULL, ts2 TIMESTAMP(2) NULL, n DECIMAL(30, 10), f FLOAT,
        db DOUBLE(20, 5), u8 BIGINT UNSIGNED, i1 TINYINT, p GEOMETRY)""")
    server.execute(
        f"""INSERT INTO `{database}`.c VALUES (x'fffefdfc00000001', 1, 2, 'a,c', 2024, 'ab', 'v', x'00ff', \
REPEAT(x'80', 500), 'c',
        'Grüße', '2024-02-29', '2024-02-29 01:02:03', '1000-01-01 00:00:00.000001', '-838:59:59', '-00:00:00.001',
        '2024-02-29 01:02:03', '2038-01-19 03:14:07.99', -12345678901234567890.0123456789, 1.1, 12345.67891, \
18446744073709551615,
        -128, ST_GeomFromText('MULTIPOINT(1 1, 2.5 -3)')), (0, 0, 1, '', 1901, '', '', '', '', '', '', '1000-01-01',
        '9999-12-31 23:59:59', '9999-12-31 23:59:59.999999', '0:0:0', '838:59:59', NULL, NULL, 0, -1e38, -0.0, 0, 0, \
NULL)"""
    )
    names = [row[0] for row in server.execute(f"SHOW COLUMNS FROM `{database}`.c")]
    begin = _place(server)
    pairs = ", ".join(f"'{name}', {name}" for name in names)
    server.execute(f"INSERT INTO {table} (j) SELECT JSON_OBJECT({pairs}) FROM `{database}`.c")
    server.execute(f"INSERT INTO {table} (j) SELECT JSON_ARRAYAGG(JSON_ARRAY({', '.join(names)})) FROM `{database}`.c")
    for name in names:
        server.execute(f"INSERT INTO {table} (j) SELECT JSON_ARRAY({name}) FROM `{database}`.c")
    _check(server, table, begin)


def _double(chance: random.Random) -> float:
    """A finite double of any magnitude: random bits, near powers of two and ten, denormal, or with few digits."""
    kinds: tuple[Callable[[], float], ...] = (
        lambda: float(struct.unpack("<d", chance.randbytes(8))[0]),
        lambda: float(struct.unpack("<d", chance.getrandbits(chance.randrange(1, 53)).to_bytes(8, "little"))[0]),
        lambda: 10.0 ** chance.randrange(-323, 309),
        lambda: math.nextafter(2.0 ** chance.randrange(-1074, 1024), chance.choice((0.0, 1e308))),
        lambda: float(f"{chance.uniform(1, 10):.{chance.randrange(17)}f}e{chance.randrange(-20, 22)}"),
        lambda: chance.uniform(-1e17, 1e17),
        lambda: float(chance.randrange(-(2**63), 2**64)),
    )
    value = chance.choice(kinds)() * chance.choice((1, -1))
    return value if math.isfinite(value) else 0.0


def _text(chance: random.Random) -> str:
    special = '"\\/\b\f\n\r\t\0\x1f\x7f\u2028é日😀 .[]*$a'
    return "".join(chance.choice(special) for _ in range(chance.choice((0, 1, 3, 10, 130))))


def _value(chance: random.Random, depth: int) -> Any:
    kind = chance.randrange(10 if depth else 6)
    if kind < 3:
        edge = 1 << chance.choice((0, 7, 15, 16, 31, 32, 62))
        return chance.choice((None, True, False, chance.randrange(-edge, edge + 1), edge, -edge - 1, edge - 1))
    if kind < 6:
        return _double(chance) if kind == 3 else _text(chance)
    size = chance.choice((0, 1, 2, 5, 12))
    if kind < 8:
        return [_value(chance, depth - 1) for _ in range(size)]
    return {_text(chance): _value(chance, depth - 1) for _ in range(size)}


def test_documents_of_any_shape(server_with: Callable[..., Server], new_database: Callable[[Server], str]) -> None:
    """Thousands of random documents, and tens of thousands of doubles of all magnitudes."""
    server, chance = server_with("mysql"), random.Random(20)
    table = _new_table(server, new_database(server))
    begin = _place(server)
    documents = [_value(chance, depth=4) for _ in range(5000)]
    documents += [[_double(chance) for _ in range(1000)] for _ in range(50)]
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {table} (j) VALUES (%s)",
            [(json.dumps(d, ensure_ascii=chance.random() < 0.5),) for d in documents],
        )
    _check(server, table, begin)


def _deep(depth: int) -> str:
    opening = ['{"k": ' if n % 3 else "[" for n in range(depth)]
    return "".join(opening) + "7" + "".join("]" if o == "[" else "}" for o in reversed(opening))


def test_large_and_deep_documents(server_with: Callable[..., Server], new_database: Callable[[Server], str]) -> None:
    """Containers near 64 KiB, with many members, of several MiB, nested large ones, and a hundred levels."""
    server, chance = server_with("mysql"), random.Random(21)
    table = _new_table(server, new_database(server))
    begin = _place(server)
    numbers: list[Any] = [chance.randrange(-(2**40), 2**40) >> chance.randrange(40) for _ in range(30_000)]
    documents: list[Any] = [["x" * n] for n in (*range(65_520, 65_530), 2_097_140, 5_000_000)]
    documents += [{"k" * 10: ["y" * n], "z": n} for n in range(65_490, 65_510, 3)]
    documents += [list(range(n)) for n in (21_843, 21_844, 21_845, 65_535, 65_536, 200_000)]
    documents += [numbers, {str(n): n for n in numbers}, [{"id": n, "v": n / 7, "t": str(n)} for n in numbers]]
    documents += [{"outer": {"large": ["z" * 70_000, -1, 65_535, -32_769, 2**31, None, True, False], "small": [1]}}]
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        for text in (*map(json.dumps, documents), _deep(100)):
            cursor.execute(f"INSERT INTO {table} (j) VALUES (%s)", (text,))
        with pytest.raises(Exception, match="maximum depth"):
            cursor.execute(f"INSERT INTO {table} (j) VALUES (%s)", (_deep(101),))
    _check(server, table, begin)


RAW = (
    b"\x0f\xfd\x03abc", b'\x0f\xfd\x04a"\n\\', b"\x0f\xfe\x03abc", b"\x0f\x10\x02\x01\xff", b"\x0f\x0d\x01\x05",
    b"\x0f\x0f\x00",
    b"\x0f\xf6\x04\x02\x01\x7f\xff", b"\x0f\xf6\x03\x01\x01\x7a", b"\x0f\xf6\x03\x02\x02\x85",
    b"\x0f\x07\x08\0\0\0\0\0\xba\xb2\x19", b"\x06\xff\xff", b"\x08\xff\xff\xff\xff", b"\x0a" + b"\xff" * 8,
    b"\x05\x01\0behind", b"\x02\0\0\x04\0behind", b"", bytes.fromhex("00010013000b0002000c0f006b31000003616263"),
)  # fmt: skip
"""Documents that this server's functions do not make, but older ones, updates in place or replication do."""


def test_documents_that_other_servers_made(
    server_with: Callable[..., Server], new_database: Callable[[Server], str]
) -> None:
    """Opaque texts of older versions, negative zeros and unused bytes, sent to the server as row events."""
    server = server_with("mysql", gtid=False)
    table = _new_table(server, new_database(server))
    server.execute("FLUSH BINARY LOGS")
    server.execute(f"INSERT INTO {table} VALUES (0, '1')")
    server.execute(f"DELETE FROM {table}")
    events = dict(_events(server, (_place(server)[0], 4)))
    head = events[WRITE_ROWS][: HEADER + 12]
    rows = b"".join(b"\0" + struct.pack("<iI", n, len(document)) + document for n, document in enumerate(RAW, 1))
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        for parts in ((events[FORMAT_DESCRIPTION],), (events[TABLE_MAP], head + rows)):
            cursor.execute("BINLOG %s", (base64.b64encode(b"".join(map(_sealed, parts))).decode(),))
    texts = _texts(server, table)
    assert [text_of(document) for document in RAW] == [texts[n] for n in range(1, len(RAW) + 1)]


def _sealed(event: bytes) -> bytes:
    """An event with its size and checksum set."""
    body = event[:9] + struct.pack("<I", len(event) + CHECKSUM) + event[13:]
    return body + struct.pack("<I", zlib.crc32(body))


KEYS = ("a", "b c", "é", "с", "日本", 'q"\\\n', "", "key.with[0]", "$x", "list", "😀")


def _path(chance: random.Random) -> str:
    """A path with optional parts, some identifiers without quotes."""
    legs = []
    for _ in range(chance.choice((1, 1, 2, 2, 3))):
        kind = chance.randrange(5)
        if kind == 0:
            legs.append(f"[{chance.randrange(6)}]")
        elif kind == 1:
            legs.append(chance.choice(("[last]", "[last-1]", "[last-7]")))
        else:
            key = chance.choice(KEYS)
            legs.append("." + (key if key.isidentifier() and key.isascii() else json.dumps(key, ensure_ascii=False)))
    return "$" + "".join(legs)


def _change(chance: random.Random, column: str) -> tuple[str, list[str]]:
    """An assignment that MySQL may log as a difference, and its parameters."""
    function = chance.choice(
        ("JSON_SET", "JSON_SET", "JSON_REPLACE", "JSON_INSERT", "JSON_ARRAY_INSERT", "JSON_REMOVE")
    )
    arguments, parameters = "", []
    for _ in range(chance.choice((1, 1, 2, 4))):
        path = _path(chance)
        parameters.append(path + "[1]" if function == "JSON_ARRAY_INSERT" else path)
        arguments += ", %s"
        if function != "JSON_REMOVE":
            arguments += ", CAST(%s AS JSON)"
            parameters.append(json.dumps(_value(chance, depth=1)))
    return f"{column} = {function}({column}{arguments})", parameters


def _document(chance: random.Random) -> str:
    members = {key: _value(chance, depth=2) for key in KEYS if chance.random() < 0.7}
    members |= {"list": [_value(chance, depth=1) for _ in range(5)], "a": {key: [1, 2, 3] for key in KEYS}}
    return json.dumps(members | {"padding": "x" * chance.choice((300, 3000, 70_000))})


@pytest.mark.parametrize("options", ["", "PARTIAL_JSON"])
def test_updates_in_place_and_differences(
    server_with: Callable[..., Server], new_database: Callable[[Server], str], options: str
) -> None:
    """After each of hundreds of updates, images with documents or differences have the text of the table."""
    server, chance = server_with("mysql"), random.Random(f"updates {options}")
    table = f"`{new_database(server)}`.t"
    server.execute(
        f"CREATE TABLE {table} (id INT PRIMARY KEY, j JSON, n INT, k JSON, v JSON AS (JSON_EXTRACT(j, '$.a')) VIRTUAL)"
    )
    counts = {"diffs": 0, "empty": 0, "whole": 0, "unused": 0}
    with closing(server.connect()) as connection, connection.cursor() as cursor:

        def place() -> tuple[str, int]:
            cursor.execute("SHOW BINARY LOG STATUS")
            return tuple(cursor.fetchone()[:2])

        cursor.execute("SET SESSION binlog_row_value_options = %s", (options,))
        for number in range(160):
            if number % 40 == 0:
                cursor.execute(f"DELETE FROM {table}")
                documents = [(n, _document(chance), 0, _document(chance) if n % 3 else None) for n in range(6)]
                cursor.executemany(f"INSERT INTO {table} (id, j, n, k) VALUES (%s, %s, %s, %s)", documents)
            changes = [_change(chance, column) for column in ("j", "k") if chance.random() < 0.7]
            begin = place()
            cursor.execute(
                f"UPDATE {table} SET {', '.join(['n = n + 1', *(change for change, _ in changes)])}",
                [parameter for _, parameters in changes for parameter in parameters],
            )
            cursor.execute(f"SELECT id, CAST(j AS CHAR), CAST(k AS CHAR), CAST(v AS CHAR) FROM {table}")
            texts = {row[0]: list(row[1:]) for row in cursor.fetchall()}
            for before, after in _rows(server, begin, "ijijj"):
                assert [_after(before[n], after[n], counts) for n in (1, 3, 4)] == texts[after[0]]
    assert counts["whole"] > 50
    if options:
        assert counts["diffs"] > 100
        assert counts["empty"] > 100
    else:
        assert counts["diffs"] == counts["empty"] == 0
        assert counts["unused"] > 50


def _after(before: bytes | None, after: bytes | Diffs | None, counts: dict[str, int]) -> str | None:
    if after is None:
        return None
    if isinstance(after, bytes):
        counts["whole"] += 1
        text = text_of(after)
        # An update in place leaves the document as long as it was.
        counts["unused"] += before is not None and len(before) == len(after) and len(text_of(before)) > len(text)
        return text
    counts["diffs" if after.data else "empty"] += 1
    assert before is not None
    return apply_diffs(before, after.data)

"""Every column type, with SQL expressions for values at its bounds."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pymysql

from tests.servers import Server

BOTH = ("mysql", "mariadb")


@dataclass(frozen=True)
class Kind:
    """A column definition and SQL expressions for its values. NULL is always added."""

    ddl: str
    values: tuple[str, ...]
    flavors: tuple[str, ...] = BOTH
    since: tuple[int, ...] = ()
    """The server's first version that has it."""


def _integer(name: str, bits: int) -> list[Kind]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return [
        Kind(name, (str(low), str(high), "0", "-1", "1")),
        Kind(f"{name} UNSIGNED", ("0", str(2**bits - 1), str(high + 1), "1")),
        Kind(f"{name} ZEROFILL", ("0", "7", str(2**bits - 1))),
    ]


def _decimal(precision: int, scale: int) -> Kind:
    nines = "9" * (precision - scale) + ("." + "9" * scale if scale else "")
    small = "0." + "0" * (scale - 1) + "1" if scale else "1"
    return Kind(f"DECIMAL({precision},{scale})", (f"'{nines}'", f"'-{nines}'", "0", f"'{small}'", f"'-{small}'"))


_DOUBLES = (
    "0",
    "-0.0",
    "0.1",
    "1e20",
    "-1.7976931348623157e308",
    "5e-324",
    "2.2250738585072014e-308",
    "123456789.123456789",
)
_FLOATS = ("0", "16777217", "3.4028234e38", "-3.4028234e38", "1.17549435e-38", "1.4e-45", "123456.789", "0.1")
_MANY = ",".join(f"'m{n}'" for n in range(1, 65))
_LABELS = """'a','b''c','d,e"f','ü','','g\\\\\\\\h','Ω ☃'"""
_WORDS = ("''", "'a'", "'trailing  '", "'ü€😀'", "'\\'q\\' \"d\" \\\\ '", "REPEAT('ß', 300)")

KINDS: tuple[Kind, ...] = (
    *(
        kind
        for name, bits in (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64))
        for kind in _integer(name, bits)
    ),
    Kind("BOOLEAN", ("TRUE", "FALSE", "2")),
    *(Kind(f"BIT({n})", ("0", "1", f"{2**n - 1}", f"{2**n // 3}")) for n in (1, 2, 7, 8, 9, 16, 17, 33, 63, 64)),
    *(
        _decimal(p, s)
        for p, s in (
            (1, 0),
            (1, 1),
            (9, 0),
            (10, 2),
            (18, 0),
            (18, 9),
            (19, 0),
            (20, 20),
            (27, 9),
            (30, 30),
            (38, 0),
            (38, 10),
        )
    ),
    *(_decimal(p, s) for p, s in ((38, 30), (39, 0), (40, 30), (65, 0), (65, 30))),
    Kind("DECIMAL(12,3) UNSIGNED", ("0", "'999999999.999'", "'0.001'")),
    Kind("FLOAT", _FLOATS),
    Kind("FLOAT UNSIGNED", ("0", "1.5")),
    Kind("FLOAT(7,2)", ("1.125", "16777.216", "-99999.99")),
    Kind("DOUBLE", _DOUBLES),
    Kind("DOUBLE(20,5)", ("1.123456789", "123456789012.123455", "-0.00001")),
    Kind("DATE", ("'1000-01-01'", "'9999-12-31'", "'2024-02-29'", "'1970-01-01'", "'0001-01-01'", "'0000-01-01'")),
    *(
        Kind(
            f"TIME({n})",
            (
                "'0:0:0'",
                "'-838:59:59'",
                "'838:59:59'",
                "'-00:00:00.999999'",
                "'-1:02:03.5'",
                "'99:59:59.123456'",
                "'100:00:00'",
                "'-0:0:1'",
            ),
        )
        for n in range(7)
    ),
    *(
        Kind(
            f"DATETIME({n})",
            (
                "'1000-01-01'",
                "'9999-12-31 23:59:59'",
                "'2024-02-29 12:34:56.123456'",
                "'0000-01-01 00:00:00'",
                "'1969-12-31 23:59:59.999'",
            ),
        )
        for n in range(7)
    ),
    *(
        Kind(f"TIMESTAMP({n}) NULL", ("'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'2024-02-29 12:34:56.789012'"))
        for n in range(7)
    ),
    Kind("YEAR", ("0", "1901", "2155", "1970")),
    Kind("CHAR(10)", ("''", "'a'", "'b  '", "'ü€😀'")),
    Kind("CHAR(255)", ("''", "REPEAT('😀', 255)", "'x '")),
    Kind("CHAR(0)", ("''",)),
    Kind("VARCHAR(300)", _WORDS),
    Kind("VARCHAR(60)", ("''", "'kurz'", "'\\0'")),
    *(Kind(f"{size}TEXT", ("''", "'x'", "REPEAT('ö', 100)", "'  '")) for size in ("TINY", "", "MEDIUM", "LONG")),
    Kind("LONGTEXT", ("REPEAT('z', 70000)", "''")),
    *(
        Kind(
            f"VARCHAR(40) CHARACTER SET {name}",
            ("''", "'abc'", "'Straße'" if name in ("latin1", "latin2", "utf16", "ucs2") else "'x~'"),
        )
        for name in (
            "latin1",
            "latin2",
            "utf8mb3",
            "ascii",
            "ucs2",
            "utf16",
            "utf32",
            "gbk",
            "big5",
            "sjis",
            "cp932",
            "eucjpms",
            "ujis",
            "euckr",
            "utf16le",
            "koi8r",
            "cp1251",
            "greek",
            "hebrew",
            "armscii8",
            "swe7",
        )
    ),
    Kind("CHAR(8) CHARACTER SET ucs2", ("'a '", "''", "'ü'")),
    Kind("CHAR(8) CHARACTER SET gbk", ("'中文'", "''")),
    Kind("VARCHAR(20) CHARACTER SET gb18030", ("'中文😀'", "''"), ("mysql",)),
    Kind("TEXT CHARACTER SET cp1251", ("'Привет'", "''")),
    Kind("TEXT CHARACTER SET sjis", ("'日本語'", "''")),
    Kind("BINARY(1)", ("'a'", "x'00'")),
    Kind("BINARY(8)", ("'a'", "x'0000000000000000'", "x'6100620000000000'", "x'FFFFFFFFFFFFFFFF'")),
    Kind("BINARY(255)", ("''", "REPEAT('x', 255)")),
    Kind("VARBINARY(300)", ("''", "x'00'", "x'610000'", "REPEAT(x'FF', 300)")),
    *(Kind(f"{size}BLOB", ("''", "x'00FF00'", "REPEAT(x'80', 200)")) for size in ("TINY", "", "MEDIUM", "LONG")),
    Kind(f"ENUM({_LABELS})", ("1", "2", "3", "4", "5", "6", "7")),
    Kind("ENUM('x','é') CHARACTER SET latin1", ("1", "2")),
    Kind("ENUM('да','нет') CHARACTER SET cp1251", ("1", "2")),
    Kind(f"ENUM({','.join(repr(f'label{n}') for n in range(300))})", ("1", "255", "256", "300")),
    Kind("SET('a','b''c','d\"e','ü')", ("0", "1", "3", "15", "8")),
    Kind("SET('é','x') CHARACTER SET latin1", ("0", "1", "3")),
    Kind(f"SET({_MANY})", ("0", "1", "9223372036854775808", "18446744073709551615")),
    Kind(f"SET({','.join(_MANY.split(',')[:20])})", ("0", "524288", "1048575")),
    Kind(
        "JSON",
        (
            "'null'",
            '\'{"b": [1, 2.5, "ü"], "a": {}}\'',
            "'[]'",
            "'\"text\"'",
            "'18446744073709551615'",
            "'-1e-7'",
            "'true'",
        ),
    ),
    *(
        Kind(name, tuple(f"ST_GeomFromText('{text}', 4326)" for text in texts))
        for name, texts in {
            "GEOMETRY": ("POINT(1 2)", "LINESTRING(0 0, 1 1)"),
            "POINT": ("POINT(-1.5 2.25)",),
            "LINESTRING": ("LINESTRING(0 0, 10 10, 20 25)",),
            "POLYGON": ("POLYGON((0 0, 10 0, 10 10, 0 0))",),
            "MULTIPOINT": ("MULTIPOINT((0 0), (1 1))",),
            "MULTILINESTRING": ("MULTILINESTRING((0 0, 1 1), (2 2, 3 3))",),
            "MULTIPOLYGON": ("MULTIPOLYGON(((0 0, 10 0, 10 10, 0 0)))",),
            "GEOMETRYCOLLECTION": ("GEOMETRYCOLLECTION(POINT(1 2), LINESTRING(0 0, 1 1))",),
        }.items()
    ),
    Kind("GEOMETRY", ("ST_GeomFromText('POINT(1 2)')",)),
    Kind("VECTOR(4)", ("TO_VECTOR('[1, -2.5, 0, 3e38]')", "TO_VECTOR('[7]')"), ("mysql",)),
    Kind(
        "VECTOR(4)",
        ("VEC_FromText('[1, -2.5, 0, 3e38]')", "VEC_FromText('[7,8,9,1e-40]')", "x'0000000000000000000000000000C03F'"),
        ("mariadb",),
        (11, 7),
    ),
    *(
        Kind(f"TIMESTAMP({n}) NULL", ("'2038-01-19 03:14:08'", "'2106-02-07 06:28:15.987654'"), ("mariadb",), (11, 5))
        for n in (0, 3, 6)
    ),
    Kind(
        "UUID",
        (
            "'123e4567-e89b-12d3-a456-426614174000'",
            "'01890a5d-ac96-774b-bcce-b302099a8057'",
            "'00000000-0000-0000-0000-000000000000'",
            "'ffffffff-ffff-ffff-ffff-ffffffffff00'",
        ),
        ("mariadb",),
    ),
    Kind("INET4", ("'1.2.3.4'", "'0.0.0.0'", "'255.255.255.0'"), ("mariadb",)),
    Kind(
        "INET6",
        (
            "'::'",
            "'::1'",
            "'::ffff:1.2.3.4'",
            "'2001:db8::1:0:0:0'",
            "'::1.2.3.4'",
            "'1:0:0:2:0:0:0:3'",
            "'1::'",
            "'::5:6'",
            "'fe80::1:0'",
            "'1:0:2:0:3:0:4:0'",
            "'1:2:3:4:5:6:7:8'",
            "'0:0:1::'",
        ),
        ("mariadb",),
    ),
    Kind("VARCHAR(300) COMPRESSED", ("''", "'a'", "REPEAT('ü', 300)"), ("mariadb",)),
    Kind("VARBINARY(300) COMPRESSED", ("''", "x'00'", "REPEAT(x'80', 300)"), ("mariadb",)),
    Kind("TEXT COMPRESSED CHARACTER SET latin1", ("''", "'é'", "REPEAT('xü', 3000)"), ("mariadb",)),
    Kind("LONGBLOB COMPRESSED", ("''", "REPEAT(x'00FF', 70000)"), ("mariadb",)),
)


def kinds(server: Server) -> list[Kind]:
    """The kinds that this server supports."""
    version = tuple(map(int, server.version.split(".")))
    return [kind for kind in KINDS if server.flavor in kind.flavors and version >= kind.since]


def create(server: Server, database: str, table: str, chosen: list[Kind]) -> int:
    """Create a table with one column per kind, `c0`, `c1`, …; returns how many rows it takes to show every value."""
    columns = ", ".join(f"c{n} {kind.ddl}" for n, kind in enumerate(chosen))
    server.execute(
        f"CREATE TABLE `{database}`.{table} (id INT PRIMARY KEY, {columns}) CHARACTER SET utf8mb4 ROW_FORMAT=DYNAMIC"
    )
    return max(len(kind.values) for kind in chosen) + 1


def insert(server: Server, database: str, table: str, chosen: list[Kind], first: int, rows: int) -> None:
    """Insert rows with keys from `first` on.

    One of NULLs, then each kind's values in turn, starting over when they run out.
    """
    with closing(session(server)) as connection, connection.cursor() as cursor:
        for n in range(rows):
            cells = [kind.values[(n - 1) % len(kind.values)] if n else "NULL" for kind in chosen]
            cursor.execute(f"INSERT INTO `{database}`.{table} VALUES ({first + n}, {', '.join(cells)})")


def session(server: Server) -> "pymysql.connections.Connection[Any]":
    """A session in UTC that accepts any date."""
    return server.connect(init_command="SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'")


def statements(server: Server, *lines: str) -> Callable[[], None]:
    """Runs these statements in one session that accepts any date."""

    def run() -> None:
        with closing(session(server)) as connection, connection.cursor() as cursor:
            for line in lines:
                cursor.execute(line)

    return run

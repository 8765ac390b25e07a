"""Random tables with random rows: both decoders agree with an independent client."""

import json
import math
import struct
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from functools import cache, partial
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pymysql.converters import escape_item

from engine.decode.schema import Column
from tests.live.support.both_decoders import assert_both_decoders
from tests.live.support.every_type import session
from tests.servers import Pool, Server
from tests.support.depth import SOAK, depth
from tests.unit.support.values import MAKERS

_numbers = count()
_MARIADB_ONLY = {"uuid", "inet4", "inet6"}
_MYSQL_ONLY = {"vector"}
_WIDE = ("ucs2", "utf16", "utf16le", "utf32")
"""Character sets in which every character can be drawn; the others are tested code by code."""

Cell = st.SearchStrategy[str]


def _literal(column: Column, value: Any) -> str:
    """A value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, datetime):
        return f"'{value.replace(tzinfo=None).isoformat(' ')}'"
    if column.type == "vector":  # as its bits: TO_VECTOR refuses subnormal numbers, an assignment takes them
        fits = value and all(map(math.isfinite, value))
        return f"x'{struct.pack(f'<{len(value)}f', *value).hex()}'" if fits else "NULL"
    if isinstance(value, float):
        return repr(value)
    return str(escape_item(str(value) if column.type == "decimal" else value, "utf8mb4"))


def _definition(column: Column) -> str:
    kind = column.type.upper()
    if column.type == "decimal":
        kind += f"({column.precision},{column.scale})"
    elif column.type == "bit":
        kind += f"({column.precision})"
    elif column.type in ("enum", "set"):
        kind += "(" + ",".join(str(escape_item(label, "utf8mb4")) for label in column.labels) + ")"
    elif column.type in ("datetime", "timestamp", "time"):
        kind += f"({column.fraction})"
    elif column.type == "vector":
        kind += "(8)"
    elif column.length:
        width = {"utf8mb4": 4, "utf8mb3": 3}.get(column.charset or "", 1)
        kind += f"({column.length // width})"
    if column.unsigned:
        kind += " UNSIGNED"
    charset = f" CHARACTER SET {column.charset}" if column.charset else ""
    return kind + charset + " NULL"


def _json(_: Column) -> st.SearchStrategy[str]:
    leaves: st.SearchStrategy[Any] = (
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    )
    leaves |= st.text(st.characters(codec="utf-8"), max_size=10)
    values = st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=6), inner, max_size=4)
        ),
        max_leaves=12,
    )
    return values.map(json.dumps)


def _texts(charset: str) -> st.SearchStrategy[str]:
    return st.text(st.characters(codec="utf-8", max_codepoint=0xFFFF if charset == "ucs2" else None), max_size=10)


def _geometries(_: Column) -> Cell:
    number = st.integers(-80, 80)
    point = st.tuples(number, number).map(lambda p: f"{p[0]} {p[1]}")
    line = st.lists(point, min_size=2, max_size=5).map(lambda points: f"LINESTRING({', '.join(points)})")
    text = line | point.map(lambda p: f"POINT({p})")
    return st.tuples(text, st.sampled_from([0, 4326])).map(lambda s: f"ST_GeomFromText('{s[0]}', {s[1]})")


@cache
def _makers(flavor: str) -> list[tuple[Column, Callable[[Column], Cell]]]:
    absent = _MARIADB_ONLY if flavor == "mysql" else _MYSQL_ONLY
    made: list[tuple[Column, Callable[[Column], Cell]]] = []
    for facts, maker in MAKERS:
        column = Column("c", **facts)
        too_fine = flavor == "mysql" and (column.scale or 0) > 30  # as far as MySQL's DECIMAL goes
        if column.type not in absent and column.type != "geometry" and not too_fine:
            made.append((column, lambda c, maker=maker: maker(c).map(partial(_literal, c))))  # type: ignore[misc]
    made.append((Column("c", "json"), lambda c: _json(c).map(partial(_literal, c))))
    made.append((Column("c", "geometry"), _geometries))
    for charset in _WIDE:
        column = Column("c", "varchar", length=40, charset=charset)
        made.append((column, lambda c: _texts(str(c.charset)).map(partial(_literal, c))))
    return made


@st.composite
def _tables(draw: st.DrawFn, flavor: str) -> tuple[str, list[str]]:
    """The columns of a table, and the VALUES of its rows."""
    chosen = draw(st.lists(st.sampled_from(_makers(flavor)), min_size=1, max_size=12))
    definitions = ", ".join(f"c{n} {_definition(column)}" for n, (column, _) in enumerate(chosen))
    row = st.tuples(*(st.just("NULL") | cell(column) for column, cell in chosen))
    rows = draw(st.lists(row, min_size=40, max_size=120))
    return definitions, [f"({n}, {', '.join(cells)})" for n, cells in enumerate(rows)]


@pytest.mark.timeout(900)
def test_random_tables_are_read_exactly(servers: Pool, flavor: str) -> None:
    """Thousands of rows of random columns with NULLs and bounds, in batches that are logged as multi-row events."""
    server = servers.get(flavor)
    server.execute("CREATE DATABASE IF NOT EXISTS random_schemas")

    phases = set(Phase) - {Phase.explain}  # which would trace every line of every example

    @settings(
        max_examples=depth(30, 300),
        deadline=None,
        derandomize=not SOAK,
        suppress_health_check=list(HealthCheck),
        phases=phases,
    )
    @given(_tables(flavor))
    def read(table: tuple[str, list[str]]) -> None:
        definitions, rows = table
        name = f"t{next(_numbers)}"
        server.execute(f"CREATE TABLE random_schemas.{name} (id INT PRIMARY KEY, {definitions})")
        assert_both_decoders(server, "random_schemas", name, partial(_insert, server, name, rows))
        server.execute(f"DROP TABLE random_schemas.{name}")

    read()


def _insert(server: Server, name: str, rows: list[str]) -> None:
    with closing(session(server)) as connection, connection.cursor() as cursor:
        for n in range(0, len(rows), 25):
            cursor.execute(f"INSERT INTO random_schemas.{name} VALUES {', '.join(rows[n : n + 25])}")

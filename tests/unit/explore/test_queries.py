"""Queries over a lake: the tables they see, what they have no access to, and how they end."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from engine.capture.landing import VersionFiles
from engine.decode.schema import Column, Table
from engine.destination.delta.landing import DeltaLanding
from engine.destination.delta.layout import make_readable, mirror_folder
from engine.explore import queries
from engine.explore.one_select import QueryError
from engine.explore.queries import answer, as_of_sql, history_sql, quoted
from engine.explore.read_only_files import ReadOnlyFiles
from engine.store.local_folder import LocalFolder

TABLE = Table(
    "Shop", 'or"ders', (Column("id", "int"), Column("the name", "varchar", length=9, charset="utf8mb4")), ("id",)
)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake with a table of three rows, and a table without commits."""
    folder = mirror_folder(LocalFolder(tmp_path), TABLE.database, TABLE.name)
    make_readable(folder)
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "the name": ["a", "b", None]})
    write_deltalake(folder.url, rows)
    return tmp_path


def test_a_query_sees_tables_by_the_names_of_the_source(lake: Path) -> None:
    """Quoted if necessary; a table without a commit does not break the others."""
    other = Table("Shop", "orders2", (Column("id", "int"),), ("id",))
    found = answer(
        DeltaLanding(LocalFolder(lake)),
        [TABLE, other],
        f"SELECT * FROM {quoted('Shop')}.{quoted(TABLE.name)} ORDER BY id -- orders2",
    )
    assert found.rows.to_pydict() == {"id": [1, 2, 3], "the name": ["a", "b", None]}
    assert (found.more, found.seconds > 0) == (False, True)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "COPY (SELECT 1) TO '/tmp/x.csv'",
        "ATTACH '/tmp/x.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT * FROM lake",
    ],
)
def test_a_query_reaches_nothing_else(lake: Path, sql: str) -> None:
    """No files, no variables of the console, and no settings that would give access to them."""
    with pytest.raises(QueryError):
        answer(DeltaLanding(LocalFolder(lake)), [TABLE], sql)


def test_what_cannot_be_answered_is_said(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An invalid query, an empty one, a slow one; and a truncated answer says that it is truncated."""
    for sql, message in (("SELEC 1", "syntax error"), ("", "no query"), ("SELECT nothing", "nothing")):
        with pytest.raises(QueryError, match=message):
            answer(DeltaLanding(LocalFolder(lake)), [TABLE], sql)
    with pytest.raises(QueryError, match=r"longer than 0\.2 s"):
        answer(
            DeltaLanding(LocalFolder(lake)),
            [TABLE],
            "SELECT count(*) FROM range(1000000000000) a, range(9) b WHERE a.range % 7 = b.range",
            timeout_s=0.2,
        )
    monkeypatch.setattr(queries, "MOST_ROWS", 10)
    found = answer(DeltaLanding(LocalFolder(lake)), [TABLE], "SELECT * FROM range(11)")
    assert (found.rows.num_rows, found.more) == (10, True)


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        (
            "SELECT *\nFROM shop.ordres",
            "There is no table shop.ordres here.",
            "Tables: shop.orders, shop.orders__changes.",
        ),
        (
            "SELECT * FROM sho.orders",
            "There is no table sho.orders here.",
            "Tables: shop.orders, shop.orders__changes.",
        ),
        (
            "SELECT * FROM zzz",
            "There is no table zzz here.",
            "Tables: log.keyless__changes, shop.orders, shop.orders__changes.",
        ),
        ("SELECT id\nFROM shop.orders\nWHERE id = 'x'", "LINE 3: WHERE id = 'x'", "TRY_CAST"),
        ("SELEC 1", "syntax error", "in single quotes, and"),
        ("SELECT ide FROM shop.orders", "ide", "Columns: id."),
        ('SELECT id FROM shop.orders WHERE id = "x"', "x", "A text stands in single quotes: 'x'. Columns: id."),
        ("SELECT date_format(id, 1) FROM shop.orders", "date_format", "strftime"),
        ("SELECT id, count(*) FROM shop.orders", "GROUP BY", "any_value"),
        ("SELECT id FROM shop.orders a, shop.orders b", "Ambiguous", "a.column"),
        ("SELECT sum(id::VARCHAR) FROM shop.orders", "No function matches", "::BIGINT"),
        ("SELECT id + 9223372036854775807 FROM shop.orders", "Overflow", "HUGEINT"),
        ("SELECT id", "FROM clause is missing", "Name the table"),
        ("SELECT (SELECT range FROM range(3))", "More than one row", "whose documentation explains"),
    ],
)
def test_an_error_speaks_of_the_users_own_query(tmp_path: Path, sql: str, message: str, hint: str) -> None:
    """It names the tables that can be queried, and the line of the text that was entered.

    It has no names of DuckDB's catalog.
    """
    orders, keyless = Table("shop", "orders", (Column("id", "int"),), ("id",)), Table("log", "keyless", (), ())
    folder = mirror_folder(LocalFolder(tmp_path), "shop", "orders")
    make_readable(folder)
    write_deltalake(folder.url, pa.table({"id": pa.array([1], pa.int32())}))
    with pytest.raises(QueryError) as raised:
        answer(DeltaLanding(LocalFolder(tmp_path)), [orders, keyless], sql)
    assert message in raised.value.message
    assert hint in raised.value.hint


def test_values_stay_values() -> None:
    """A key that a user types cannot become SQL."""
    assert "id = '1''; DROP TABLE x'" in history_sql(TABLE, ["1'; DROP TABLE x"])
    assert '"Shop"."or""ders__changes"' in as_of_sql(TABLE, datetime(2026, 1, 2, tzinfo=UTC), 0)


def test_a_version_without_files_has_no_rows(tmp_path: Path) -> None:
    """A mirror before its first merge, or of a table whose rows were all deleted."""
    version: Any = SimpleNamespace(
        schema=pa.schema({"id": pa.int32()}), scan=lambda: VersionFiles(LocalFolder(tmp_path), {})
    )
    with closing(duckdb.connect()) as connection:
        queries._register(connection, "empty", version, ReadOnlyFiles())
        found = connection.execute("SELECT count(*) AS n, sum(id) AS s FROM empty").fetchall()
    assert found == [(0, None)]

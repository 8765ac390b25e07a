"""The catalogue: which tables the source has, their columns and keys, and what the server estimates of them."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.decode.schema import Column, Table
from engine.errors import SpecError
from engine.settings import select_tables
from engine.source.connect import Connection, query

SYSTEM = ("mysql", "information_schema", "performance_schema", "sys")

_TABLES = """
SELECT TABLE_SCHEMA AS d, TABLE_NAME AS t, TABLE_TYPE AS kind FROM information_schema.TABLES
WHERE TABLE_SCHEMA NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
ORDER BY TABLE_SCHEMA, TABLE_NAME"""
_COLUMNS = """
SELECT COLUMN_NAME AS name, LOWER(DATA_TYPE) AS type, IS_NULLABLE = 'YES' AS nullable, COLUMN_TYPE AS full_type,
       CHARACTER_OCTET_LENGTH AS length, NUMERIC_PRECISION AS num_precision, NUMERIC_SCALE AS scale,
       DATETIME_PRECISION AS fraction, CHARACTER_SET_NAME AS charset
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION"""
_KEYS = """
SELECT s.INDEX_NAME AS name, s.COLUMN_NAME AS col, s.SUB_PART AS part, s.NULLABLE = 'YES' AS nullable
FROM information_schema.STATISTICS s WHERE s.TABLE_SCHEMA = %s AND s.TABLE_NAME = %s AND s.NON_UNIQUE = 0
ORDER BY s.INDEX_NAME <> 'PRIMARY', s.INDEX_NAME, s.SEQ_IN_INDEX"""
_STATISTICS = """
SELECT TABLE_SCHEMA AS d, TABLE_NAME AS t, TABLE_ROWS AS n, AVG_ROW_LENGTH AS length, DATA_LENGTH AS bytes, ENGINE AS engine
FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"""

_ENGINE = """
SELECT t.ENGINE AS engine, e.TRANSACTIONS AS transactions FROM information_schema.TABLES t
LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE WHERE t.TABLE_SCHEMA = %s AND t.TABLE_NAME = %s"""
_BASE_TABLE = "BASE TABLE"
_LABEL = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_HASHED = """
SELECT s.INDEX_NAME FROM information_schema.STATISTICS s JOIN information_schema.TABLES t USING (TABLE_SCHEMA, TABLE_NAME)
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND s.INDEX_TYPE = 'HASH' AND t.ENGINE <> 'MEMORY'"""
_LONG_UNIQUE = "a unique index on long values, for which MariaDB logs hidden columns"
_OLD_FORMAT = "mariadb-5.3"


@dataclass(frozen=True)
class Statistics:
    """The server's estimates of a table: rows, bytes a row, bytes of data; and its storage engine."""

    rows: int
    row_bytes: int
    data_bytes: int
    engine: str


def list_tables(connection: Connection) -> list[tuple[str, str]]:
    """All base tables that the user may see, as (database, table), without the server's own."""
    return [(row["d"], row["t"]) for row in query(connection, _TABLES) if row["kind"] == _BASE_TABLE]


def passed_over(connection: Connection, globs: Sequence[str]) -> dict[str, str]:
    """What the globs choose and Tidemark does not capture: full name to kind (VIEW, SYSTEM VERSIONED, SEQUENCE)."""
    kinds = {(row["d"], row["t"]): row["kind"] for row in query(connection, _TABLES) if row["kind"] != _BASE_TABLE}
    return {f"{database}.{name}": kinds[database, name] for database, name in select_tables(globs, kinds)}


def captured_tables(connection: Connection, globs: Sequence[str], *, null_dates: bool = False) -> list[Table]:
    """The tables that the globs choose, with columns and key. Raises SpecError when they choose none."""
    chosen = select_tables(globs, list_tables(connection))
    if not chosen:
        raise SpecError(
            f"No table matches source.tables = {list(globs)}.",
            detail="Only tables that the user may SELECT from are seen.",
            hint="Check the globs (database.table) and the user's grants.",
        )
    names = Counter(f"{database}.{table}" for database, table in chosen)
    if len(names) < len(chosen):
        twice = sorted(name for name, count in names.items() if count > 1)
        raise SpecError(
            f"Two tables have the same full name: {', '.join(twice)} (dots in their names are cut in two ways).",
            detail="They could not be told apart in the ledger and the journal; nothing was started.",
            hint="Give each a pipeline of its own, with globs that match only one of them.",
        )
    return [read_table(connection, database, table, null_dates=null_dates) for database, table in chosen]


def read_table(connection: Connection, database: str, table: str, *, null_dates: bool = False) -> Table:
    """One table's columns, in the server's order, and its key.

    null_dates: dates that do not exist are to become NULL, but for those of the key, which must tell rows apart.
    """
    columns = tuple(_column(row) for row in query(connection, _COLUMNS, (database, table)))
    key = _identity(query(connection, _KEYS, (database, table)))
    engine = query(connection, _ENGINE, (database, table))
    transactional = all(row["transactions"] == "YES" for row in engine)
    unfit = _LONG_UNIQUE if query(connection, _HASHED, (database, table)) else ""
    return Table(database, table, columns, key, transactional, unfit).with_null_dates(null_dates)


def _labels(full_type: str) -> tuple[str, ...]:
    """The labels of an ENUM or SET out of COLUMN_TYPE, where quotes are doubled and backslashes escape."""
    inside = full_type[full_type.index("(") : full_type.rindex(")")]
    return tuple(re.sub(r"\\(.)|''", _unescaped, label, flags=re.DOTALL) for label in _LABEL.findall(inside))


def _unescaped(escape: re.Match[str]) -> str:
    return {"n": "\n", "r": "\r", "0": "\0"}.get(escape[1], escape[1]) if escape[1] else "'"


def _column(row: dict[str, Any]) -> Column:
    return Column(
        name=row["name"],
        type=f"{row['type']} ({_OLD_FORMAT} format)" if _OLD_FORMAT in row["full_type"] else row["type"],
        nullable=bool(row["nullable"]),
        unsigned="unsigned" in row["full_type"].lower(),
        length=int(row["length"] or 0),
        precision=int(row["num_precision"] or 0),
        scale=int(row["scale"] or 0),
        fraction=int(row["fraction"] or 0),
        charset=None if row["charset"] == "binary" else "utf8mb3" if row["charset"] == "utf8" else row["charset"],
        labels=_labels(row["full_type"]) if row["type"] in ("enum", "set") else (),
    )


def _identity(parts: Iterable[dict[str, Any]]) -> tuple[str, ...]:
    """The first index that identifies a row: the primary key, else a unique one on whole columns that are not nullable."""
    indexes: dict[str, list[dict[str, Any]]] = {}
    for part in parts:
        indexes.setdefault(part["name"], []).append(part)
    for index in indexes.values():
        if not any(part["part"] or part["nullable"] or part["col"] is None for part in index):
            return tuple(part["col"] for part in index)
    return ()


def statistics(connection: Connection, table: Table) -> Statistics:
    """The server's estimates; cheap, and as old as its statistics."""
    (row,) = query(connection, _STATISTICS, (table.database, table.name))
    return Statistics(int(row["n"] or 0), int(row["length"] or 0), int(row["bytes"] or 0), row["engine"] or "")

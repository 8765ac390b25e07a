"""The catalog: the source's tables, with their columns, keys and the server's estimates."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.base.errors import PreflightError, PrivilegesMissingError, SchemaChangedError, SpecError
from engine.decode.schema import Column, Index, Table, TableName
from engine.source.column_grants import grant_of, missing_columns
from engine.source.connect import Connection, query, quote
from engine.source.engines import merge_parts, unfit_engine
from engine.source.wrong_images import with_wrong_images
from engine.spec.globs import select_tables

SYSTEM = ("mysql", "information_schema", "performance_schema", "sys")

_TABLES = """
SELECT TABLE_SCHEMA AS d, TABLE_NAME AS t, TABLE_TYPE AS kind FROM information_schema.TABLES
WHERE TABLE_SCHEMA NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
ORDER BY TABLE_SCHEMA, TABLE_NAME"""
_COLUMNS = """
SELECT TABLE_SCHEMA AS d, TABLE_NAME AS t, COLUMN_NAME AS name, LOWER(DATA_TYPE) AS type, \
IS_NULLABLE = 'YES' AS nullable,
       COLUMN_TYPE AS full_type, CHARACTER_OCTET_LENGTH AS length, NUMERIC_PRECISION AS num_precision, \
NUMERIC_SCALE AS scale,
       DATETIME_PRECISION AS fraction, CHARACTER_SET_NAME AS charset, COLLATION_NAME AS collation,
       ORDINAL_POSITION AS place, PRIVILEGES AS privileges, EXTRA AS extra, GENERATION_EXPRESSION AS expression
FROM information_schema.COLUMNS WHERE {where} ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION"""
_KEYS = """
SELECT TABLE_SCHEMA AS d, TABLE_NAME AS t, INDEX_NAME AS name, COLUMN_NAME AS col, SUB_PART AS part, \
NULLABLE = 'YES' AS nullable,
       NON_UNIQUE = 0 AS is_unique, INDEX_TYPE AS kind, COLLATION = 'D' AS descending, {usable} AS usable
FROM information_schema.STATISTICS WHERE {where}
ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME <> 'PRIMARY', NON_UNIQUE, INDEX_NAME, SEQ_IN_INDEX"""
_STATISTICS = """
SELECT TABLE_SCHEMA AS d, TABLE_NAME AS t, TABLE_ROWS AS n, AVG_ROW_LENGTH AS length, DATA_LENGTH AS bytes, \
ENGINE AS engine
FROM information_schema.TABLES WHERE {where}"""
_CREATED = """
SELECT TABLE_SCHEMA AS d, TABLE_NAME AS t, UNIX_TIMESTAMP(CREATE_TIME) AS created FROM information_schema.TABLES \
WHERE {where}"""
_ENGINE_OF = """
SELECT TABLE_SCHEMA AS d, TABLE_NAME AS t, ENGINE AS engine FROM information_schema.TABLES WHERE {where}"""
_ENGINES = "SELECT ENGINE AS engine, TRANSACTIONS = 'YES' AS transactional FROM information_schema.ENGINES"
_INVISIBLE = "SHOW COLUMNS FROM information_schema.STATISTICS WHERE Field IN ('IS_VISIBLE', 'IGNORED')"
_USABLE = {"IS_VISIBLE": "IS_VISIBLE = 'YES'", "IGNORED": "IGNORED = 'NO'"}
_ONE_BY_ONE = 8
"""Up to this many tables are looked up one at a time; more are looked up per database."""
_BASE_TABLE = "BASE TABLE"
_LABEL = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_LONG_UNIQUE = "a unique index on long values, for which MariaDB logs hidden columns"
_HIDDEN = "columns that the user may not SELECT"
_OLD_FORMAT = "mariadb-5.3"


@dataclass(frozen=True)
class Statistics:
    """The server's estimates of a table: rows, bytes per row, bytes of data; and the name of its engine."""

    rows: int
    row_bytes: int
    data_bytes: int
    engine: str = ""


@dataclass(frozen=True)
class Membership:
    """Tables captured, or not captured, whatever the globs select; each as (database, table)."""

    also: frozenset[tuple[str, str]] = frozenset()
    without: frozenset[tuple[str, str]] = frozenset()

    def chosen(self, globs: Iterable[str], tables: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """The captured ones of these tables."""
        matching = {*select_tables(globs, tables)} - self.without
        return [name for name in tables if name in self.also or name in matching]


BY_GLOBS = Membership()
"""Only the globs decide."""


def list_tables(connection: Connection) -> list[tuple[str, str]]:
    """All base tables visible to the user, as (database, table), without the server's own."""
    return [(row["d"], row["t"]) for row in query(connection, _TABLES) if row["kind"] == _BASE_TABLE]


def check_not_hidden(connection: Connection, database: str, table: str) -> None:
    """Check that the account may read a table. A revoked SELECT hides it from the catalog, like a drop.

    Raises PrivilegesMissingError if the account may not read the table, whether it exists or not.
    """
    try:
        query(connection, f"SELECT 1 FROM {quote(database, table)} LIMIT 0")
    except PrivilegesMissingError:
        raise
    except (SchemaChangedError, PreflightError):  # no such table, no such database
        return


def is_hidden(connection: Connection, database: str, table: str) -> bool:
    """Whether the account may not read a table."""
    try:
        check_not_hidden(connection, database, table)
    except PrivilegesMissingError:
        return True
    return False


def uncaptured(connection: Connection, globs: Sequence[str]) -> dict[str, str]:
    """What the globs match but Tidemark does not capture: full name to kind (VIEW, SYSTEM VERSIONED, SEQUENCE)."""
    kinds = {(row["d"], row["t"]): row["kind"] for row in query(connection, _TABLES) if row["kind"] != _BASE_TABLE}
    return {f"{database}.{name}": kinds[database, name] for database, name in select_tables(globs, kinds)}


def uncaptured_kind(connection: Connection, database: str, name: str) -> str:
    """The kind of what has a name, such as SYSTEM VERSIONED, if it is not an ordinary table; "" if nothing has it."""
    kinds = (row["kind"] for row in query(connection, _TABLES) if (row["d"], row["t"]) == (database, name))
    return next((kind for kind in kinds if kind != _BASE_TABLE), "")


def made_since(connection: Connection, names: Sequence[tuple[str, str]], since_s: int) -> frozenset[tuple[str, str]]:
    """The tables that were created or rebuilt at this time or later, in Unix seconds, as far as the server shows it.

    It shows each CREATE and ALTER; MySQL shows no TRUNCATE.
    """
    rows = _by_table(connection, _CREATED, names)
    return frozenset(name for name in names for row in rows.get(name, ()) if (row["created"] or 0) >= since_s)


def captured_tables(
    connection: Connection, globs: Sequence[str], members: Membership = BY_GLOBS, *, null_dates: bool = False
) -> list[Table]:
    """The tables that globs and members select, with columns and key. Raises SpecError if there are none."""
    chosen = members.chosen(globs, list_tables(connection))
    if not chosen:
        raise SpecError(
            f"No table matches source.tables = {list(globs)}.",
            detail="Tidemark only sees tables that the user may SELECT from.",
            hint="Check the globs (database.table) and the user's grants.",
        )
    names = Counter(f"{database}.{table}" for database, table in chosen)
    if members.also:  # a running pipeline keeps what it has, whatever appears beside it
        chosen = [name for name in chosen if name in members.also or names[".".join(name)] == 1]
    elif len(names) < len(chosen):
        twice = sorted(name for name, count in names.items() if count > 1)
        raise SpecError(
            f"Two tables have the same full name: {', '.join(twice)} (their names contain dots).",
            detail="The ledger and the journal could not distinguish them. Nothing was started.",
            hint="Give each its own pipeline, with globs that match only one of them.",
        )
    return read_tables(connection, chosen, null_dates=null_dates)


def read_table(connection: Connection, database: str, table: str, *, null_dates: bool = False) -> Table:
    """One table, as `read_tables`."""
    return read_tables(connection, [(database, table)], null_dates=null_dates)[0]


def read_tables(connection: Connection, names: Sequence[tuple[str, str]], *, null_dates: bool = False) -> list[Table]:
    """The tables' columns, in the server's order, and their keys and indexes.

    Takes a fixed number of statements per database.

    null_dates: invalid dates become NULL, except in the key, which must identify rows.
    """
    columns, is_mariadb = _by_table(connection, _COLUMNS, names), "mariadb" in connection.get_server_info().lower()
    engine_rows = _by_table(connection, _ENGINE_OF, names)
    own_engines = {name: engine_rows[name][0]["engine"] if name in engine_rows else None for name in names}
    opened = [name for name, engine in own_engines.items() if not unfit_engine(engine)]
    (flag,) = [row["Field"] for row in query(connection, _INVISIBLE)] or [""]
    keys = _by_table(connection, _KEYS.replace("{usable}", _USABLE.get(flag, "TRUE")), opened, opens=True)
    engines = {row["engine"]: bool(row["transactional"]) for row in query(connection, _ENGINES)}
    reasons = _unfit(connection, own_engines, keys)
    hidden = missing_columns(
        connection, {name: columns[name] for name in names if name in columns and not reasons[name]}
    )
    tables = []
    for name, engine in own_engines.items():
        seen = {row["name"]: row for row in columns.get(name, ()) if "select" in str(row["privileges"]).lower()}
        whole = name not in hidden or all(part["col"] in seen for part in keys.get(name, ()))
        parts = keys.get(name, []) if whole else []
        identities = _identities(parts)
        identity = identities[0] if identities else None
        table = Table(
            *name,
            columns=with_wrong_images(map(_column, seen.values()), columns.get(name, ()) if is_mariadb else ()),
            key=identity.columns if identity else (),
            transactional=engine not in engines or engines[engine],
            unfit=f"{_HIDDEN}: {', '.join(hidden[name])}" if name in hidden else reasons[name],
            remedy=grant_of(connection, name) if name in hidden else "",
            indexes=_ranged(parts, identity),
            clustered=_clustered(parts, identities) if engine == "InnoDB" else (),
            generated=_generated([row["extra"] or "" for row in columns.get(name, ())]),
        )
        tables.append(table.with_null_dates(null_dates))
    return tables


def _unfit(
    connection: Connection, engines: Mapping[TableName, str | None], keys: Mapping[TableName, Sequence[dict[str, Any]]]
) -> dict[TableName, str]:
    """By table, why its rows or row images cannot be captured; empty texts for those that can."""
    merged = merge_parts(
        connection, [name for name, engine in engines.items() if engine and engine.casefold() == "myisam"]
    )
    reasons = {}
    for name, engine in engines.items():
        hashed = engine != "MEMORY" and any(part["kind"] == "HASH" for part in keys.get(name, ()))
        reasons[name] = unfit_engine(engine) or merged.get(name, "") or (_LONG_UNIQUE if hashed else "")
    return reasons


def _by_table(
    connection: Connection, statement: str, names: Sequence[TableName], *, opens: bool = False
) -> dict[TableName, list[dict[str, Any]]]:
    """The rows of a statement about tables, by (database, table).

    opens: the server opens each table for it. A table of FEDERATED or SPIDER whose remote server does not answer would
    fail the statement for its whole database.

    In information_schema, a server looks up one table by both names, and reads a database by the first. Given a list of
    names, MariaDB opens every table it has.
    """
    rows_by_table: dict[TableName, list[dict[str, Any]]] = {}
    conditions: list[tuple[str, tuple[str, ...]]]
    single = {name[0] for name in names}
    if len(names) > _ONE_BY_ONE:
        single = _with_remote_tables(connection, single) if opens else set()
    conditions = [("TABLE_SCHEMA = %s AND TABLE_NAME = %s", name) for name in names if name[0] in single]
    conditions += [
        ("TABLE_SCHEMA = %s", (database,)) for database in dict.fromkeys(d for d, _ in names) if database not in single
    ]
    for where, values in conditions:
        for row in query(connection, statement.replace("{where}", where), values):
            rows_by_table.setdefault((row["d"], row["t"]), []).append(row)
    return rows_by_table


def _with_remote_tables(connection: Connection, databases: Collection[str]) -> set[str]:
    """Those of the databases that have a table of an engine that keeps its rows elsewhere, captured or not."""
    rows = (
        query(connection, _ENGINE_OF.replace("{where}", "TABLE_SCHEMA = %s"), (database,)) for database in databases
    )
    return {row["d"] for rows_of_database in rows for row in rows_of_database if unfit_engine(row["engine"])}


def _labels(full_type: str) -> tuple[str, ...]:
    """The labels of an ENUM or SET from COLUMN_TYPE, where quotes are doubled and backslashes escape."""
    inside = full_type[full_type.index("(") : full_type.rindex(")")]
    return tuple(re.sub(r"\\(.)|''", _unescaped, label, flags=re.DOTALL) for label in _LABEL.findall(inside))


def _unescaped(escape: re.Match[str]) -> str:
    return {"n": "\n", "r": "\r", "0": "\0"}.get(escape[1], escape[1]) if escape[1] else "'"


def _generated(extras: Sequence[str]) -> str:
    """See `Table.generated`. MySQL also says DEFAULT_GENERATED, of a column whose default is an expression."""
    kinds = [kind for kind in ("stored", "virtual") if any(f"{kind.upper()} GENERATED" in extra for extra in extras)]
    return kinds[0] if kinds else ""


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
        collation=row["collation"],
        charset=None if row["charset"] == "binary" else "utf8mb3" if row["charset"] == "utf8" else row["charset"],
        labels=_labels(row["full_type"]) if row["type"] in ("enum", "set") else (),
    )


def _indexes(parts: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The parts of each index: the primary key first, then the unique ones."""
    indexes: dict[str, list[dict[str, Any]]] = {}
    for part in parts:
        indexes.setdefault(part["name"], []).append(part)
    return indexes


def _identities(parts: Iterable[dict[str, Any]]) -> list[Index]:
    """The indexes that identify a row, primary key first: unique ones on whole, non-nullable columns."""
    return [
        Index(name, tuple(part["col"] for part in index))
        for name, index in _indexes(parts).items()
        if all(p["is_unique"] and not (p["part"] or p["nullable"] or p["col"] is None) for p in index)
    ]


def _clustered(parts: Iterable[dict[str, Any]], identities: Sequence[Index]) -> tuple[str, ...]:
    """The key that InnoDB appends to the columns of every index.

    It is the primary key, else the first unique key without nullable columns in definition order. The catalog does not
    show that order, so the key is known only if there is one candidate (MySQL manual, "Clustered and Secondary
    Indexes").
    """
    primary = [part for part in parts if part["name"] == "PRIMARY"]
    is_certain = primary[0]["part"] is None if primary else len(identities) == 1
    return identities[0].columns if is_certain and identities else ()


def _ranged(parts: Iterable[dict[str, Any]], identity: Index | None) -> tuple[Index, ...]:
    """The indexes that support range reads, the identity's index first.

    Each up to its first partial column or change of direction.
    """
    indexes = []
    for name, index in _indexes(parts).items():
        descending = bool(index[0]["descending"])
        whole = []
        for part in index:
            if part["col"] is None or part["part"] or bool(part["descending"]) != descending:
                break
            whole.append(part)
        if whole and index[0]["kind"] == "BTREE" and index[0]["usable"]:
            indexes.append(Index(name, tuple(part["col"] for part in whole), descending))
    return tuple(sorted(indexes, key=lambda index: identity is None or index.name != identity.name))


def statistics(connection: Connection, tables: Sequence[Table]) -> dict[str, Statistics]:
    """The server's estimates by full name; cheap, and as old as its statistics."""
    names = [(table.database, table.name) for table in tables if not table.unfit]
    rows = _by_table(connection, _STATISTICS, names, opens=True)
    return {
        f"{name[0]}.{name[1]}": Statistics(
            int(row["n"] or 0), int(row["length"] or 0), int(row["bytes"] or 0), row["engine"] or ""
        )
        for name in names
        for row in rows.get(name, ())
    }

"""A DuckDB file as destination. Types: docs/databases.md.

One process at a time may have the file open, so sessions end with each transaction: between two epochs, others can
read.
Tables are made without a key: DuckDB would refuse to delete a key and insert it again in one transaction.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.decode.schema import Column
from engine.decode.types import value_type
from engine.destination.database.sql_literals import hexadecimal, plain, quoted
from engine.destination.database.sql_server import (
    STATE_TABLES,
    DatabaseSession,
    NoMarks,
    SessionLocks,
    StoredColumn,
    TableMarks,
    TablePlace,
    TableReads,
    in_double_quotes,
    qualified,
    refused,
    text,
)
from engine.spec.database_settings import DatabaseSettings

_BATCH_ROWS = 65_536
_ROWS = "tidemark_rows"
"""The name of the rows of a statement."""
_FOR_NOW = (duckdb.IOException, duckdb.TransactionException, duckdb.ConnectionException, duckdb.OutOfMemoryException)
_TYPES: dict[Any, str] = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.binary(): "blob",
}


class NoLocks:
    """None is needed: one process has the file."""

    def hold(self, session: DatabaseSession, pipeline: str, wait_s: int | None = None) -> None:
        """One process has the file."""

    def end_holder(self, session: DatabaseSession, pipeline: str) -> None:
        """A process that has the file open keeps others out until it closes it."""


class _DuckdbSession:
    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self._is_open = False

    def _begin(self) -> None:
        if not self._is_open:
            self.connection.execute("BEGIN")
            self._is_open = True

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        self._begin()
        return self.connection.execute(statement).fetchall()

    def run(self, statement: str) -> None:
        self._begin()
        self.connection.execute(statement)

    def run_with(self, rows: pa.Table, statement: str) -> int:
        """Run a statement that reads rows by `_ROWS`. Returns how many rows it changed."""
        self._begin()
        self.connection.register(_ROWS, rows)
        try:
            changed = self.connection.execute(statement).fetchone()
        finally:
            with suppress(duckdb.Error):  # after an error, that would be the one to be raised
                self.connection.unregister(_ROWS)
        return int(changed[0]) if changed else 0

    def read(self, statement: str) -> pa.RecordBatchReader:
        """The rows of a statement."""
        self._begin()
        return self.connection.sql(statement).to_arrow_reader(_BATCH_ROWS)

    def commit(self) -> None:
        if self._is_open:
            self._is_open = False
            self.connection.execute("COMMIT")

    def rollback(self) -> None:
        if self._is_open:
            self._is_open = False
            self.connection.execute("ROLLBACK")

    def close(self) -> None:
        self._is_open = False
        self.connection.close()


class DuckdbReads:
    """Rows as Arrow (`sql_server.TableReads`). While a version is read, no other process can open the file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def require_there(self) -> None:
        """The file: opening it would create another one."""
        if not self._file.is_file():
            raise StoreAwayError(f"There is no database file {self._file} here.")

    def begin(self, session: DatabaseSession) -> None:
        """The first statement begins it."""

    def literals(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Numbers as they are, others quoted."""
        if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
            return pc.binary_join_element_wise("from_hex('", hexadecimal(values), "')", "")
        if pa.types.is_floating(values.type):
            return pc.binary_join_element_wise("CAST(", quoted(plain(values)), " AS DOUBLE)", "")
        return plain(values) if pa.types.is_integer(values.type) else quoted(plain(values))

    def rows(
        self,
        session: DatabaseSession,
        place: TablePlace,
        columns: Sequence[StoredColumn],
        lists: Collection[str],
        where: str,
    ) -> Iterator[pa.Table]:
        """In the types of the file."""
        assert isinstance(session, _DuckdbSession)
        listed = ", ".join(in_double_quotes(column.name) for column in columns)
        table = f"{in_double_quotes(place.schema)}.{in_double_quotes(place.name)}"
        for batch in session.read(f"SELECT {listed} FROM {table} WHERE {where}"):
            yield pa.Table.from_batches([batch]).rename_columns([column.name for column in columns])

    def stored_bytes(self, session: DatabaseSession, place: TablePlace) -> int:
        """The file does not say."""
        return 0


class DuckdbServer:
    """One file (`sql_server.SqlServer`)."""

    longest_name = 200
    commits_definitions = False
    has_floats = True
    rewrites_json = False
    ignores_case = True
    step_end = ""
    has_savepoints = False
    has_keys = False
    row_lock = ""
    shares = False
    state_schema = "main"
    failures: tuple[type[Exception], ...] = (duckdb.Error,)

    def __init__(self, settings: DatabaseSettings) -> None:
        assert settings.file is not None, "the spec requires it"
        self._file = settings.file
        self.marks: TableMarks = NoMarks()
        self.locks: SessionLocks = NoLocks()
        self.reads: TableReads = DuckdbReads(self._file)
        self.place = settings.place("duckdb")

    def connect(self) -> DatabaseSession:
        """Open the file. Raises the library's errors."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        connection = duckdb.connect(str(self._file))
        connection.execute("SET TimeZone = 'UTC'")
        return _DuckdbSession(connection)

    def explained(self, error: Exception) -> Exception:
        """What an error of the library means."""
        said = str(error).strip().partition("\n")[0]
        if "Permission denied" in said:
            return StoreAccessError(f"The file cannot be opened: {said}")
        if isinstance(error, _FOR_NOW):
            return StoreAwayError(f"The database file cannot be used for now: {self._file}: {said}")
        return refused("DuckDB", said)

    def quoted(self, name: str) -> str:
        """A name in a statement."""
        return in_double_quotes(name)

    def column(self, column: Column, *, in_key: bool) -> StoredColumn:
        """The type of a column."""
        return StoredColumn(column.name, _type(column), in_key)

    def declaration(self, column: StoredColumn) -> str:
        """A column in a CREATE or an ALTER."""
        return f"{self.quoted(column.name)} {column.type}"

    def create_state(self, session: DatabaseSession) -> None:
        """Create Tidemark's own tables, if they are not there."""
        epochs, tables = (qualified(self, TablePlace(self.state_schema, name)) for name in STATE_TABLES)
        session.run(
            f"CREATE TABLE IF NOT EXISTS {epochs} (pipeline varchar, term bigint, epoch bigint, position varchar, "
            "runner varchar)"
        )
        session.run(
            f"CREATE TABLE IF NOT EXISTS {tables} (pipeline varchar, table_name varchar, count_name varchar, record "
            "varchar)"
        )

    def columns_of(self, session: DatabaseSession, place: TablePlace) -> list[str]:
        """The names of a table's columns; none if it is not there."""
        return [
            name
            for (name,) in session.query(
                "SELECT column_name FROM duckdb_columns() WHERE database_name = current_database() AND schema_name = "
                f"{text(place.schema)} AND table_name = {text(place.name)} ORDER BY column_index"
            )
        ]

    def has_schema(self, session: DatabaseSession, schema: str) -> bool:
        """Whether there is a schema."""
        own = "database_name = current_database()"
        return bool(session.query(f"SELECT 1 FROM duckdb_schemas() WHERE {own} AND schema_name = {text(schema)}"))

    def create_schema(self, session: DatabaseSession, schema: str) -> None:
        """Create one."""
        session.run(f"CREATE SCHEMA IF NOT EXISTS {self.quoted(schema)}")

    def widen(self, session: DatabaseSession, place: TablePlace, column: StoredColumn) -> None:
        """Give a column a wider type."""
        session.run(f"ALTER TABLE {qualified(self, place)} ALTER COLUMN {self.quoted(column.name)} TYPE {column.type}")

    def load(self, session: DatabaseSession, place: TablePlace, columns: Sequence[Column], rows: pa.Table) -> bool:
        """Without a key, nothing says whether a row is there."""
        return False

    def upsert(
        self,
        session: DatabaseSession,
        place: TablePlace,
        key: Sequence[str],
        columns: Sequence[Column],
        rows: pa.Table,
    ) -> None:
        """Insert rows; those whose key is there are updated."""
        assert isinstance(session, _DuckdbSession)
        names = [column.name for column in columns]
        table, own = qualified(self, place), rows.select(names)
        if session.run_with(own, _merge(table, _ROWS, key, names)) > rows.num_rows:  # somebody has doubled some
            session.run_with(own, _without_doubles(table, key, _ROWS))

    def delete(self, session: DatabaseSession, place: TablePlace, key: Sequence[Column], rows: pa.Table) -> None:
        """Delete the rows that have the keys of these rows."""
        assert isinstance(session, _DuckdbSession)
        names = [self.quoted(one.name) for one in key]
        same = " AND ".join(f"t.{name} IS NOT DISTINCT FROM r.{name}" for name in names)
        session.run_with(rows, f"DELETE FROM {qualified(self, place)} t USING {_ROWS} r WHERE {same}")

    def replace(
        self,
        session: DatabaseSession,
        place: TablePlace,
        copy: TablePlace,
        key: Sequence[str],
        columns: Sequence[StoredColumn],
    ) -> None:
        """Make the rows of a table those of its copy."""
        table, other = qualified(self, place), qualified(self, copy)
        same = " AND ".join(f"t.{self.quoted(name)} = c.{self.quoted(name)}" for name in key)
        session.run(f"DELETE FROM {table} t WHERE NOT EXISTS (SELECT 1 FROM {other} c WHERE {same})")
        session.run(_without_doubles(table, key, other))
        session.run(_merge(table, other, key, [column.name for column in columns], only_different=True))

    def swap(self, session: DatabaseSession, place: TablePlace, copy: TablePlace, old_name: str) -> None:
        """Give the copy the name of the table, which gets another one."""
        session.run(f"ALTER TABLE {qualified(self, place)} RENAME TO {self.quoted(old_name)}")
        session.run(f"ALTER TABLE {qualified(self, copy)} RENAME TO {self.quoted(place.name)}")

    def require_own_index(self, session: DatabaseSession, place: TablePlace, key: Sequence[str]) -> None:
        """A statement names the key, so an index of somebody else replaces nothing."""


def _without_doubles(table: str, key: Sequence[str], source: str) -> str:
    """The statement that leaves one row of each key of a source: there is no index that prevents more."""
    names = ", ".join(map(in_double_quotes, key))
    return (
        f"DELETE FROM {table} WHERE ({names}) IN (SELECT ({names}) FROM {source}) AND rowid NOT IN "
        f"(SELECT min(rowid) FROM {table} GROUP BY {names})"
    )


def _merge(table: str, source: str, key: Sequence[str], names: Sequence[str], *, only_different: bool = False) -> str:
    """The statement that inserts rows of a source, and updates those whose key is there."""
    quoted = [in_double_quotes(name) for name in names]
    values = [in_double_quotes(name) for name in names if name not in key]
    same = " AND ".join(f"t.{in_double_quotes(name)} = r.{in_double_quotes(name)}" for name in key)
    differs = " OR ".join(f"t.{name} IS DISTINCT FROM r.{name}" for name in values)
    condition = f" AND ({differs})" if only_different else ""
    update = f" WHEN MATCHED{condition} THEN UPDATE SET {', '.join(f'{name} = r.{name}' for name in values)}"
    return (
        f"MERGE INTO {table} t USING {source} r ON {same}{update if values else ''} WHEN NOT MATCHED THEN INSERT "
        f"({', '.join(quoted)}) VALUES ({', '.join(f'r.{name}' for name in quoted)})"
    )


def _type(column: Column) -> str:
    arrow = value_type(column).arrow(column)
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_timestamp(arrow):
        return "timestamptz" if arrow.tz else "timestamp"
    return "float[]" if pa.types.is_list(arrow) else _TYPES.get(arrow, "varchar")

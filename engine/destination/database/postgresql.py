"""PostgreSQL. Types: docs/databases.md."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from engine.base.errors import DestinationError
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.decode.schema import Column
from engine.decode.types import value_type
from engine.destination.database.postgresql_reads import PostgresReads
from engine.destination.database.sql_literals import batches_of, hexadecimal, lines, number_lists, plain, quoted
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

_CONNECT_S = 10
_NAME = "tidemark"
_TLS = {"off": "disable", "preferred": "prefer", "required": "require", "verify": "verify-full"}
_REFUSED = ("28", "42501")
"""SQLSTATEs, or how they begin: the login is refused, or a permission is missing."""
_FOR_NOW = ("08", "40", "53", "55P03", "55006", "57P", "25006", "25P03", "58")
"""The same for what another attempt may do: lost connections, deadlocks, no room, locks, a standby, a shutdown."""
_TYPES: dict[Any, str] = {
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.date32(): "date",
    pa.binary(): "bytea",
}


class AdvisoryLocks:
    """Named locks by advisory locks."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self._settings = settings

    def hold(self, session: DatabaseSession, pipeline: str, wait_s: int | None = None) -> None:
        """By an advisory lock."""
        usual_s = self._settings.lock_wait_s
        for seconds, statement in (
            (usual_s if wait_s is None else wait_s, f"SELECT pg_advisory_lock({_number(pipeline):d})"),
            (usual_s, "SELECT 1"),
        ):
            session.run(f"SET lock_timeout = '{seconds}s'")
            session.query(statement)
        session.commit()

    def end_holder(self, session: DatabaseSession, pipeline: str) -> None:
        """By the lock's process."""
        number = _number(pipeline) & (1 << 64) - 1
        session.query(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 "
            f"AND classid = {number >> 32}::oid AND objid = {number & 0xFFFFFFFF}::oid AND pid <> pg_backend_pid() AND "
            "database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """Ends with its last user: a destination of a command is never closed."""

    def __del__(self, _: object = None) -> None:
        self.close()


class _PostgresSession:
    def __init__(self, connection: _Connection) -> None:
        self.connection = connection

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement.encode()).fetchall()

    def run(self, statement: str) -> None:
        self.connection.execute(statement.encode())

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    def close(self) -> None:
        self.connection.close()


class PostgresServer:
    """One PostgreSQL, as a user (`sql_server.SqlServer`)."""

    longest_name = 63
    commits_definitions = False
    has_floats = True
    rewrites_json = False
    ignores_case = False
    step_end = "SET CONSTRAINTS ALL IMMEDIATE"
    has_savepoints = True
    has_keys = True
    row_lock = " FOR UPDATE"
    shares = True
    failures: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(self, settings: DatabaseSettings) -> None:
        self._settings = settings
        self.marks: TableMarks = NoMarks()
        self.locks: SessionLocks = AdvisoryLocks(settings)
        self.reads: TableReads = PostgresReads(_copied)
        self.place = settings.place("postgresql")
        self.state_schema = settings.state_schema

    def connect(self) -> DatabaseSession:
        """Open a session. Raises the driver's errors, SpecError."""
        own = self._settings
        connection = _Connection.connect(
            host=own.host,
            port=own.port_of("postgresql"),
            dbname=own.database,
            user=own.user,
            password=own.password(),
            sslmode=_TLS[own.tls],
            sslrootcert=None if own.tls != "verify" else str(own.ca or "system"),
            connect_timeout=_CONNECT_S,
            application_name=_NAME,
            client_encoding="utf8",
            keepalives_idle=30,
            keepalives_interval=10,
            keepalives_count=3,
            tcp_user_timeout=60_000,
            prepare_threshold=None,
        )
        session = _PostgresSession(connection)
        session.run(
            f"SELECT set_config('lock_timeout', '{own.lock_wait_s}s', false), set_config('synchronous_commit', "
            "CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' WHEN 'local' THEN 'on' ELSE "
            "current_setting('synchronous_commit') END, false), "
            "set_config('standard_conforming_strings', 'on', false), set_config('timezone', 'UTC', false), "
            "set_config('idle_in_transaction_session_timeout', '15min', false), "
            "set_config('statement_timeout', '0', false)"
        )
        session.commit()
        return session

    def explained(self, error: Exception) -> Exception:
        """What a driver's error means."""
        state = getattr(error, "sqlstate", None) or ""
        said = str(error).strip().partition("\n")[0]
        lowered = said.lower()
        is_refused = "password authentication failed" in lowered or "no pg_hba.conf entry" in lowered
        if state.startswith(_REFUSED) or is_refused:
            return StoreAccessError(f"The database refuses the user: {self.place}: {said}")
        if not state or state.startswith(_FOR_NOW):
            return StoreAwayError(f"The database does not answer, or refuses for now: {self.place}: {said}")
        return refused("PostgreSQL", f"{said} (SQLSTATE {state})")

    def quoted(self, name: str) -> str:
        """A name in a statement."""
        return in_double_quotes(name)

    def column(self, column: Column, *, in_key: bool) -> StoredColumn:
        """The type of a column."""
        return StoredColumn(column.name, _type(column), in_key)

    def declaration(self, column: StoredColumn) -> str:
        """A column in a CREATE or an ALTER."""
        return f"{self.quoted(column.name)} {column.type} {'NOT NULL' if column.in_key else 'NULL'}"

    def create_state(self, session: DatabaseSession) -> None:
        """Create Tidemark's own tables, if they are not there."""
        epochs, tables = (qualified(self, TablePlace(self.state_schema, name)) for name in STATE_TABLES)
        if self.columns_of(session, TablePlace(self.state_schema, STATE_TABLES[1])):
            return
        if not self.has_schema(session, self.state_schema):
            self.create_schema(session, self.state_schema)
        session.run(
            f"CREATE TABLE IF NOT EXISTS {epochs} (pipeline text PRIMARY KEY, term bigint NOT NULL, epoch bigint, "
            "position text, runner text NOT NULL)"
        )
        session.run(
            f"CREATE TABLE IF NOT EXISTS {tables} (pipeline text, table_name text, count_name text, record text NOT "
            "NULL, PRIMARY KEY (pipeline, table_name, count_name))"
        )

    def columns_of(self, session: DatabaseSession, place: TablePlace) -> list[str]:
        """The names of a table's columns; none if it is not there."""
        return [
            name
            for (name,) in session.query(
                "SELECT attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid "
                f"= c.relnamespace WHERE n.nspname = {text(place.schema)} AND c.relname = {text(place.name)} AND "
                "attnum > 0 AND NOT attisdropped AND relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY attnum"
            )
        ]

    def has_schema(self, session: DatabaseSession, schema: str) -> bool:
        """Whether there is a schema."""
        return bool(session.query(f"SELECT 1 FROM pg_namespace WHERE nspname = {text(schema)}"))

    def create_schema(self, session: DatabaseSession, schema: str) -> None:
        """Create one."""
        session.run(f"CREATE SCHEMA IF NOT EXISTS {self.quoted(schema)}")

    def widen(self, session: DatabaseSession, place: TablePlace, column: StoredColumn) -> None:
        """Give a column a wider type."""
        name = self.quoted(column.name)
        session.run(
            f"ALTER TABLE {qualified(self, place)} ALTER COLUMN {name} TYPE {column.type} USING {name}::{column.type}"
        )

    def load(self, session: DatabaseSession, place: TablePlace, columns: Sequence[Column], rows: pa.Table) -> bool:
        """COPY rows."""
        assert isinstance(session, _PostgresSession)
        fields = [_field(rows[column.name], column.name, '"') for column in columns]
        names = ", ".join(self.quoted(column.name) for column in columns)
        session.run("SAVEPOINT tidemark_load")
        try:
            with session.connection.cursor().copy(
                f"COPY {qualified(self, place)} ({names}) FROM STDIN (FORMAT csv)".encode()
            ) as copy:
                for batch in batches_of(lines(fields, ""), "\n"):
                    copy.write(f"{batch}\n".encode())
        except psycopg.errors.UniqueViolation:
            session.run("ROLLBACK TO SAVEPOINT tidemark_load")
            return False
        session.run("RELEASE SAVEPOINT tidemark_load")
        return True

    def upsert(
        self, session: DatabaseSession, place: TablePlace, key: Sequence[str], columns: Sequence[Column], rows: pa.Table
    ) -> None:
        """Insert rows; those whose key is there are updated."""
        literals = lines([_field(rows[column.name], column.name, "'") for column in columns], "NULL", "(", ")")
        names = [self.quoted(column.name) for column in columns]
        own = [self.quoted(name) for name in key]
        changes = ", ".join(f"{name} = EXCLUDED.{name}" for name in names if name not in own)
        then = f"UPDATE SET {changes}" if changes else "NOTHING"
        begin = f"INSERT INTO {qualified(self, place)} ({', '.join(names)}) VALUES "
        for batch in batches_of(literals, ","):
            session.run(f"{begin}{batch} ON CONFLICT ({', '.join(own)}) DO {then}")

    def delete(self, session: DatabaseSession, place: TablePlace, key: Sequence[Column], rows: pa.Table) -> None:
        """Delete the rows that have the keys of these rows."""
        typed = [
            pc.binary_join_element_wise(_field(rows[column.name], column.name, "'"), f"::{_type(column)}", "")
            for column in key
        ]
        names = [self.quoted(column.name) for column in key]
        gone = ", ".join(f"k{n}" for n in range(len(key)))
        same = " AND ".join(f"t.{name} = d.k{n}" for n, name in enumerate(names))
        for batch in batches_of(lines(typed, "NULL", "(", ")"), ","):
            session.run(f"DELETE FROM {qualified(self, place)} t USING (VALUES {batch}) d({gone}) WHERE {same}")

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
        names, own = [self.quoted(column.name) for column in columns], [self.quoted(name) for name in key]
        session.run(f"ANALYZE {other}")
        same = " AND ".join(f"t.{name} = c.{name}" for name in own)
        session.run(f"DELETE FROM {table} t WHERE NOT EXISTS (SELECT 1 FROM {other} c WHERE {same})")
        values = [column for column in columns if column.name not in key]
        changes = ", ".join(f"{self.quoted(one.name)} = EXCLUDED.{self.quoted(one.name)}" for one in values)
        differs = " OR ".join(
            f"t.{name}{cast} IS DISTINCT FROM EXCLUDED.{name}{cast}"
            for name, cast in ((self.quoted(one.name), "::text" if one.type == "json" else "") for one in values)
        )
        then = f"UPDATE SET {changes} WHERE {differs}" if values else "NOTHING"
        listed = ", ".join(names)
        session.run(
            f"INSERT INTO {table} AS t ({listed}) SELECT {listed} FROM {other} ON CONFLICT ({', '.join(own)}) DO {then}"
        )

    def swap(self, session: DatabaseSession, place: TablePlace, copy: TablePlace, old_name: str) -> None:
        """Give the copy the name of the table, which gets another one."""
        session.run(f"ALTER TABLE {qualified(self, place)} RENAME TO {self.quoted(old_name)}")
        session.run(f"ALTER TABLE {qualified(self, copy)} RENAME TO {self.quoted(place.name)}")

    def require_own_index(self, session: DatabaseSession, place: TablePlace, key: Sequence[str]) -> None:
        """ON CONFLICT names the key, so another unique index is an error and replaces nothing."""


def _copied(session: DatabaseSession, statement: str) -> Iterator[bytes]:
    assert isinstance(session, _PostgresSession)
    with session.connection.cursor().copy(statement.encode()) as copy:
        for line in copy:
            yield bytes(line)


def _number(pipeline: str) -> int:
    """The number of a pipeline's lock: 64 bits with a sign."""
    return int.from_bytes(hashlib.sha256(f"tidemark {pipeline}".encode()).digest()[:8], "big", signed=True)


def _type(column: Column) -> str:
    arrow = value_type(column).arrow(column)
    if column.type == "json":
        return "json"
    if column.type == "decimal":
        return f"numeric({column.precision},{column.scale})"
    if pa.types.is_decimal(arrow):
        return f"numeric({arrow.precision},{arrow.scale})"
    if pa.types.is_timestamp(arrow):
        return "timestamp with time zone" if arrow.tz else "timestamp"
    return "real[]" if pa.types.is_list(arrow) else _TYPES.get(arrow, "text")


def _field(values: pa.ChunkedArray, name: str, mark: str) -> pa.ChunkedArray:
    """Values as literals, or as fields of a COPY, by the mark."""
    kind = values.type
    if pa.types.is_integer(kind):
        return plain(values)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pc.binary_join_element_wise(f"{mark}\\x", hexadecimal(values), mark, "")
    if pa.types.is_list(kind):
        return quoted(number_lists(values, "{", "}"), mark)
    texts = plain(values)
    if pa.types.is_string(kind) and pc.any(pc.match_substring(texts, "\0")).as_py():
        raise DestinationError(
            f"Column {name!r} has a text with a zero byte, which PostgreSQL cannot hold.",
            detail="Nothing of this epoch was written to the table; the others continue.",
            hint="Exclude the column by `exclude` in the section of the table in the spec (tables.…), or make it a "
            "VARBINARY or BLOB on the source.",
        )
    return quoted(texts, mark)

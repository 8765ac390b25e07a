"""MySQL and MariaDB as destinations. Types: docs/databases.md."""

import hashlib
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from engine.base.errors import DestinationError
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.decode.schema import Column
from engine.decode.types import value_type
from engine.destination.database.mysql_reads import MysqlReads
from engine.destination.database.sql_literals import batches_of, hexadecimal, lines, number_lists, plain, quoted
from engine.destination.database.sql_server import (
    BATCH_BYTES,
    STATE_TABLES,
    DatabaseSession,
    SessionLocks,
    StoredColumn,
    TableMarks,
    TablePlace,
    TableReads,
    qualified,
    refused,
    text,
)
from engine.spec.database_settings import DatabaseSettings

_CONNECT_S = 10
_DELETED = 500
"""Keys of a DELETE: the optimizer looks each of them up."""
_LONGEST_KEY = 768
"""Characters of a key's text: an index of InnoDB has 3 072 bytes."""
_SHORT = 255
_LONGEST_COMMENT = 2000
_NO_TLS = 2026
_REFUSED = {1044, 1045, 1142, 1143, 1227, 1370, 1698, 1251, 3118, 3159}
_FOR_NOW = {
    *(3, 1021, 1028, 1040, 1053, 1077, 1079, 1114, 1152, 1158, 1159, 1160, 1161, 1180, 1184, 1203, 1205, 1213, 1290),
    *(1226, 1317, 1792, 1836, 1927, 2002, 2003, 2006, 2013, 2014, 2055, 3032, 3100, 3101, 3168),
}
"""Errors that another attempt may not meet: lost connections, deadlocks, locks, no room, a read-only server."""
_CHARACTER_BYTES = {
    **dict.fromkeys(("utf8mb4", "utf16", "utf16le", "utf32", "gb18030"), 4),
    **dict.fromkeys(("utf8mb3", "utf8", "ujis", "eucjpms"), 3),
    **dict.fromkeys(("ucs2", "gbk", "gb2312", "big5", "sjis", "cp932", "euckr"), 2),
}
_TYPES: dict[Any, str] = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "tinyint(1)",
    pa.float32(): "double",
    pa.float64(): "double",
    pa.date32(): "date",
}
_NAMED_ALIKE = ("year", "json")
_WITH_FRACTION = ("time", "datetime", "timestamp")


class GetLocks:
    """Named locks by GET_LOCK."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self._settings = settings

    def hold(self, session: DatabaseSession, pipeline: str, wait_s: int | None = None) -> None:
        """By GET_LOCK."""
        seconds = self._settings.lock_wait_s if wait_s is None else wait_s
        if session.query(f"SELECT GET_LOCK({_lock_name(pipeline)}, {seconds:d})")[0][0] != 1:
            raise StoreAwayError(f"Another session of this pipeline writes: {self._settings.place('mysql')}")

    def end_holder(self, session: DatabaseSession, pipeline: str) -> None:
        """By the lock's connection."""
        number = session.query(f"SELECT IS_USED_LOCK({_lock_name(pipeline)})")[0][0]
        if number is not None:
            with suppress(pymysql.Error):  # it has ended meanwhile
                session.run(f"KILL {int(number):d}")


class TableComments:
    """Marks of tables by their comments."""

    def table_end(self, mark: str) -> str:
        """The engine, whatever the default is, and a comment: a table is made before its record."""
        return f" ENGINE = InnoDB COMMENT = {text(mark[:_LONGEST_COMMENT])}"

    def is_on(self, session: DatabaseSession, place: TablePlace, mark: str) -> bool:
        """By the comment."""
        comments = session.query(
            f"SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = {text(place.schema)} AND "
            f"TABLE_NAME = {text(place.name)}"
        )
        return bool(comments) and comments[0][0] == mark[:_LONGEST_COMMENT]


class _MysqlSession:
    def __init__(self, connection: "pymysql.Connection[Any]") -> None:
        self.connection = connection
        self.most_bytes = 0
        """The longest statement that the server takes."""

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def run(self, statement: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    def close(self) -> None:
        with suppress(pymysql.Error, OSError):
            self.connection.close()

    def __del__(self) -> None:
        self.close()


class MysqlServer:
    """One MySQL or MariaDB, as a user (`sql_server.SqlServer`)."""

    longest_name = 64
    commits_definitions = True
    has_floats = False
    rewrites_json = True
    ignores_case = True
    step_end = ""
    has_savepoints = True
    has_keys = True
    row_lock = " FOR UPDATE"
    shares = True
    failures: tuple[type[Exception], ...] = (pymysql.Error, OSError)

    def __init__(self, settings: DatabaseSettings) -> None:
        self._settings = settings
        self.marks: TableMarks = TableComments()
        self.locks: SessionLocks = GetLocks(settings)
        self.reads: TableReads = MysqlReads()
        self.place = settings.place("mysql")
        self.state_schema = settings.database
        self._collation = ""

    def connect(self) -> DatabaseSession:
        """Open a session. Raises the driver's errors, SpecError."""
        own = self._settings
        options = {
            "host": own.host,
            "port": own.port_of("mysql"),
            "user": own.user,
            "password": own.password(),
            "database": own.database,
            "charset": "utf8mb4",
            "connect_timeout": _CONNECT_S,
            "autocommit": False,
        }
        connection = _logged_in(own, options)
        _watch(connection)
        session = _MysqlSession(connection)
        session.run(
            "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,NO_ENGINE_SUBSTITUTION', time_zone = "
            f"'+00:00', innodb_lock_wait_timeout = {own.lock_wait_s}, lock_wait_timeout = {own.lock_wait_s}"
        )
        session.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        session.run(f"SET SESSION sql_select_limit = {2**64 - 1}, net_write_timeout = 600, net_read_timeout = 600")
        version, session.most_bytes = session.query("SELECT VERSION(), @@max_allowed_packet")[0]
        is_mariadb = "MariaDB" in version
        session.run(f"SET SESSION {'max_statement_time' if is_mariadb else 'max_execution_time'} = 0")
        self._collation = "utf8mb4_nopad_bin" if is_mariadb else "utf8mb4_0900_bin"
        session.commit()
        return session

    def explained(self, error: Exception) -> Exception:
        """What a driver's error means."""
        if isinstance(error, StoreAwayError):
            return error
        number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        said = str(error.args[1]) if len(error.args) > 1 else str(error)
        if number in _REFUSED:
            return StoreAccessError(f"The database refuses the user: {self.place}: {said}")
        if number in _FOR_NOW or not number or isinstance(error, OSError):
            return StoreAwayError(f"The database does not answer, or refuses for now: {self.place}: {said}")
        return refused("The database", f"{said} (error {number})")

    def quoted(self, name: str) -> str:
        """A name in a statement."""
        return "`" + name.replace("`", "``") + "`"

    def column(self, column: Column, *, in_key: bool) -> StoredColumn:
        """The type of a column."""
        return StoredColumn(column.name, _type(column, in_key), in_key)

    def declaration(self, column: StoredColumn) -> str:
        """A column in a CREATE or an ALTER. Texts are compared byte by byte, as the source's keys may need it."""
        is_text = column.type.startswith(("varchar", "longtext"))
        collation = f" CHARACTER SET utf8mb4 COLLATE {self._collation}" if is_text else ""
        null = "NOT NULL" if column.in_key else "NULL"
        if column.in_key and column.type.startswith("timestamp"):
            null += " DEFAULT '2000-01-01 00:00:00'"  # without one, an old setting has each update change it
        return f"{self.quoted(column.name)} {column.type}{collation} {null}"

    def create_state(self, session: DatabaseSession) -> None:
        """Create Tidemark's own tables, if they are not there."""
        epochs, tables = (qualified(self, TablePlace(self.state_schema, name)) for name in STATE_TABLES)
        if self.columns_of(session, TablePlace(self.state_schema, STATE_TABLES[1])):
            return
        form = f"ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE {self._collation}"
        session.run(
            f"CREATE TABLE IF NOT EXISTS {epochs} (pipeline varchar(190) PRIMARY KEY, term bigint NOT NULL, epoch "
            f"bigint, position text, runner text NOT NULL) {form}"
        )
        session.run(
            f"CREATE TABLE IF NOT EXISTS {tables} (pipeline varchar(190), table_name varchar(190), count_name "
            f"varchar(190), record longtext NOT NULL, PRIMARY KEY (pipeline, table_name, count_name)) {form}"
        )

    def columns_of(self, session: DatabaseSession, place: TablePlace) -> list[str]:
        """The names of a table's columns; none if it is not there."""
        return [
            name
            for (name,) in session.query(
                f"SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {text(place.schema)} AND "
                f"TABLE_NAME = {text(place.name)} ORDER BY ORDINAL_POSITION"
            )
        ]

    def has_schema(self, session: DatabaseSession, schema: str) -> bool:
        """Whether there is a database."""
        return bool(session.query(f"SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = {text(schema)}"))

    def create_schema(self, session: DatabaseSession, schema: str) -> None:
        """Create a database."""
        session.run(f"CREATE DATABASE IF NOT EXISTS {self.quoted(schema)} CHARACTER SET utf8mb4")

    def widen(self, session: DatabaseSession, place: TablePlace, column: StoredColumn) -> None:
        """Give a column a wider type."""
        session.run(f"ALTER TABLE {qualified(self, place)} MODIFY COLUMN {self.declaration(column)}")

    def load(self, session: DatabaseSession, place: TablePlace, columns: Sequence[Column], rows: pa.Table) -> bool:
        """No quicker way than `upsert` works on each server: LOAD DATA LOCAL is off by default."""
        return False

    def upsert(
        self, session: DatabaseSession, place: TablePlace, key: Sequence[str], columns: Sequence[Column], rows: pa.Table
    ) -> None:
        """Insert rows; those whose key is there are updated."""
        literals = lines([_literals(rows[column.name], column) for column in columns], "NULL", "(", ")")
        names = [self.quoted(column.name) for column in columns]
        values = [self.quoted(column.name) for column in columns if column.name not in key] or names[:1]
        begin = f"INSERT INTO {qualified(self, place)} ({', '.join(names)}) VALUES "
        end = ", ".join(f"{name} = VALUES({name})" for name in values)
        for batch in batches_of(literals, ",", most_bytes=_room(session)):
            statement = f"{begin}{batch} ON DUPLICATE KEY UPDATE {end}"
            _require_room(session, place, statement)
            session.run(statement)

    def delete(self, session: DatabaseSession, place: TablePlace, key: Sequence[Column], rows: pa.Table) -> None:
        """Delete the rows that have the keys of these rows."""
        equal = [
            pc.binary_join_element_wise(f"{self.quoted(one.name)} = ", _literals(rows[one.name], one), "")
            for one in key
        ]
        conditions = equal[0] if len(equal) == 1 else pc.binary_join_element_wise(*equal, " AND ")
        for batch in batches_of(
            pc.binary_join_element_wise("(", conditions, ")", ""), " OR ", _DELETED, _room(session)
        ):
            session.run(f"DELETE FROM {qualified(self, place)} WHERE {batch}")

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
        missing = f"c.{self.quoted(key[0])} IS NULL"
        session.run(f"DELETE t FROM {table} t LEFT JOIN {other} c ON {same} WHERE {missing}")
        names = [self.quoted(column.name) for column in columns]
        values = [self.quoted(column.name) for column in columns if column.name not in key] or names[:1]
        listed, changes = ", ".join(names), ", ".join(f"{name} = VALUES({name})" for name in values)
        session.run(f"INSERT INTO {table} ({listed}) SELECT {listed} FROM {other} ON DUPLICATE KEY UPDATE {changes}")

    def swap(self, session: DatabaseSession, place: TablePlace, copy: TablePlace, old_name: str) -> None:
        """Give the copy the name of the table, which gets another one: both at once."""
        table, old = qualified(self, place), qualified(self, TablePlace(place.schema, old_name))
        session.run(f"RENAME TABLE {table} TO {old}, {qualified(self, copy)} TO {table}")

    def require_own_index(self, session: DatabaseSession, place: TablePlace, key: Sequence[str]) -> None:
        """ON DUPLICATE KEY UPDATE takes each unique index for the key, and would update another row.

        A table that was written in this transaction gets no index of others before the transaction ends.
        """
        indexes = dict[str, list[str]]()
        for index, column in session.query(
            "SELECT INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS WHERE NON_UNIQUE = 0 AND TABLE_SCHEMA = "
            f"{text(place.schema)} AND TABLE_NAME = {text(place.name)} ORDER BY INDEX_NAME, SEQ_IN_INDEX"
        ):
            indexes.setdefault(str(index), []).append(str(column))
        own = {name.casefold() for name in indexes.pop("PRIMARY", ())}
        if own != {name.casefold() for name in key}:
            raise DestinationError(
                f"{place} has another primary key than ({', '.join(key)}).",
                detail="An update could double a row; nothing of this epoch was written to it.",
                hint="Give it its primary key again. Then resnapshot the table: tidemark redump SPEC --table "
                "DATABASE.TABLE",
            )
        if indexes:
            names = ", ".join(sorted(indexes))
            raise DestinationError(
                f"{place} has a unique index besides its key: {names}.",
                detail="An update of one row could replace another one; nothing of this epoch was written to it.",
                hint=f"Make it an index that is not unique: DROP INDEX {names} ON {place}, then CREATE INDEX. Then "
                "resnapshot the table: tidemark redump SPEC --table DATABASE.TABLE",
            )


def _lock_name(pipeline: str) -> str:
    return text(f"tidemark {hashlib.sha256(pipeline.encode()).hexdigest()[:40]}")


def _room(session: DatabaseSession) -> int:
    """How long the rows of a statement may be."""
    assert isinstance(session, _MysqlSession)
    return min(BATCH_BYTES, session.most_bytes // 4)


def _require_room(session: DatabaseSession, place: TablePlace, statement: str) -> None:
    """Raises DestinationError for a row that the server would end the connection for."""
    assert isinstance(session, _MysqlSession)
    if len(statement) * 4 > session.most_bytes and len(statement.encode()) + 1024 > session.most_bytes:
        raise DestinationError(
            f"A row of {place} is a statement of {len(statement.encode()):,} bytes; max_allowed_packet of the server "
            f"is {session.most_bytes:,}.",
            detail="Nothing of this epoch was written to the table; the others continue.",
            hint="Raise max_allowed_packet on the destination's server, up to 1G, and restart the pipeline. Then "
            "resnapshot the table: tidemark redump SPEC --table DATABASE.TABLE",
        )


def _logged_in(own: DatabaseSettings, options: dict[str, Any]) -> "pymysql.Connection[Any]":
    if own.tls == "off":
        return pymysql.connect(**options, ssl_disabled=True)
    if own.tls == "verify":
        return pymysql.connect(**options, ssl=ssl.create_default_context(cafile=own.ca))
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        return pymysql.connect(**options, ssl=context)
    except pymysql.err.OperationalError as error:
        if own.tls == "required" or error.args[0] != _NO_TLS:
            raise
        return pymysql.connect(**options, ssl_disabled=True)


def _watch(connection: "pymysql.Connection[Any]") -> None:
    """Have the kernel notice within a minute that the server's host is gone."""
    sock: socket.socket | None = getattr(connection, "_sock", None)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000)):
        if sock is not None and hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _literals(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or column.type == "decimal":
        return plain(values)
    if pa.types.is_boolean(kind):
        return pc.if_else(values, "1", "0")
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pc.binary_join_element_wise("x'", hexadecimal(values), "'", "")
    if pa.types.is_list(kind):
        return quoted(number_lists(values, "[", "]"))
    if pa.types.is_timestamp(kind):
        return quoted(plain(values.cast(pa.timestamp("us"))))
    return quoted(plain(values))


def _type(column: Column, in_key: bool) -> str:
    arrow = value_type(column).arrow(column)
    if column.type in _WITH_FRACTION:
        return f"{column.type}({column.fraction})"
    if column.type == "decimal":
        return f"decimal({column.precision},{column.scale})"
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_binary(arrow):
        return f"varbinary({column.length})" if in_key and column.length else "longblob"
    named = column.type if column.type in _NAMED_ALIKE else _TYPES.get(arrow)
    return named or _text_type(column, in_key, is_list=pa.types.is_list(arrow))


def _text_type(column: Column, in_key: bool, *, is_list: bool) -> str:
    width = _CHARACTER_BYTES.get(column.charset or "", 1) if column.type in ("char", "varchar") else 1
    characters = column.length // width or (_SHORT if in_key else 0)
    is_short = 0 < characters <= (_LONGEST_KEY if in_key else _SHORT)
    return f"varchar({characters})" if is_short and not is_list else "longtext"

"""What the room asks of a kind of database. `postgresql` and `mysql` are the kinds."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from engine.base.errors import DestinationError
from engine.decode.schema import Column

BATCH_BYTES = 1 << 20
"""The length of a statement with many rows."""
STATE_TABLES = ("_tidemark_epochs", "_tidemark_tables")
"""Tidemark's own tables (`database_state`)."""


@dataclass(frozen=True)
class TablePlace:
    """Where a table is in a database."""

    schema: str
    """On MySQL and MariaDB, its database."""
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class StoredColumn:
    """A column in the database."""

    name: str
    type: str
    """As it was declared; of texts without the collation."""
    in_key: bool = False


class DatabaseSession(Protocol):
    """A connection, with a transaction that the first statement opens. Its errors are the driver's."""

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement."""

    def run(self, statement: str) -> None:
        """Run a statement."""

    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def close(self) -> None: ...


class SessionLocks(Protocol):
    """Named locks of sessions."""

    def hold(self, session: DatabaseSession, pipeline: str, wait_s: int | None = None) -> None:
        """Take the named lock of a pipeline, for as long as the session lives.

        Raises StoreAwayError, or the driver's errors, if another session has it. wait_s: by default `lock_wait_s`.
        """

    def end_holder(self, session: DatabaseSession, pipeline: str) -> None:
        """End the session that has the named lock of a pipeline, if there is one."""


class TableMarks(Protocol):
    """By which a table is known as ours where CREATE commits: a kill can come before its record is there."""

    def table_end(self, mark: str) -> str:
        """What a CREATE TABLE ends with."""

    def is_on(self, session: DatabaseSession, place: TablePlace, mark: str) -> bool:
        """Whether a table was made with this mark."""


class TableReads(Protocol):
    """How rows are read back. Raises the driver's errors, StoreAwayError, DestinationError."""

    def require_there(self) -> None:
        """Raises StoreAwayError if a login would create what it should read."""

    def begin(self, session: DatabaseSession) -> None:
        """Begin a transaction that sees what is committed now, and nothing later, and writes nothing."""

    def literals(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Values as they are written in a condition; none of them is NULL."""

    def rows(
        self,
        session: DatabaseSession,
        place: TablePlace,
        columns: Sequence[StoredColumn],
        lists: Collection[str],
        where: str,
    ) -> Iterator[pa.Table]:
        """Yield the rows that match a condition, in parts of bounded size, in types that hold all values.

        lists: columns that are lists of numbers, whatever the database has for them.
        """

    def stored_bytes(self, session: DatabaseSession, place: TablePlace) -> int:
        """The bytes of a table and its indexes; 0 if nobody knows."""


class NoMarks:
    """None is needed: a table and its record are made in one transaction."""

    def table_end(self, mark: str) -> str:
        """Nothing."""
        return ""

    def is_on(self, session: DatabaseSession, place: TablePlace, mark: str) -> bool:
        """Never."""
        return False


class SqlServer(Protocol):
    """A kind of database, at an address."""

    place: str
    """The URL of the destination, for messages."""
    state_schema: str
    """Where Tidemark's own tables are."""
    longest_name: int
    """How long a name may be, in bytes of UTF-8."""
    commits_definitions: bool
    """Whether CREATE, ALTER and DROP commit the transaction, as they do on MySQL and MariaDB."""
    step_end: str
    """The statement that ends a part of a transaction: it raises what the commit would; "" for none."""
    has_savepoints: bool
    """Whether a part of a transaction can be undone alone."""
    has_keys: bool
    """Whether tables are declared with a primary key."""
    row_lock: str
    """What a SELECT ends with that locks its rows until the transaction ends; "" where nobody else can write."""
    shares: bool
    """Whether others can read while a session is there. If not, sessions end with each transaction."""
    has_floats: bool
    """Whether it has floats of 32 bits. Where it has not, they are doubles with the same text."""
    rewrites_json: bool
    """Whether it keeps what a JSON value means, and not its text."""
    ignores_case: bool
    """Whether two columns may not differ by case alone."""
    failures: tuple[type[Exception], ...]
    """The driver's errors."""
    marks: TableMarks
    locks: SessionLocks
    """By which one session of a pipeline at a time writes."""
    reads: TableReads

    def connect(self) -> DatabaseSession:
        """Open a session. Raises the driver's errors, SpecError."""

    def explained(self, error: Exception) -> Exception:
        """What a driver's error means: StoreAwayError, StoreAccessError, or DestinationError."""

    def quoted(self, name: str) -> str:
        """A name in a statement."""

    def column(self, column: Column, *, in_key: bool) -> StoredColumn:
        """The type of a column."""

    def declaration(self, column: StoredColumn) -> str:
        """A column in a CREATE or an ALTER."""

    def create_state(self, session: DatabaseSession) -> None:
        """Create Tidemark's own tables, if they are not there."""

    def columns_of(self, session: DatabaseSession, place: TablePlace) -> list[str]:
        """The names of a table's columns; none if it is not there."""

    def has_schema(self, session: DatabaseSession, schema: str) -> bool:
        """Whether there is a schema, or a database on MySQL and MariaDB."""

    def create_schema(self, session: DatabaseSession, schema: str) -> None:
        """Create one."""

    def widen(self, session: DatabaseSession, place: TablePlace, column: StoredColumn) -> None:
        """Give a column a wider type."""

    def load(self, session: DatabaseSession, place: TablePlace, columns: Sequence[Column], rows: pa.Table) -> bool:
        """Insert rows quickly. False, with nothing inserted, if that cannot be done because some keys are there."""

    def upsert(
        self, session: DatabaseSession, place: TablePlace, key: Sequence[str], columns: Sequence[Column], rows: pa.Table
    ) -> None:
        """Insert rows; those whose key is there are updated. Columns that are not named keep their values."""

    def delete(self, session: DatabaseSession, place: TablePlace, key: Sequence[Column], rows: pa.Table) -> None:
        """Delete the rows that have the keys of these rows."""

    def replace(
        self,
        session: DatabaseSession,
        place: TablePlace,
        copy: TablePlace,
        key: Sequence[str],
        columns: Sequence[StoredColumn],
    ) -> None:
        """Make the rows of a table those of its copy. Rows that are equal are not written."""

    def swap(self, session: DatabaseSession, place: TablePlace, copy: TablePlace, old_name: str) -> None:
        """Give the copy the name of the table, which gets another one."""

    def require_own_index(self, session: DatabaseSession, place: TablePlace, key: Sequence[str]) -> None:
        """Raises DestinationError if the table's indexes could make a write replace another row, or double one."""


def folded(server: SqlServer, name: str) -> str:
    """A name as the server tells columns apart."""
    return name.casefold() if server.ignores_case else name


def lacking(server: SqlServer, columns: Sequence[StoredColumn], there: Sequence[str]) -> list[str]:
    """The names of columns that a table lacks. there: the names of those that it has."""
    names = {folded(server, name) for name in there}
    return [one.name for one in columns if folded(server, one.name) not in names]


def refused(product: str, why: str) -> DestinationError:
    """The error of a statement that the database refuses for good. why: its own words."""
    return DestinationError(
        f"{product} refuses a statement: {why}.",
        detail="Nothing of this epoch was written to the table; the others continue.",
        hint="Repair the cause in the database or on the source, or exclude the column (tables.… in the spec). Then "
        "resnapshot the table: tidemark redump SPEC --table DATABASE.TABLE",
    )


def qualified(server: SqlServer, place: TablePlace) -> str:
    """A table in a statement."""
    return f"{server.quoted(place.schema)}.{server.quoted(place.name)}"


def in_double_quotes(name: str) -> str:
    """A name as standard SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text in a statement."""
    return "'" + value.replace("'", "''") + "'"

"""Tidemark's own tables in a database. What they say is committed with the rows that it tells of.

    _tidemark_epochs   for each pipeline: the term of its newest runner, the last epoch, and where that ends
    _tidemark_tables   for each captured table: `TableRecord`, and for each count of epochs (`ledger.state.Owner`) its
                       `AppliedRecord`

A pipeline is named by its ledger, and a further sink by its name behind that.
"""

import json
import threading
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from engine.base import clock
from engine.destination.database.sql_server import (
    STATE_TABLES,
    DatabaseSession,
    SqlServer,
    StoredColumn,
    TablePlace,
    qualified,
    text,
)
from engine.destination.destination_protocol import CHANGES, CHUNKS
from engine.destination.fence import Term

RecordKey = tuple[str, str]
"""A table's full name, and the count of epochs; "" for its `TableRecord`."""


@dataclass(frozen=True)
class _TableJson:
    """A `TableRecord` as it is stored."""

    place: dict[str, str]
    columns: list[dict[str, Any]]
    copy: dict[str, str] | None
    copy_columns: list[dict[str, Any]]
    leftovers: list[dict[str, str]]
    adding: list[str]
    is_swapping: bool


@dataclass(frozen=True)
class TableRecord:
    """A table in the database."""

    place: TablePlace
    columns: tuple[StoredColumn, ...]
    copy: TablePlace | None = None
    """Where the rows of a resnapshot are, until it is complete."""
    copy_columns: tuple[StoredColumn, ...] = ()
    leftovers: tuple[TablePlace, ...] = ()
    """What a complete copy has left, to be dropped."""
    adding: tuple[str, ...] = ()
    """The names of columns that are being added: they may be there already, and are not those of others."""
    is_swapping: bool = False
    """Whether the copy is taking the table's place: it may have it already."""

    @property
    def target(self) -> TablePlace:
        """Where rows go."""
        return self.copy or self.place

    @property
    def target_columns(self) -> tuple[StoredColumn, ...]:
        """Its columns."""
        return self.copy_columns if self.copy else self.columns

    def with_target_columns(self, columns: tuple[StoredColumn, ...]) -> Self:
        """The record with other columns where rows go."""
        changes = {"copy_columns" if self.copy else "columns": columns}
        return replace(self, **changes, adding=())  # type: ignore[arg-type]

    @classmethod
    def from_json(cls, record: Any) -> Self:
        """The inverse of `asdict`."""
        raw = _TableJson(**record)
        columns, copied = (tuple(StoredColumn(**one) for one in some) for some in (raw.columns, raw.copy_columns))
        copy = None if raw.copy is None else TablePlace(**raw.copy)
        leftovers = tuple(TablePlace(**one) for one in raw.leftovers)
        return cls(TablePlace(**raw.place), columns, copy, copied, leftovers, tuple(raw.adding), raw.is_swapping)


@dataclass(frozen=True)
class AppliedRecord:
    """Which epochs of one count a table has."""

    chunks: int = -1
    changes: int = -1
    begun: int = -1
    """The epoch with which its newest copy began."""
    completed: int = -1
    """The epoch with which its newest copy was complete."""
    largest_seq: int = 0

    def epoch(self, kind: str) -> int:
        """The last one of a kind."""
        return self.chunks if kind == CHUNKS else self.changes

    def with_epoch(self, kind: str, epoch: int) -> Self:
        """With the epoch of a kind."""
        return replace(self, **{"chunks" if kind == CHUNKS else CHANGES: epoch})


@dataclass(frozen=True)
class CommittedRecords:
    """All records of a pipeline, as they were committed at some time."""

    tables: dict[str, TableRecord] = field(default_factory=dict)
    applied: dict[RecordKey, AppliedRecord] = field(default_factory=dict)
    term: Term | None = None
    """The newest one."""


class DatabaseState:
    """Reads and writes the records of one pipeline."""

    def __init__(self, server: SqlServer, pipeline: str) -> None:
        self.pipeline = pipeline
        self._server = server
        self._epochs, self._tables = (qualified(server, TablePlace(server.state_schema, name)) for name in STATE_TABLES)
        self._known: tuple[float, CommittedRecords] | None = None
        self._lock = threading.Lock()

    # within the transaction of the rows

    def table(self, session: DatabaseSession, name: str) -> TableRecord | None:
        """The record of a table, by its full name; None if the pipeline has none there."""
        record = self._read(session, (name, ""))
        return None if record is None else TableRecord.from_json(record)

    def applied(self, session: DatabaseSession, name: str, count: str) -> AppliedRecord:
        """Which epochs a table has. count: `Owner.application`."""
        return AppliedRecord(**(self._read(session, (name, count)) or {}))

    def _read(self, session: DatabaseSession, key: RecordKey) -> Any:
        rows = session.query(f"SELECT record FROM {self._tables} WHERE {self._where(key)}")
        return json.loads(rows[0][0]) if rows else None

    def write_table(self, session: DatabaseSession, name: str, record: TableRecord) -> None:
        """Write the record of a table."""
        self._write(session, (name, ""), asdict(record))

    def write_applied(self, session: DatabaseSession, name: str, count: str, record: AppliedRecord) -> None:
        """Write which epochs a table has."""
        self._write(session, (name, count), asdict(record))

    def _write(self, session: DatabaseSession, key: RecordKey, record: Any) -> None:
        value = text(json.dumps(record, separators=(",", ":")))
        if self._read(session, key) is not None:  # an update of a row leaves less to be cleaned up than another row
            session.run(f"UPDATE {self._tables} SET record = {value} WHERE {self._where(key)}")
            return
        names = ", ".join(text(name) for name in (self.pipeline, *key))
        session.run(f"INSERT INTO {self._tables} VALUES ({names}, {value})")

    def forget_table(self, session: DatabaseSession, name: str) -> None:
        """Delete all records of a table."""
        session.run(f"DELETE FROM {self._tables} WHERE pipeline = {text(self.pipeline)} AND table_name = {text(name)}")

    def forget_place(self, session: DatabaseSession, place: TablePlace) -> None:
        """Delete what other pipelines say of a place that is free: somebody has dropped their table."""
        rows = session.query(f"SELECT pipeline, table_name, record FROM {self._tables} WHERE count_name = ''")
        for pipeline, name, record in rows:
            if pipeline != self.pipeline and TableRecord.from_json(json.loads(record)).place == place:
                condition = f"pipeline = {text(pipeline)} AND table_name = {text(name)}"
                session.run(f"DELETE FROM {self._tables} WHERE {condition}")

    def _where(self, key: RecordKey) -> str:
        name, count = key
        return f"pipeline = {text(self.pipeline)} AND table_name = {text(name)} AND count_name = {text(count)}"

    def write_end(self, session: DatabaseSession, epoch: int, position: str) -> None:
        """Write the last epoch, and where it ends."""
        session.run(
            f"UPDATE {self._epochs} SET epoch = {epoch:d}, position = {text(position)} WHERE pipeline = "
            f"{text(self.pipeline)}"
        )

    # terms

    def term(self, session: DatabaseSession, *, locks: bool) -> Term | None:
        """The newest term. locks: nobody else writes it before a commit."""
        end = self._server.row_lock if locks else ""
        rows = session.query(f"SELECT runner FROM {self._epochs} WHERE pipeline = {text(self.pipeline)}{end}")
        return Term(**json.loads(rows[0][0])) if rows else None

    def write_term(self, session: DatabaseSession, term: Term, *, is_new: bool) -> None:
        """Write the newest term. is_new: whether the pipeline has none there."""
        runner, own = text(json.dumps(asdict(term))), text(self.pipeline)
        if is_new:
            values = f"({own}, {term.number:d}, {runner})"
            session.run(f"INSERT INTO {self._epochs} (pipeline, term, runner) VALUES {values}")
            return
        session.run(f"UPDATE {self._epochs} SET term = {term.number:d}, runner = {runner} WHERE pipeline = {own}")

    # what is committed

    def known(self, session: DatabaseSession, max_age_s: float) -> CommittedRecords:
        """All records. max_age_s: how old they may be: a thousand tables need not be read for a thousand times."""
        with self._lock:
            if self._known is not None and clock.monotonic_s() - self._known[0] < max_age_s:
                return self._known[1]
            records = self._all(session)
            self._known = clock.monotonic_s(), records
            return records

    def forget(self) -> None:
        """Read the records again when they are asked for."""
        with self._lock:
            self._known = None

    def has_tables(self, session: DatabaseSession) -> bool:
        """Whether Tidemark's own tables are there."""
        return bool(self._server.columns_of(session, TablePlace(self._server.state_schema, STATE_TABLES[1])))

    def _all(self, session: DatabaseSession) -> CommittedRecords:
        if not self.has_tables(session):
            return CommittedRecords()
        tables, applied = dict[str, TableRecord](), dict[RecordKey, AppliedRecord]()
        own = f"SELECT table_name, count_name, record FROM {self._tables} WHERE pipeline = {text(self.pipeline)}"
        for name, count, record in session.query(own):
            if count:
                applied[name, count] = AppliedRecord(**json.loads(record))
            else:
                tables[name] = TableRecord.from_json(json.loads(record))
        return CommittedRecords(tables, applied, self.term(session, locks=False))

"""Reads a table of a database back: for verification, redumps in parts, and sinks that join.

Each version is what one transaction sees (`table_version`), with the epochs that it has by Tidemark's own tables in
there. The records of the pipeline whose table is in this place count: no other has a table there.
"""

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from engine.base import clock
from engine.base.errors import DestinationError, TidemarkError
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.capture.landing import Commit, IncompleteMirrorError, NoMirror, OrderedChanges
from engine.decode.schema import Table
from engine.destination.database.database_state import AppliedRecord, TableRecord
from engine.destination.database.sql_server import (
    STATE_TABLES,
    DatabaseSession,
    SqlServer,
    TablePlace,
    lacking,
    qualified,
    text,
)
from engine.destination.database.table_names import place_of
from engine.destination.database.table_version import DatabaseVersion
from engine.destination.staged_landing import StagedLanding

_TRIES, _PAUSE_S = 20, 1.0
"""For a file that one process at a time has open."""


@dataclass(frozen=True)
class DatabaseReader:
    """Reads one table. Can be sent to readers: with the password of the login."""

    server: SqlServer
    rule: str
    """`sink.database.table`."""
    table: Table

    @property
    def place(self) -> str:
        """The server, and the table there."""
        return f"{self.server.place.rpartition('/')[0]}/{self._place}"

    @property
    def _place(self) -> TablePlace:
        return place_of(self.rule, self.table, self.server.state_schema, self.server.longest_name)

    @property
    def unreadable(self) -> tuple[type[Exception], ...]:
        """What the server's errors become; pa.ArrowInvalid: somebody's value does not fit the column of the source."""
        return DestinationError, StoreAwayError, StoreAccessError, pa.ArrowInvalid

    @property
    def rewritten_json(self) -> Collection[str]:
        """Those of a server that does not keep their texts."""
        return [one.name for one in self.table.columns if one.type == "json"] if self.server.rewrites_json else ()

    def mirror(self, as_of: datetime | None = None) -> DatabaseVersion | None:
        """What is committed now; None if no pipeline has made the table. Raises DestinationError for an earlier time.

        Raises IncompleteMirrorError while a new copy is written.
        """
        if as_of is not None:
            raise DestinationError(
                f"{self.place} has no earlier versions.", detail="Nothing was read.", hint="Read it without a time."
            )
        try:
            return self._newest(self._connected())
        except self.server.failures as error:
            raise self.server.explained(error) from error

    def _newest(self, session: DatabaseSession) -> DatabaseVersion | None:
        """The version, which ends the session some time; without one, the session ends now."""
        version = None
        try:
            version = self._version(session)
        finally:
            if version is None:
                session.close()
        return version

    def _connected(self) -> DatabaseSession:
        """A session; where one process at a time has a file open, it waits for its turn."""
        self.server.reads.require_there()
        for number in range(_TRIES):
            try:
                return self.server.connect()
            except self.server.failures as error:
                is_away = isinstance(self.server.explained(error), StoreAwayError)
                if self.server.shares or not is_away or number + 1 == _TRIES:
                    raise
                clock.sleep(_PAUSE_S)
        raise AssertionError

    def _version(self, session: DatabaseSession) -> DatabaseVersion | None:
        server, place = self.server, self._place
        epochs, tables = (TablePlace(server.state_schema, name) for name in STATE_TABLES)
        server.reads.begin(session)
        if not server.columns_of(session, tables):
            return None
        own = f"table_name = {text(self.table.full_name)}"
        rows = session.query(f"SELECT pipeline, count_name, record FROM {qualified(server, tables)} WHERE {own}")
        records = {pipeline: TableRecord.from_json(json.loads(one)) for pipeline, count, one in rows if not count}
        pipeline = next((name for name, record in records.items() if record.place == place), None)
        if pipeline is None:
            return None
        record = records[pipeline]
        if record.copy is not None:
            raise IncompleteMirrorError(
                f"A new copy of {place} in {server.place} is being written.",
                detail="Readers have its earlier rows.",
                hint="Wait until it is complete.",
            )
        there = server.columns_of(session, place)
        if missing := lacking(server, record.columns, there):
            fault = f"has lost its column {missing[0]}" if there else "is gone"
            raise DestinationError(f"The table {place} in {server.place} {fault}.")
        applied = {count: AppliedRecord(**json.loads(one)) for name, count, one in rows if count and name == pipeline}
        ends = session.query(f"SELECT epoch FROM {qualified(server, epochs)} WHERE pipeline = {text(pipeline)}")
        epoch = ends[0][0] if ends and ends[0][0] is not None else 0
        return DatabaseVersion(server, session, self.table, record, applied, int(epoch))

    def log(self, as_of: datetime | None = None) -> None:
        """There is none."""

    def ordered_changes(self) -> OrderedChanges:
        """There are none."""
        return NoMirror(self.place).ordered_changes()

    def defect(self) -> str:
        """Why the table cannot be read: it is gone, or the server does not answer."""
        with suppress(IncompleteMirrorError):
            try:
                version = self.mirror()
            except (TidemarkError, OSError) as error:
                return str(error).strip().rstrip(".")
            if version is None:
                return f"{self.place} was never made by this pipeline"
            version.release()
        return ""

    def log_defect(self) -> str:
        """There is no change log."""
        return ""

    def commits_after(self, version: int) -> Iterator[Commit]:
        """A database does not name those who write."""
        return iter(())


@dataclass(frozen=True)
class DatabaseTables:
    """The tables of a destination, to be read back. rule: `sink.database.table`."""

    server: SqlServer
    rule: str

    def reader(self, table: Table) -> DatabaseReader:
        """Reads a table back."""
        return DatabaseReader(self.server, self.rule, table)


@dataclass(frozen=True)
class DatabaseLanding(StagedLanding):
    """Where readers put files for a database that is the first destination; its tables are read back."""

    tables: DatabaseTables

    def reader(self, table: Table) -> DatabaseReader:
        """Reads a table back."""
        return self.tables.reader(table)

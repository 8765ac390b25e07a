"""One captured table in a database.

The first copy is written to the table itself. The rows of a resnapshot go to a table beside it, and so do the changes,
until the copy is complete; readers have the old rows until then. Then the rows that differ are written, in one
transaction, so that columns, indexes and grants of others survive. If the columns cannot be kept, because a type or the
key is another one, the copy takes the table's place.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from engine.base.errors import DestinationError
from engine.base.wording import shell_word
from engine.capture.files import DataFile, check_files
from engine.decode.schema import TM_SEQ, Table
from engine.destination.database.database_state import TableRecord
from engine.destination.database.net_changes import net_changes
from engine.destination.database.shared_tables import SharedTables
from engine.destination.database.sql_server import DatabaseSession
from engine.destination.database.table_checks import fault_of, require_key, require_place
from engine.destination.database.table_definitions import COPY, TableDefinitions
from engine.destination.database.table_names import place_of
from engine.destination.database.table_records import TableRecords
from engine.destination.destination_protocol import CHANGES, CHUNKS, CopyStart, OpenedTable, StoredState
from engine.destination.staged_rows import rows_of
from engine.journal.destination_events import SinkApplied
from engine.plan.chunks import Plan

_HAS_IT = -1
"""What a step returns that has nothing to do."""


class DatabaseTable:
    """Writes the rows of readers' files."""

    def __init__(self, shared: SharedTables, table: Table) -> None:
        self._shared = shared
        self._definitions = TableDefinitions(shared)
        self._records = TableRecords(shared, table.full_name)
        self.table = table
        server = shared.server
        rule = shared.settings.table
        self._place = place_of(rule, table, server.state_schema, server.longest_name)

    @property
    def mirror(self) -> None:
        """None: the publisher need not merge. What `append` gets are the rows themselves."""

    @property
    def place(self) -> str:
        """The server, and the table there."""
        return f"{self._shared.server.place.rpartition('/')[0]}/{self._place}"

    @property
    def is_there(self) -> bool:
        """Whether this pipeline has made it, and it is there."""
        return not fault_of(self._shared, self._records.committed(), self._place)

    def last_epoch(self, kind: str) -> int:
        """By the records in the database; without the lineage's floor."""
        return self._records.committed_epochs().epoch(kind)

    def read_state(self) -> StoredState:
        """By the records in the database, and whether the table is there."""
        term = self._shared.known().term
        numbers = frozenset({term.number} if term else ())
        fault = fault_of(self._shared, self._records.committed(), self._place)
        return StoredState(self._records.epochs(), numbers, fault)

    def check(self, before: Table | None, after: Table) -> None:
        """Whether the table has a key, and types that the database has. One that joins needs a place of its own."""
        require_key(after, joins=before is None)
        columns = self._definitions.declared(after)
        if before is None:
            require_place(self._shared, self.table, self._place, self._definitions.mark(self.table))
        record = self._records.committed()
        if before is not None and record is not None:
            self._definitions.united(after, record.target_columns, columns)

    def open(self, *, must_exist: bool, copied_as: Table | None = None) -> OpenedTable:
        """Create it if it is not there."""
        fault = fault_of(self._shared, self._records.committed(), self._place)
        if copied_as is not None:
            self.table = copied_as
            self._shared.transaction.accept_again(copied_as.full_name)
        elif must_exist and fault:
            raise DestinationError(
                f"The {fault}, but the ledger has published rows to it.",
                detail="Continuing would leave a table without those rows; nothing was written.",
                hint=f"Resnapshot the table: tidemark redump SPEC --table {shell_word(self.table.full_name)}",
            )
        require_key(self.table, joins=True)
        self._shared.terms.check()
        if fault:
            require_place(self._shared, self.table, self._place, self._definitions.mark(self.table))
            self._shared.transaction.define(self.table.full_name, self._made, is_durable=True)
            self._shared.state.forget()
        return OpenedTable(self._records.epochs(), is_new=bool(fault))

    def append(self, kind: str, epoch: int, files: Sequence[DataFile]) -> SinkApplied | None:
        """Write the rows of chunks, or of changes. They are there with `publish`."""
        shared, began_s = self._shared, time.monotonic()
        if not files:
            return None
        shared.terms.check()
        folder = shared.landing.chunks(self.table) if kind == CHUNKS else shared.landing.changes(self.table)
        check_files(folder, files)
        table = self.table

        def step(session: DatabaseSession) -> int:
            applied = self._records.read_epochs(session)
            if max(applied.epoch(kind), shared.owner.floor) >= epoch:
                return _HAS_IT
            record, count = self._records.read(session), 0
            try:
                for rows in rows_of(folder, files):
                    count += rows.num_rows
                    self._write_part(session, record, table, kind, rows)
            finally:  # before a commit nobody can add an index now; and an error of one says more than the server's
                shared.server.require_own_index(session, record.target, table.key)
            applied = applied.with_epoch(kind, epoch)
            if kind == CHANGES:
                largest = max(file.high.get(TM_SEQ, 0) for file in files)
                applied = replace(applied, largest_seq=max(applied.largest_seq, largest))
            self._records.write_epochs(session, applied)
            return count

        count = shared.transaction.add(table.full_name, step)
        return None if count == _HAS_IT else self._event(epoch, count, len(files), began_s)

    def _write_part(
        self, session: DatabaseSession, record: TableRecord, table: Table, kind: str, rows: pa.Table
    ) -> None:
        if kind == CHUNKS:
            self._write(session, record, table, rows, are_new=True)
            return
        left, gone = net_changes(rows, table.key)
        if gone.num_rows:
            key = [table.column(name) for name in table.key]
            self._shared.server.delete(session, record.target, key, gone)
        if left.num_rows:
            self._write(session, record, table, left)

    def _write(
        self, session: DatabaseSession, record: TableRecord, table: Table, rows: pa.Table, *, are_new: bool = False
    ) -> None:
        stored = {column.name for column in record.target_columns}
        columns = [one for one in table.columns if one.name in stored and one.name in rows.column_names]
        server = self._shared.server
        if are_new and server.load(session, record.target, columns, rows):
            return
        server.upsert(session, record.target, table.key, columns, rows)

    def alter(self, table: Table, epoch: int, *, copy_follows: bool) -> None:
        """Add columns, and widen types. A column that the source has dropped stays, and is NULL in new rows."""
        require_key(table, joins=False)
        self._shared.terms.check()
        columns = self._definitions.declared(table)

        def step(session: DatabaseSession) -> int:
            if epoch <= self._records.read_epochs(session).begun:
                return _HAS_IT  # a copy with later columns has begun since
            record = self._records.read(session)
            united = self._definitions.united(table, record.target_columns, columns)
            write = partial(self._records.write, session)
            self._definitions.alter(session, record.target, record.target_columns, united, record, write)
            write(record.with_target_columns(united))
            return 0

        self._shared.transaction.define(self.table.full_name, step)
        self._shared.state.forget()
        self.table = table

    def begin_copy(self, table: Table, plan: Plan, epoch: int, until: str) -> CopyStart:
        """Create the table for the new rows."""
        require_key(table, joins=False)
        self._shared.terms.check()
        self.table = table
        begun = [epoch]

        def step(session: DatabaseSession) -> int:
            applied = self._records.read_epochs(session)
            begun[0] = max(applied.begun, epoch)
            if applied.begun >= epoch:
                return _HAS_IT
            record, columns = self._records.read(session), self._definitions.declared(table)
            copy = self._definitions.beside(record.place, COPY, table)
            for leftover in {copy, *record.leftovers}:
                self._definitions.drop(session, leftover)
            after_drop = replace(record, copy=copy, copy_columns=columns, leftovers=(), is_swapping=False)
            self._records.write(session, after_drop)
            self._definitions.create(session, copy, columns, table)
            after = replace(
                applied, begun=epoch, chunks=max(applied.chunks, epoch - 1), changes=max(applied.changes, epoch)
            )  # files of earlier copies are not for this one
            self._records.write_epochs(session, after)
            return 0

        self._shared.transaction.define(self.table.full_name, step)
        self._shared.state.forget()
        return CopyStart(begun[0])

    def complete_copy(self, epoch: int) -> SinkApplied | None:
        """Give readers the rows of the copy, in one transaction."""
        self._shared.terms.check()
        began_s, table = time.monotonic(), self.table

        def step(session: DatabaseSession) -> int:
            record, applied = self._records.read(session), self._records.read_epochs(session)
            if applied.completed >= epoch or epoch < applied.begun:
                return _HAS_IT  # a later copy has begun since: this is an epoch that is applied again
            if record.copy is not None:
                self._records.write(session, self._definitions.replace(session, record, table))
            # Chunks without rows had no files. Now the table has all of them.
            chunks = max(applied.chunks, epoch)
            self._records.write_epochs(session, replace(applied, completed=epoch, chunks=chunks))
            return 0 if record.copy is not None else _HAS_IT

        count = self._shared.transaction.define(self.table.full_name, step)
        self._shared.state.forget()
        record = self._records.committed()
        if count != _HAS_IT or (record is not None and record.leftovers):
            self._shared.transaction.define(self.table.full_name, self._without_leftovers)
        return None if count == _HAS_IT else self._event(epoch, 0, 0, began_s)

    def _without_leftovers(self, session: DatabaseSession) -> int:
        """Drop what a complete copy has left."""
        record = self._records.read(session)
        for leftover in record.leftovers:
            self._definitions.drop(session, leftover)
        if record.leftovers:
            self._records.write(session, replace(record, leftovers=()))
        return 0

    def drop(self) -> None:
        """Delete it, and what the records say of it."""
        self._shared.terms.check()

        def step(session: DatabaseSession) -> int:
            state = self._shared.state
            record = state.table(session, self.table.full_name) if state.has_tables(session) else None
            if record is not None:
                for place in (record.place, *record.leftovers, *((record.copy,) if record.copy else ())):
                    self._definitions.drop(session, place)
                self._shared.state.forget_table(session, self.table.full_name)
            return 0

        self._shared.transaction.define(self.table.full_name, step, is_durable=True)
        self._shared.state.forget()

    def _made(self, session: DatabaseSession) -> int:
        """Create the table, and its record. What was known of an earlier one is forgotten.

        If only columns are gone, they come back, without values.
        """
        shared, name, columns = self._shared, self.table.full_name, self._definitions.declared(self.table)
        shared.server.create_state(session)
        self._definitions.create_schema(session, self._place.schema)
        own = shared.state.table(session, name)
        if own is not None and shared.server.columns_of(session, own.place):
            write = partial(self._records.write, session)
            self._definitions.alter(session, own.place, own.columns, own.columns, own, write)
            write(replace(own, adding=()))
            return 0
        if own is None and shared.server.marks.is_on(session, self._place, self._definitions.mark(self.table)):
            self._definitions.drop(session, self._place)
        self._definitions.create(session, self._place, columns, self.table)
        shared.state.forget_table(session, name)
        shared.state.forget_place(session, self._place)
        shared.state.write_table(session, name, TableRecord(self._place, columns))
        return 0

    def _event(self, epoch: int, rows: int, files: int, began_s: float) -> SinkApplied:
        return SinkApplied(
            sink=self._shared.kind,
            table=self.table.full_name,
            kind="append",
            through_epoch=epoch,
            rows=rows,
            files=files,
            duration_s=round(time.monotonic() - began_s, 6),
        )

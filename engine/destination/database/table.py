"""One captured table in a database.

The first copy is written to the table itself. The rows of a resnapshot go to a table beside it, and so do the changes,
until the copy is complete; readers have the old rows until then. Then the rows that differ are written, in one
transaction, so that columns, indexes and grants of others survive. If the columns cannot be kept, because a type or the
key is another one, the copy takes the table's place.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from engine.base.errors import DestinationError, IncompatibleColumnsError, SpecError
from engine.base.wording import shell_word
from engine.capture.files import DataFile, check_files
from engine.decode.schema import TM_SEQ, Table
from engine.destination.database.database_state import AppliedRecord, TableRecord
from engine.destination.database.net_changes import net_changes, rows_of
from engine.destination.database.shared_tables import SharedTables
from engine.destination.database.sql_server import Session, StoredColumn, TablePlace, qualified
from engine.destination.database.table_names import copy_of, place_of
from engine.destination.database.type_widening import is_wider
from engine.destination.destination_protocol import CHANGES, CHUNKS, MERGE, CopyStart, OpenedTable, StoredState
from engine.journal.destination_events import SinkApplied
from engine.plan.chunks import Plan

_COPY, _OLD = "copy", "old"
_HAS_IT = -1
"""What a step returns that has nothing to do."""


class DatabaseTable:
    """Writes the rows of readers' files."""

    def __init__(self, shared: SharedTables, table: Table) -> None:
        self._shared = shared
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
        return self._recorded() is not None and not self._fault()

    def last_epoch(self, kind: str) -> int:
        """By the records in the database; without the lineage's floor."""
        return self._committed().epoch(kind)

    def read_state(self) -> StoredState:
        """By the records in the database, and whether the table is there."""
        term = self._shared.terms.newest(self._shared.owner.ledger)
        return StoredState(self._epochs(), frozenset({term.number} if term else ()), self._fault())

    def check(self, before: Table | None, after: Table) -> None:
        """Whether the table has a key, and types that the database has. One that joins needs a place of its own."""
        self._require_key(after, joins=before is None)
        columns = self._declared(after)
        if before is None:
            self._require_place()
        record = self._recorded()
        if before is not None and record is not None:
            self._united(record.target_columns, columns)

    def open(self, *, must_exist: bool, copied_as: Table | None = None) -> OpenedTable:
        """Create it if it is not there."""
        fault = self._fault()
        if copied_as is not None:
            self.table = copied_as
        elif must_exist and fault:
            raise DestinationError(
                f"The {fault}, but the ledger has published rows to it.",
                detail="Continuing would leave a table without those rows; nothing was written.",
                hint=f"Resnapshot the table: tidemark redump SPEC --table {shell_word(self.table.full_name)}",
            )
        self._require_key(self.table, joins=True)
        self._shared.terms.check()
        if fault:
            self._require_place()
            self._shared.transaction.define(self._created, is_durable=True)
            self._shared.state.forget()
        return OpenedTable(self._epochs(), is_new=bool(fault))

    def append(self, kind: str, epoch: int, files: Sequence[DataFile]) -> SinkApplied | None:
        """Write the rows of chunks, or of changes. They are there with `publish`."""
        shared, began_s = self._shared, time.monotonic()
        if not files:
            return None
        shared.terms.check()
        folder = shared.landing.chunks(self.table) if kind == CHUNKS else shared.landing.changes(self.table)
        check_files(folder, files)
        table = self.table

        def step(session: Session) -> int:
            applied = self._applied(session)
            if max(applied.epoch(kind), shared.owner.floor) >= epoch:
                return _HAS_IT
            record, count = self._record(session), 0
            for rows in rows_of(folder, files):
                count += rows.num_rows
                if kind == CHUNKS:
                    self._write(session, record, table, rows, are_new=True)
                else:
                    left, gone = net_changes(rows, table.key)
                    key = [table.column(name) for name in table.key]
                    if gone.num_rows:
                        shared.server.delete(session, record.target, key, gone)
                    if left.num_rows:
                        self._write(session, record, table, left)
            shared.server.require_own_index(session, record.target)
            applied = applied.with_epoch(kind, epoch)
            if kind == CHANGES:
                largest = max(file.high.get(TM_SEQ, 0) for file in files)
                applied = replace(applied, largest_seq=max(applied.largest_seq, largest))
            shared.state.write_applied(session, table.full_name, shared.owner.application, applied)
            return count

        count = shared.transaction.add(step)
        return None if count == _HAS_IT else self._event(epoch, count, len(files), began_s)

    def _write(
        self, session: Session, record: TableRecord, table: Table, rows: pa.Table, *, are_new: bool = False
    ) -> None:
        stored = {column.name for column in record.target_columns}
        columns = [one for one in table.columns if one.name in stored and one.name in rows.column_names]
        server = self._shared.server
        if are_new and server.load(session, record.target, columns, rows):
            return
        server.upsert(session, record.target, table.key, columns, rows)

    def alter(self, table: Table, epoch: int, *, copy_follows: bool) -> None:
        """Add columns, and widen types. A column that the source has dropped stays, and is NULL in new rows."""
        self._require_key(table, joins=False)
        self._shared.terms.check()
        columns = self._declared(table)

        def step(session: Session) -> int:
            record = self._record(session)
            united = self._united(record.target_columns, columns)
            self._add_columns(session, record.target, record.target_columns, united)
            self._shared.state.write_table(session, table.full_name, record.with_target_columns(united))
            return 0

        self._shared.transaction.define(step)
        self._shared.state.forget()
        self.table = table

    def begin_copy(self, table: Table, plan: Plan, epoch: int, until: str) -> CopyStart:
        """Create the table for the new rows."""
        self._require_key(table, joins=False)
        self._shared.terms.check()
        self.table = table
        begun = [epoch]

        def step(session: Session) -> int:
            applied = self._applied(session)
            begun[0] = max(applied.begun, epoch)
            if applied.begun >= epoch:
                return _HAS_IT
            record, server = self._record(session), self._shared.server
            copy = copy_of(record.place, _COPY, server.longest_name)
            columns = self._declared(table)
            self._define(session, f"DROP TABLE IF EXISTS {qualified(server, copy)}")
            self._create(session, copy, columns, table.key)
            after = replace(applied, begun=epoch, changes=max(applied.changes, epoch))
            self._shared.state.write_table(session, table.full_name, replace(record, copy=copy, copy_columns=columns))
            self._shared.state.write_applied(session, table.full_name, self._shared.owner.application, after)
            return 0

        self._shared.transaction.define(step)
        self._shared.state.forget()
        return CopyStart(begun[0])

    def complete_copy(self, epoch: int) -> SinkApplied | None:
        """Give readers the rows of the copy, in one transaction."""
        self._shared.terms.check()
        began_s, table = time.monotonic(), self.table

        def step(session: Session) -> int:
            record, applied = self._record(session), self._applied(session)
            if record.copy is None or applied.completed >= epoch:
                return _HAS_IT
            columns = self._replaced(session, record, record.copy, table)
            self._shared.state.write_table(session, table.full_name, TableRecord(record.place, columns))
            after = replace(applied, completed=epoch)
            self._shared.state.write_applied(session, table.full_name, self._shared.owner.application, after)
            return 0

        count = self._shared.transaction.define(step)
        self._shared.state.forget()
        self._shared.transaction.define(self._without_rests)
        return None if count == _HAS_IT else self._event(epoch, 0, 0, began_s)

    def _replaced(
        self, session: Session, record: TableRecord, copy: TablePlace, table: Table
    ) -> tuple[StoredColumn, ...]:
        """Have the table's rows be those of the copy. Returns its columns. May be run again."""
        server, place = self._shared.server, record.place
        if not server.columns_of(session, copy):
            return record.copy_columns  # swapped, and killed before that was recorded
        own_key = [column.name for column in record.columns if column.in_key]
        try:
            united = self._united(record.columns, record.copy_columns)
        except IncompatibleColumnsError:
            united = ()
        if united and own_key == [one.name for one in record.copy_columns if one.in_key]:
            self._add_columns(session, place, record.columns, united)
            server.replace(session, place, copy, table.key, record.copy_columns)
            server.require_own_index(session, place)
            return united
        old = copy_of(place, _OLD, server.longest_name)
        self._define(session, f"DROP TABLE IF EXISTS {qualified(server, old)}")
        server.swap(session, place, copy, old.name)
        if server.commits_definitions:
            self._shared.terms.lock(session)
        return record.copy_columns

    def _without_rests(self, session: Session) -> int:
        """Drop what a complete copy has left."""
        record, server = self._record(session), self._shared.server
        if record.copy is None:
            for word in (_COPY, _OLD):
                rest = copy_of(record.place, word, server.longest_name)
                self._define(session, f"DROP TABLE IF EXISTS {qualified(server, rest)}")
        return 0

    def drop(self) -> None:
        """Delete it, and what the records say of it."""
        self._shared.terms.check()

        def step(session: Session) -> int:
            server, record = self._shared.server, self._shared.state.table(session, self.table.full_name)
            if record is not None:
                rests = [copy_of(record.place, word, server.longest_name) for word in (_COPY, _OLD)]
                for place in (record.place, *rests):
                    self._define(session, f"DROP TABLE IF EXISTS {qualified(server, place)}")
                self._shared.state.forget_table(session, self.table.full_name)
            return 0

        self._shared.transaction.define(step, is_durable=True)
        self._shared.state.forget()

    # definitions

    def _created(self, session: Session) -> int:
        """Create the table, and its record. What was known of an earlier one is forgotten."""
        server, columns = self._shared.server, self._declared(self.table)
        server.create_state(session)
        if self._place.schema != server.state_schema and not server.has_schema(session, self._place.schema):
            if not self._shared.settings.create_schemas:
                raise DestinationError(
                    f"{self._place} cannot be created: there is no {self._place.schema}.",
                    detail="The table is not copied there; the others are.",
                    hint=f"Create {self._place.schema}, or set create_schemas = true in [sink.database].",
                )
            server.create_schema(session, self._place.schema)
            if server.commits_definitions:
                self._shared.terms.lock(session)
        name, state = self.table.full_name, self._shared.state
        own = state.table(session, name)
        if own is not None:
            self._define(session, f"DROP TABLE IF EXISTS {qualified(server, own.place)}")
        state.forget_table(session, name)
        state.write_table(session, name, TableRecord(self._place, columns))  # first: what is made is known as its own
        self._create(session, self._place, columns, self.table.key)
        return 0

    def _create(self, session: Session, place: TablePlace, columns: Sequence[StoredColumn], key: Sequence[str]) -> None:
        server = self._shared.server
        listed = [f"{server.quoted(one.name)} {one.type} {'NOT NULL' if one.in_key else 'NULL'}" for one in columns]
        own = ", ".join(server.quoted(name) for name in key)
        statement = f"CREATE TABLE {qualified(server, place)} ({', '.join(listed)}, PRIMARY KEY ({own}))"
        self._define(session, statement)

    def _add_columns(
        self,
        session: Session,
        place: TablePlace,
        before: Sequence[StoredColumn],
        after: Sequence[StoredColumn],
    ) -> None:
        server, types = self._shared.server, {column.name: column.type for column in before}
        there = {name.casefold() for name in server.columns_of(session, place)}
        for column in after:
            if column.name.casefold() not in there:
                added = f"{server.quoted(column.name)} {column.type} NULL"
                self._define(session, f"ALTER TABLE {qualified(server, place)} ADD COLUMN {added}")
            elif types.get(column.name, column.type) != column.type:
                server.widen(session, place, column)
                if server.commits_definitions:
                    self._shared.terms.lock(session)

    def _define(self, session: Session, statement: str) -> None:
        self._shared.transaction.run_definition(session, statement)

    # what it may have

    def _declared(self, table: Table) -> tuple[StoredColumn, ...]:
        return tuple(self._shared.server.column(one, in_key=one.name in table.key) for one in table.columns)

    def _united(self, before: Sequence[StoredColumn], after: Sequence[StoredColumn]) -> tuple[StoredColumn, ...]:
        """The columns before, with the new types, and the new ones.

        Raises IncompatibleColumnsError if a type is no wider one.
        """
        wanted = {column.name: column for column in after}
        for column in before:
            new = wanted.get(column.name, column)
            if new.type != column.type and not is_wider(column.type, new.type):
                raise IncompatibleColumnsError(
                    f"{self.table.full_name}: column {column.name!r} is now {new.type}, which {column.type} in "
                    f"{self.place} cannot become without a new copy.",
                    detail="What is published is right up to the change of the table; nothing after it was published.",
                    hint=f"Resnapshot it: tidemark redump SPEC --table {shell_word(self.table.full_name)}",
                )
        names = {column.name for column in before}
        return (*(wanted.get(one.name, one) for one in before), *(one for one in after if one.name not in names))

    def _require_key(self, table: Table, *, joins: bool) -> None:
        if table.key:
            return
        error = SpecError if joins else IncompatibleColumnsError
        raise error(
            f"{table.full_name} has no primary key, nor a unique key without nullable columns.",
            detail="A row of a database is updated by its key. The table is not written there; the others are.",
            hint=f"Add a primary key on the source, or exclude the table: '!{table.full_name}' in source.tables.",
        )

    def _require_place(self) -> None:
        """Raises SpecError if something else is where the table would be."""
        shared, known = self._shared, self._shared.known(fresh=True)
        own = known.tables.get(self.table.full_name)
        if own is not None and own.place == self._place:
            return
        others = [name for name, record in known.tables.items() if record.place == self._place]
        is_there = shared.reading.ask(lambda session: shared.server.columns_of(session, self._place))
        if not others and not is_there:
            return
        what = f"is the one of {others[0]}, too" if others else "exists, and this pipeline has not made it"
        raise SpecError(
            f"The table {self._place} in {shared.server.place} {what}.",
            detail=f"Rows of {self.table.full_name} would be mixed with others; nothing was written.",
            hint="Rename or drop the table there, or choose another rule for names: table in [sink.database].",
        )

    def _fault(self) -> str:
        """Why the table cannot be what was published; "" if it can."""
        record = self._recorded()
        if record is None:
            return f"table {self._place} in {self._shared.server.place} was never made by this pipeline"
        server = self._shared.server
        there = self._shared.reading.ask(lambda session: server.columns_of(session, record.place))
        if not there:
            return f"table {record.place} in {server.place} is gone"
        missing = [one.name for one in record.columns if one.name not in there]
        if missing and record.copy is None:
            return f"table {record.place} in {server.place} has lost its column {missing[0]}"
        return ""

    def _recorded(self) -> TableRecord | None:
        return self._shared.known().tables.get(self.table.full_name)

    def _committed(self) -> AppliedRecord:
        return self._shared.known().applied.get((self.table.full_name, self._shared.owner.application), AppliedRecord())

    def _record(self, session: Session) -> TableRecord:
        record = self._shared.state.table(session, self.table.full_name)
        if record is None:
            raise DestinationError(
                f"Tidemark's own tables in {self._shared.server.place} do not have {self.table.full_name}.",
                detail="Nothing was written.",
                hint=f"Resnapshot the table: tidemark redump SPEC --table {shell_word(self.table.full_name)}",
            )
        return record

    def _applied(self, session: Session) -> AppliedRecord:
        return self._shared.state.applied(session, self.table.full_name, self._shared.owner.application)

    def _epochs(self) -> dict[str, int]:
        applied, floor = self._committed(), self._shared.owner.floor
        changes = max(applied.changes, floor)
        return {CHUNKS: max(applied.chunks, floor), CHANGES: changes, MERGE: changes}

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

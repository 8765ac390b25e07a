"""Creates and alters tables in a database, and gives a table the rows of a copy.

Each step may be run again after a kill in its middle: it looks for what is there.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from engine.base.errors import DestinationError, IncompatibleColumnsError
from engine.base.wording import shell_word
from engine.decode.schema import Table
from engine.destination.database.database_state import TableRecord
from engine.destination.database.shared_tables import SharedTables
from engine.destination.database.sql_server import DatabaseSession, StoredColumn, TablePlace, folded, qualified
from engine.destination.database.table_names import beside
from engine.destination.database.type_widening import is_wider

COPY, OLD = "copy", "old"
"""What stands beside a table for a while: the rows of a resnapshot, and a table whose place a copy has taken."""


class TableDefinitions:
    """Of one destination. Its methods are called within a step of the transaction."""

    def __init__(self, shared: SharedTables) -> None:
        self._shared = shared
        self._server = shared.server

    def declared(self, table: Table) -> tuple[StoredColumn, ...]:
        """The columns of a table as they are declared."""
        return tuple(self._server.column(one, in_key=one.name in table.key) for one in table.columns)

    def beside(self, place: TablePlace, word: str, table: Table) -> TablePlace:
        """The place of a table beside another one. word: `COPY` or `OLD`."""
        return beside(place, word, self.mark(table), self._server.longest_name)

    def mark(self, table: Table) -> str:
        """By which a table is known as ours."""
        return f"tidemark {self._shared.state.pipeline} {table.full_name}"

    def run(self, session: DatabaseSession, statement: str) -> None:
        """Run a definition. Where it commits, the lock of the term is taken again."""
        session.run(statement)
        self._relock(session)

    def _relock(self, session: DatabaseSession) -> None:
        if self._server.commits_definitions:
            self._shared.terms.lock(session)

    def create_schema(self, session: DatabaseSession, schema: str) -> None:
        """Create the schema of a table, if it is not there and the spec permits it."""
        if self._server.has_schema(session, schema):
            return
        if not self._shared.settings.create_schemas:
            raise DestinationError(
                f"There is no {schema} in {self._server.place}.",
                detail="Its tables are not copied there; the others are.",
                hint=f"Create {schema}, or set create_schemas = true in [sink.database].",
            )
        self._server.create_schema(session, schema)
        self._relock(session)

    def create(
        self, session: DatabaseSession, place: TablePlace, columns: Sequence[StoredColumn], table: Table
    ) -> None:
        """Create a table."""
        listed = [self._server.declaration(one) for one in columns]
        if self._server.has_keys:
            listed.append(f"PRIMARY KEY ({', '.join(map(self._server.quoted, table.key))})")
        end = self._server.marks.table_end(self.mark(table))
        self.run(session, f"CREATE TABLE {qualified(self._server, place)} ({', '.join(listed)}){end}")

    def drop(self, session: DatabaseSession, place: TablePlace) -> None:
        """Drop a table, if it is there."""
        self.run(session, f"DROP TABLE IF EXISTS {qualified(self._server, place)}")

    def alter(
        self,
        session: DatabaseSession,
        place: TablePlace,
        before: Sequence[StoredColumn],
        after: Sequence[StoredColumn],
        record: TableRecord,
        write: Callable[[TableRecord], None],
    ) -> None:
        """Widen types, and add columns. The caller writes the record with the columns after that.

        record, write: where definitions commit, new columns are known as ours before they are there. Raises
        DestinationError for a new column whose name another one of somebody else has.
        """
        fold = partial(folded, self._server)
        types = {fold(column.name): column.type for column in before}
        there = {fold(name) for name in self._server.columns_of(session, place)}
        own = {*types, *map(fold, record.adding)}
        if foreign := [one.name for one in after if fold(one.name) in there and fold(one.name) not in own]:
            raise DestinationError(
                f"{place} in {self._server.place} has a column {foreign[0]!r} that the pipeline has not made.",
                detail="The source has a new column of this name. Nothing after that was written to the table.",
                hint=f"Rename or drop {foreign[0]!r} there. Then resnapshot the table: tidemark redump SPEC --table "
                "DATABASE.TABLE",
            )
        for column in after:
            if fold(column.name) in there and types.get(fold(column.name), column.type) != column.type:
                self._server.widen(session, place, column)
                self._relock(session)
        if missing := [one for one in after if fold(one.name) not in there]:
            write(replace(record, adding=tuple(one.name for one in missing)))
            for column in missing:
                added = self._server.declaration(column)
                self.run(session, f"ALTER TABLE {qualified(self._server, place)} ADD COLUMN {added}")

    def united(
        self, table: Table, before: Sequence[StoredColumn], after: Sequence[StoredColumn]
    ) -> tuple[StoredColumn, ...]:
        """The columns before, with wider types, and the new ones.

        A type that is narrower now stays: it has all values. Raises IncompatibleColumnsError for any other type.
        """
        fold = partial(folded, self._server)
        wanted, columns = {fold(column.name): column for column in after}, list[StoredColumn]()
        for column in before:
            new = wanted.get(fold(column.name), column)
            if new.type != column.type and is_wider(new.type, column.type):
                new = replace(column, name=new.name)
            if new.type != column.type and not is_wider(column.type, new.type):
                raise IncompatibleColumnsError(
                    f"{table.full_name}: column {column.name!r} is now {new.type}; {column.type} cannot become that in "
                    f"{self._server.place}.",
                    detail="What is published is right up to the change of the table; nothing after it was published.",
                    hint=f"Resnapshot it: tidemark redump SPEC --table {shell_word(table.full_name)}",
                )
            columns.append(new)
        names = {fold(column.name) for column in before}
        return (*columns, *(one for one in after if fold(one.name) not in names))

    def replace(self, session: DatabaseSession, record: TableRecord, table: Table) -> TableRecord:
        """Have the table's rows be those of the copy. Returns the record after that."""
        server, place, copy = self._server, record.place, record.copy
        assert copy is not None
        old = self.beside(place, OLD, table)
        if not server.columns_of(session, copy):
            return self._swapped(session, record, old, table)
        try:
            united = self.united(table, record.columns, record.copy_columns)
        except IncompatibleColumnsError:
            united = ()
        if united and _key(record.columns) == _key(record.copy_columns):
            write = partial(self._shared.state.write_table, session, table.full_name)
            self.alter(session, place, record.columns, united, record, write)
            server.require_own_index(session, place, table.key)
            server.replace(session, place, copy, table.key, record.copy_columns)
            server.require_own_index(session, place, table.key)
            return TableRecord(place, united, leftovers=(*record.leftovers, copy))
        self.drop(session, old)
        self._shared.state.write_table(session, table.full_name, replace(record, is_swapping=True))
        server.swap(session, place, copy, old.name)
        self._relock(session)
        if not server.commits_definitions:  # what depends on the old table is an error before readers have the new one
            self.drop(session, old)
            return TableRecord(place, record.copy_columns)
        return TableRecord(place, record.copy_columns, leftovers=(*record.leftovers, old))

    def _swapped(self, session: DatabaseSession, record: TableRecord, old: TablePlace, table: Table) -> TableRecord:
        """The record of a table whose place the copy has taken, if a kill came before that was recorded."""
        if record.is_swapping and self._server.columns_of(session, old):
            return TableRecord(record.place, record.copy_columns, leftovers=(*record.leftovers, old))
        raise DestinationError(
            f"The new copy of {table.full_name}, {record.copy} in {self._server.place}, is gone.",
            detail="Readers have the rows from before it.",
            hint=f"Resnapshot the table: tidemark redump SPEC --table {shell_word(table.full_name)}",
        )


def _key(columns: Sequence[StoredColumn]) -> list[str]:
    return [column.name for column in columns if column.in_key]

"""Creates and alters tables in a database, and gives a table the rows of a copy.

Each step may be run again after a kill in its middle: it looks for what is there.
"""

from collections.abc import Sequence

from engine.base.errors import DestinationError, IncompatibleColumnsError
from engine.base.wording import shell_word
from engine.decode.schema import Table
from engine.destination.database.database_state import TableRecord
from engine.destination.database.shared_tables import SharedTables
from engine.destination.database.sql_server import DatabaseSession, StoredColumn, TablePlace, qualified
from engine.destination.database.table_names import copy_of
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

    def beside(self, place: TablePlace, word: str) -> TablePlace:
        """The place of a table beside another one. word: `COPY` or `OLD`."""
        return copy_of(place, word, self._server.longest_name)

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
        self, session: DatabaseSession, place: TablePlace, columns: Sequence[StoredColumn], key: Sequence[str]
    ) -> None:
        """Create a table."""
        listed = [self._server.declaration(one) for one in columns]
        if self._server.has_keys:
            listed.append(f"PRIMARY KEY ({', '.join(map(self._server.quoted, key))})")
        self.run(session, f"CREATE TABLE {qualified(self._server, place)} ({', '.join(listed)})")

    def drop(self, session: DatabaseSession, place: TablePlace) -> None:
        """Drop a table, if it is there."""
        self.run(session, f"DROP TABLE IF EXISTS {qualified(self._server, place)}")

    def alter(
        self, session: DatabaseSession, place: TablePlace, before: Sequence[StoredColumn], after: Sequence[StoredColumn]
    ) -> None:
        """Add columns, and widen types."""
        types = {column.name: column.type for column in before}
        fold = str.casefold if self._server.ignores_case else str
        there = {fold(name) for name in self._server.columns_of(session, place)}
        for column in after:
            if fold(column.name) not in there:
                added = self._server.declaration(column)
                self.run(session, f"ALTER TABLE {qualified(self._server, place)} ADD COLUMN {added}")
            elif types.get(column.name, column.type) != column.type:
                self._server.widen(session, place, column)
                self._relock(session)

    def united(
        self, table: Table, before: Sequence[StoredColumn], after: Sequence[StoredColumn]
    ) -> tuple[StoredColumn, ...]:
        """The columns before, with the new types, and the new ones.

        Raises IncompatibleColumnsError if a type is no wider one.
        """
        wanted = {column.name: column for column in after}
        for column in before:
            new = wanted.get(column.name, column)
            if new.type != column.type and not is_wider(column.type, new.type):
                raise IncompatibleColumnsError(
                    f"{table.full_name}: column {column.name!r} is now {new.type}; {column.type} cannot become that in "
                    f"{self._server.place}.",
                    detail="What is published is right up to the change of the table; nothing after it was published.",
                    hint=f"Resnapshot it: tidemark redump SPEC --table {shell_word(table.full_name)}",
                )
        names = {column.name for column in before}
        return (*(wanted.get(one.name, one) for one in before), *(one for one in after if one.name not in names))

    def replace(
        self, session: DatabaseSession, record: TableRecord, copy: TablePlace, table: Table
    ) -> tuple[StoredColumn, ...]:
        """Have the table's rows be those of the copy. Returns its columns."""
        server, place = self._server, record.place
        if not server.columns_of(session, copy):
            return record.copy_columns  # it took the table's place, and a kill came before that was recorded
        try:
            united = self.united(table, record.columns, record.copy_columns)
        except IncompatibleColumnsError:
            united = ()
        if united and _key(record.columns) == _key(record.copy_columns):
            self.alter(session, place, record.columns, united)
            server.replace(session, place, copy, table.key, record.copy_columns)
            server.require_own_index(session, place)
            return united
        old = self.beside(place, OLD)
        self.drop(session, old)
        server.swap(session, place, copy, old.name)
        self._relock(session)
        return record.copy_columns


def _key(columns: Sequence[StoredColumn]) -> list[str]:
    return [column.name for column in columns if column.in_key]

"""Tables to resnapshot that the account may not read: they wait for the grant, and everything else continues.

The catalog hides such a table, so nobody knows the columns that it has by now. Its resnapshot stays due in the ledger.
Every few seconds one statement asks whether the account may read it, on a new connection: a server shows a new global
privilege to later connections only. Event, alert and patience are those of refused reads
(`run.snapshot.refused_reads`).
"""

from collections.abc import Collection

from engine.base import clock
from engine.base.errors import PrivilegesMissingError
from engine.decode.schema import Table
from engine.journal import Journal
from engine.run.lifecycle.source_connection import SourceConnection
from engine.run.snapshot.refused_reads import RefusedReads, refused_reads_of
from engine.source.catalog import check_not_hidden
from engine.source.connect import Connection

_RETRY_S = 5.0


class RefusedTables:
    """The refused tables of one session. reads: those of its chunks. Used by one thread."""

    def __init__(self, reads: RefusedReads) -> None:
        self.reads = reads
        self._tables: dict[str, Table] = {}
        self._retry_s = 0.0

    def note(self, table: Table, error: PrivilegesMissingError) -> None:
        """Let a table wait."""
        self.reads.note(table, error)
        if not self._tables:
            self._retry_s = clock.monotonic_s() + _RETRY_S
        self._tables[table.full_name] = table

    def waits(self, table: str) -> bool:
        """Whether a table still waits, so that its resnapshot cannot begin."""
        return table in self._tables

    def is_temporary(self, table: str) -> bool:
        """Whether a run with an end still waits for a table."""
        return self.reads.is_temporary(table)

    def look(self, connection: SourceConnection, captured: Collection[str]) -> None:
        """Ask for the waiting tables if that is due. captured: the tables of the pipeline; others wait no longer."""
        if not self._tables or clock.monotonic_s() < self._retry_s:
            return
        connection.renew()
        for name, table in list(self._tables.items()):
            try:
                if name in captured:
                    check_not_hidden(connection.now, table.database, table.name)
            except PrivilegesMissingError as error:
                self.reads.note(table, error)  # a chunk of it may have ended the event
            else:
                del self._tables[name]
                self.reads.end(name)
        self._retry_s = clock.monotonic_s() + _RETRY_S


def refused_tables_of(journal: Journal, connection: Connection, *, bounded: bool) -> RefusedTables:
    """Those of a session. bounded: whether the run has an end. Raises TransientError."""
    return RefusedTables(refused_reads_of(journal, connection, bounded=bounded))

"""The destination in a database: the rows of each table, as the source has them between two transactions.

Readers' files are not taken as they are: they are staged below `sink.path`, or lie where the first destination of the
pipeline has them.
"""

import threading
from collections.abc import Collection, Iterable
from pathlib import Path

from engine.capture.landing import Landing
from engine.decode.schema import Table
from engine.destination.database.database_state import DatabaseState
from engine.destination.database.database_terms import DatabaseTerms
from engine.destination.database.database_transaction import DatabaseTransaction
from engine.destination.database.reading_session import ReadingSession
from engine.destination.database.shared_tables import SharedTables
from engine.destination.database.sql_server import DatabaseSession
from engine.destination.database.sql_servers import server_of
from engine.destination.database.table import DatabaseTable
from engine.destination.database.table_reader import DatabaseLanding, DatabaseTables
from engine.destination.destination_protocol import DestinationTable, EpochEnd
from engine.destination.fence import Term
from engine.ledger.state import Owner
from engine.plan.chunks import Plan
from engine.spec.sink_settings import Sink


class DatabaseDestination:
    """landing: where the readers' files are; None: they are staged in the sink's folder."""

    def __init__(self, sink: Sink, landing: Landing | None = None) -> None:
        assert sink.database is not None, "the spec requires it"
        self._sink = sink
        self._settings = sink.database
        self._server = server_of(sink)
        self._own_landing = None if landing is not None else self._readable_landing()
        self._landing = landing or self._readable_landing()
        self._reading = ReadingSession(self._server)
        self._states: dict[str, DatabaseState] = {}
        self._shared: SharedTables | None = None
        self._lock = threading.RLock()
        self._terms = DatabaseTerms(self._server, self._reading, self._state)
        self._transaction = DatabaseTransaction(self._server, self._terms)

    def _readable_landing(self) -> DatabaseLanding:
        return DatabaseLanding(self._sink.folder, DatabaseTables(self._server, self._settings.table))

    @property
    def root(self) -> Path | str:
        """The server, the database, and the rule for tables."""
        return self._server.place

    @property
    def landing(self) -> Landing:
        """Where readers put files."""
        return self._landing

    @property
    def terms(self) -> DatabaseTerms:
        """In Tidemark's own tables."""
        return self._terms

    def _state(self, ledger: str) -> DatabaseState:
        with self._lock:
            if ledger not in self._states:
                pipeline = f"{ledger}.{self._sink.name}" if self._sink.name else ledger
                self._states[ledger] = DatabaseState(self._server, pipeline)
            return self._states[ledger]

    def recall(self, newest: Term | None) -> None:
        """What was not committed is given up, and the records are read again."""
        with self._lock:
            self._transaction.forget()
            for state in self._states.values():
                state.forget()

    def give_up(self) -> None:
        """Its locks would keep the next opening waiting."""
        self._transaction.forget()
        self._reading.close()

    def table(self, owner: Owner, table: Table, plan: Plan | None = None) -> DatabaseTable:
        """Its table, and its records."""
        with self._lock:  # several tables are opened at the same time
            if self._shared is None or self._shared.owner != owner:
                self._shared = SharedTables(
                    self._sink.type,
                    self._settings,
                    owner,
                    self._landing,
                    self._server,
                    self._reading,
                    self._state(owner.ledger),
                    self._terms,
                    self._transaction,
                )
            return DatabaseTable(self._shared, table)

    def publish(self, end: EpochEnd) -> None:
        """Commit the transaction, with the end of the epochs, if there is anything in it."""
        shared = self._shared
        if shared is None:
            return
        self._terms.check()

        def ended(session: DatabaseSession) -> int:
            shared.state.write_end(session, end.epoch, end.position)
            return 0

        self._transaction.commit(ended)
        shared.state.forget()

    def fence_earlier_runners(self, owner: Owner, tables: Iterable[Table], epochs: Collection[int]) -> None:
        """`terms.take` has done it."""

    def largest_seq(self, owner: Owner, tables: Iterable[Table]) -> int:
        """By the records, whatever the count of epochs."""
        names, state = {table.full_name for table in tables}, self._state(owner.ledger)
        records = self._reading.ask(lambda session: state.known(session, 0.0))
        return max((one.largest_seq for (name, _), one in records.applied.items() if name in names), default=0)

    def delete_orphans(
        self, opened_tables: Iterable[DestinationTable], committed_names: Collection[str], after_ns: int
    ) -> int:
        """Delete staged files that no epoch names. Rows of a killed runner were rolled back."""
        return 0 if self._own_landing is None else self._own_landing.delete_orphans(committed_names)

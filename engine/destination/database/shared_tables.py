"""What the tables of one destination in a database share."""

from dataclasses import dataclass

from engine.capture.landing import Landing
from engine.destination.database.database_state import CommittedRecords, DatabaseState
from engine.destination.database.database_terms import DatabaseTerms
from engine.destination.database.database_transaction import DatabaseTransaction
from engine.destination.database.reading_session import ReadingSession
from engine.destination.database.sql_server import SqlServer
from engine.ledger.state import Owner
from engine.spec.database_settings import DatabaseSettings

_FRESH_S = 1.0


@dataclass(frozen=True)
class SharedTables:
    """One for each destination and owner."""

    kind: str
    """`sink.type`, for events."""
    settings: DatabaseSettings
    owner: Owner
    landing: Landing
    server: SqlServer
    reading: ReadingSession
    state: DatabaseState
    terms: DatabaseTerms
    transaction: DatabaseTransaction

    def known(self, *, fresh: bool = False) -> CommittedRecords:
        """What is committed. fresh: now; else within the last second."""
        return self.reading.ask(lambda session: self.state.known(session, 0.0 if fresh else _FRESH_S))

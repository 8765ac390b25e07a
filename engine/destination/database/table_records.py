"""What the records in a database say of one table."""

from dataclasses import dataclass

from engine.base.errors import DestinationError
from engine.base.wording import shell_word
from engine.destination.database.database_state import AppliedRecord, TableRecord
from engine.destination.database.shared_tables import SharedTables
from engine.destination.database.sql_server import DatabaseSession
from engine.destination.destination_protocol import CHANGES, CHUNKS, MERGE


@dataclass(frozen=True)
class TableRecords:
    """name: the table's full name."""

    shared: SharedTables
    name: str

    def committed(self) -> TableRecord | None:
        """The committed record; None if the pipeline has not made the table."""
        return self.shared.known().tables.get(self.name)

    def committed_epochs(self) -> AppliedRecord:
        """The committed epochs, without the lineage's floor."""
        return self.shared.known().applied.get((self.name, self.shared.owner.application), AppliedRecord())

    def epochs(self) -> dict[str, int]:
        """The committed epochs by kind. Those up to the floor count as applied."""
        applied, floor = self.committed_epochs(), self.shared.owner.floor
        changes = max(applied.changes, floor)
        return {CHUNKS: max(applied.chunks, floor), CHANGES: changes, MERGE: changes}

    # within the transaction of the rows

    def read(self, session: DatabaseSession) -> TableRecord:
        """The record. Raises DestinationError if there is none."""
        record = self.shared.state.table(session, self.name)
        if record is None:
            raise DestinationError(
                f"Tidemark's own tables in {self.shared.server.place} do not have {self.name}.",
                detail="Nothing was written.",
                hint=f"Resnapshot the table: tidemark redump SPEC --table {shell_word(self.name)}",
            )
        return record

    def read_epochs(self, session: DatabaseSession) -> AppliedRecord:
        """The epochs."""
        return self.shared.state.applied(session, self.name, self.shared.owner.application)

    def write(self, session: DatabaseSession, record: TableRecord) -> None:
        """Write the record."""
        self.shared.state.write_table(session, self.name, record)

    def write_epochs(self, session: DatabaseSession, applied: AppliedRecord) -> None:
        """Write the epochs."""
        self.shared.state.write_applied(session, self.name, self.shared.owner.application, applied)

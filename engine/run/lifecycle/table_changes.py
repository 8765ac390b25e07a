"""Commits what happens to tables between the epochs, and applies it to what is captured.

Tables join and leave (`run.tables.membership`), stop, are resnapshotted, and get other columns.
"""

from collections.abc import Callable, Mapping

from engine.base import clock
from engine.capture.binlog.statements import Alteration
from engine.capture.captured_tables import CapturedTables
from engine.destination.publisher import Publisher
from engine.journal import Journal
from engine.ledger.state import State, TableState, following
from engine.plan.coverage import Coverage
from engine.run.epochs.delivery import Delivery
from engine.run.epochs.epoch import completed
from engine.run.epochs.pending_chunks import PendingChunks
from engine.run.monitors.progress import ProgressEvents
from engine.run.snapshot.parking import Parking
from engine.run.snapshot.scheduler import SnapshotScheduler
from engine.run.snapshot.table_copy import TableCopy, planned
from engine.run.tables.alterations import changed
from engine.run.tables.membership import MembershipChanges
from engine.run.tables.resnapshot_limit import rest_s
from engine.run.tables.schema_change import SchemaVerdict
from engine.source.connect import Connection


class TableChanges:
    """The changes of one coordinator's tables. Used by one thread.

    state: the committed one. make_copy: the copy of a table with this coverage. forget_pause: removes the pause of a
    removed table.
    """

    def __init__(
        self,
        state: Callable[[], State],
        journal: Journal,
        captured: CapturedTables,
        snapshot: SnapshotScheduler,
        make_copy: Callable[[str, Coverage], TableCopy],
        chunks: PendingChunks,
        delivery: Delivery,
        publisher: Publisher,
        membership: MembershipChanges,
        parking: Parking,
        forget_pause: Callable[[str], None],
        progress: ProgressEvents,
    ) -> None:
        self._state = state
        self._journal = journal
        self._captured = captured
        self._snapshot = snapshot
        self._make_copy = make_copy
        self._chunks = chunks
        self._delivery = delivery
        self._publisher = publisher
        self._membership = membership
        self._parking = parking
        self._forget_pause = forget_pause
        self._progress = progress

    def begin(self) -> None:
        """Capture all tables of the ledger."""
        tables = self._state().tables
        self._parking.keep_only(tables)
        for name, table in tables.items():
            self._capture(name, table)

    def _capture(self, name: str, table: TableState) -> None:
        """Capture a table from its committed state."""
        self._captured.take(name, table)
        if not table.stopped:
            self._copy(name, table)

    def _copy(self, name: str, table: TableState) -> None:
        """Start or continue a table's copy, unless it is copied."""
        if not table.copied:
            self._snapshot.add(self._make_copy(name, table.coverage), rest_s(table, clock.utc_text()))

    def commit_decisions(self) -> None:
        """Commit stops and resnapshots that were decided, before anything that can fail: the source may be away."""
        for name in self._delivery.commit_decisions(self._state(), self._captured.tables, self._chunks.stopped):
            self._chunks.drop(name)
        self._chunks.stops_committed()
        self._progress.show(self._state())

    def commit_memberships(self, connection: Connection) -> None:
        """Commit pending membership changes, and stop the tables that have become parts of a MERGE table."""
        try:
            self._commit_memberships(connection)
        finally:
            self._progress.show_planning(())
        for name, error in self._membership.merged(connection, self._state(), self._captured.tables).items():
            self._chunks.stop(name, error)

    def _commit_memberships(self, connection: Connection) -> None:
        while tables := self._membership.next(connection, self._state()):
            record = completed(self._state(), following(self._state(), self._journal.run, tables))
            self._delivery.commit(record)
            for name, change in tables.items():
                self._chunks.drop(name)
                self._captured.forget(name)
                self._chunks.forget_stop(name)
                if name not in self._state().tables:
                    self._forget_pause(name)
                    continue
                self._capture(name, self._state().tables[name])
                if not change.stopped:
                    self._journal.write(planned(self._captured.plans[name]))
            self._parking.keep_only(self._state().tables)
            self._publisher.submit(record)
            self._progress.show(self._state())

    def apply_verdicts(self, verdicts: Mapping[str, SchemaVerdict], alteration: Alteration | None) -> None:
        """Apply verdicts, which are committed now, to the captured tables. alteration: what they are about."""
        for name, verdict in verdicts.items():
            self._journal.write(changed(name, verdict, alteration))
            self._chunks.drop(name)
            if verdict.error is not None:
                continue
            self._captured.publish(verdict.table, verdict.plan)
            if verdict.outcome == "resnapshotted":
                self._journal.write(planned(verdict.plan))
            self._copy(name, self._state().tables[name])

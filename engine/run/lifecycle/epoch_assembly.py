"""Builds what runs epochs: the coordinator of one server and one Spark session, and the monitors beside it.

It only builds: what happens, and in which order, is in `run.lifecycle.coordinator`.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial

from engine.audit.background_audit import BackgroundAudit
from engine.capture.binlog.known_gtids import known_gtids
from engine.capture.captured_tables import CapturedTables
from engine.capture.redump_requests import Redump, check_ranges
from engine.capture.tasks import ChunkGroup
from engine.destination.publisher import Publisher
from engine.ledger.state import State
from engine.ledger.store import Ledger
from engine.run.epochs.delivery import Delivery
from engine.run.epochs.epoch_pace import EpochPace
from engine.run.epochs.epoch_reader import EpochReader
from engine.run.epochs.pending_chunks import PendingChunks
from engine.run.epochs.publisher_commands import Requests, merge_soon
from engine.run.lifecycle.coordinator import Coordinator
from engine.run.lifecycle.epoch_commit import EpochCommit
from engine.run.lifecycle.epoch_retries import EpochRetries
from engine.run.lifecycle.pending_work import PendingWork
from engine.run.lifecycle.refused_tables import refused_tables_of
from engine.run.lifecycle.run_assembly import RunParts
from engine.run.lifecycle.run_start import committed_state
from engine.run.lifecycle.source_connection import SourceConnection
from engine.run.lifecycle.source_reads import SourceReads
from engine.run.lifecycle.table_changes import TableChanges
from engine.run.monitors.hidden_monitor import HiddenMonitor
from engine.run.monitors.lag import LagMonitor
from engine.run.monitors.mirror_monitor import MirrorMonitor
from engine.run.monitors.progress import ProgressEvents
from engine.run.monitors.unpublished_monitor import UnpublishedMonitor
from engine.run.redump.executor import RedumpExecutor
from engine.run.snapshot.read_folder import ReadFolder, read_path
from engine.run.snapshot.scheduler import SnapshotScheduler, snapshot_of
from engine.run.snapshot.table_copy import mirrors_of, table_copy
from engine.run.snapshot.throttle import Health
from engine.run.tables.alterations import Alterations
from engine.run.tables.first_epoch import SourceAccess
from engine.run.tables.membership import MembershipChanges
from engine.source.watermarks import Candidate
from engine.spark.session import Session
from engine.verify.continuous import ContinuousVerifier


@dataclass(frozen=True)
class EpochAssembly:
    """Builds for one run. ledger: has epoch 0."""

    run: RunParts
    ledger: Ledger
    publisher: Publisher
    bounded: bool
    """Whether the run has an end."""

    def state(self) -> State:
        """The committed state."""
        return committed_state(self.ledger)

    def coordinator(self, source: SourceAccess, session: Session) -> Coordinator:
        """A coordinator. Raises TransientError if the source does not answer, SourceLostError."""
        run, control = self.run, self.run.control
        first = run.spec.first_server_id()
        connection = SourceConnection(source, first)
        position = self.state().position
        gtids = known_gtids(connection.now, source.endpoint, source.server, position, first)
        captured = CapturedTables(run.spec, self.publisher.destination.landing)
        refused = refused_tables_of(run.journal, connection.now, bounded=self.bounded)
        snapshot = snapshot_of(
            run.spec, source.endpoint, source.turns, session, run.gate, control.activity, run.journal, refused.reads
        )
        redumps = self._redumps(source, captured, snapshot)
        mariadb = source.server.flavor == "mariadb"
        reader = EpochReader(source.endpoint, first, mariadb, source.watermarks, session, captured, snapshot, redumps)
        delivery = Delivery(run.spec, self.ledger, self.publisher, control.tables, run.journal)
        chunks = PendingChunks(captured, snapshot, redumps, reader, delivery, connection.require_enough)
        progress = ProgressEvents(control.activity, run.journal)
        membership = MembershipChanges(
            run.spec, self.publisher, control.tables, snapshot.reading, progress.show_planning
        )
        pace = EpochPace.of(run.spec)
        tables = TableChanges(
            self.state,
            run.journal,
            captured,
            snapshot,
            partial(table_copy, run.spec, captured),
            chunks,
            delivery,
            self.publisher,
            membership,
            run.gate.parking,
            control.settings.forget,
            progress,
        )
        epochs = EpochCommit(
            self.state,
            source,
            connection,
            session,
            run.journal,
            captured,
            snapshot,
            redumps,
            chunks,
            reader,
            delivery,
            self.publisher,
            Alterations(run.spec, source, captured, self.publisher),
            membership,
            tables,
            progress,
            pace,
            refused,
            gtids,
            Candidate(position, 0.0),
        )
        return Coordinator(
            control.state,
            control.intake,
            control.states,
            Requests(self.publisher, control.tables, self.ledger, redumps),
            control.disk,
            control.away,
            run.binlog,
            self._reads(source, session, connection, snapshot),
            captured,
            chunks,
            redumps,
            tables,
            epochs,
            EpochRetries(connection, control.away, control.disk, control.state, self.state),
            self.publisher,
            PendingWork(self.state, control.tables, membership, snapshot, redumps, chunks, run.gate.parking, refused),
            pace,
            progress,
            refused,
        )

    def _redumps(self, source: SourceAccess, captured: CapturedTables, snapshot: SnapshotScheduler) -> RedumpExecutor:
        def check(name: str, redump: Redump) -> None:
            check_ranges(source.endpoint, redump, captured.tables[name], captured.plans[name])

        return RedumpExecutor(
            snapshot,
            self.run.control.tables,
            self.run.journal,
            partial(table_copy, self.run.spec, captured),
            check,
            self.publisher.has_copy,
            partial(mirrors_of, self.run.spec, captured),
            captured.chunks,
            self.publisher.unmerged_files,
            partial(merge_soon, self.publisher, self.ledger),
        )

    def _reads(
        self, source: SourceAccess, session: Session, connection: SourceConnection, snapshot: SnapshotScheduler
    ) -> SourceReads:
        spec, control = self.run.spec, self.run.control
        folder = ReadFolder(read_path(spec.sink, self.run.directory, self.state().ledger, spec.spark.master))
        nowhere = Candidate(self.state().position, 0.0)
        first, settle_s = spec.first_server_id(), spec.source.settle_s
        prototype = ChunkGroup(source.endpoint, first, source.watermarks, settle_s, nowhere, (), folder.path)
        pace, critical = self.run.gate.pace, control.state.overloaded
        health = Health(source.endpoint, pace, critical, control.helpers, control.activity, source.turns)
        return SourceReads(
            connection,
            snapshot,
            prototype,
            pace,
            health,
            folder,
            source.settled_s,
            session.interrupt,
            session.require_driver,
        )

    @contextmanager
    def monitors(self, source: SourceAccess, coordinator: Coordinator) -> Iterator[None]:
        """The threads that look after the epochs, meanwhile."""
        run, control = self.run, self.run.control
        directory, journal, helpers = run.directory, run.journal, control.helpers

        def may_read() -> bool:
            is_busy = control.away.now or lag.backlog.is_there
            return control.state.running and self.state().copied and not is_busy

        with (
            closing(self._lag_monitor(source, coordinator)) as lag,
            closing(
                ContinuousVerifier(run.spec, directory, journal, helpers, may_read, few_connections=source.turns.few)
            ),
            closing(BackgroundAudit(run.spec, directory, journal, helpers, self.state, may_read)),
            closing(HiddenMonitor(source, journal, helpers, self.state, run.hidden, run.spec.source, run.drift)),
            closing(MirrorMonitor(run.destination.landing, directory, journal, helpers, self.state)),
            closing(UnpublishedMonitor(run.destination, directory, journal, helpers, run.spec.alerts)),
        ):
            yield

    def _lag_monitor(self, source: SourceAccess, coordinator: Coordinator) -> LagMonitor:
        run, control = self.run, self.run.control
        return LagMonitor(
            source.endpoint,
            run.spec.first_server_id(),
            run.journal,
            coordinator.epochs.committed,
            control.away,
            control.helpers,
            self.publisher.oldest_mirror,
            partial(self.publisher.freshness.measured, {one.name: one.freshness for one in self.publisher.further}),
            source.turns,
            run.blocked.look,
            run.binlog,
            run.spec.poll_interval_s,
        )

"""The epoch loop (docs/correctness.md).

Each epoch freezes the set of finished chunks, takes the source's position P', and reads the binlog from min(P, A of the
frozen chunks) to P'. It commits chunks and changes in one ledger file and submits that to the publisher. The order is
the proof. A frozen chunk's high watermark lies before P', so the range ends after it. A chunk that is not frozen joins
a later epoch, whose range starts at or before its high watermark.

Separate Spark jobs read the chunks: the binlog never waits for the snapshot, nor the snapshot for the binlog.
"""

from contextlib import closing, suppress
from dataclasses import dataclass

from engine.base import clock
from engine.base.errors import HelperError, SourceAwayError, TransientError
from engine.capture.captured_tables import CapturedTables
from engine.destination.publisher import Publisher
from engine.pipeline.disk import Disk
from engine.run.commands.command_intake import CommandIntake
from engine.run.commands.runner_state import RunnerState
from engine.run.commands.state_commands import StateCommands
from engine.run.epochs.epoch_pace import EpochPace
from engine.run.epochs.pending_chunks import PendingChunks
from engine.run.epochs.publisher_commands import Requests
from engine.run.lifecycle.epoch_commit import EpochCommit
from engine.run.lifecycle.epoch_retries import FAILURES, EpochRetries
from engine.run.lifecycle.pending_work import PendingWork
from engine.run.lifecycle.refused_tables import RefusedTables
from engine.run.lifecycle.source_reads import SourceReads
from engine.run.lifecycle.table_changes import TableChanges
from engine.run.monitors.progress import ProgressEvents
from engine.run.redump.executor import RedumpExecutor
from engine.run.source_loss.binlog_off import BinlogCheck
from engine.run.source_loss.outage import EPOCHS, OutageTracker
from engine.source.ancestry import went_back
from engine.source.positions import Position
from engine.source.watermarks import server_time_s

_TICK_S = 0.02


@dataclass(frozen=True)
class Coordinator:
    """Runs epochs until an operator stops the run or it reaches its goal. `epoch_assembly` builds it."""

    state: RunnerState
    intake: CommandIntake
    pauses: StateCommands
    requests: Requests
    disk: Disk
    away: OutageTracker
    binlog: BinlogCheck
    reads: SourceReads
    captured: CapturedTables
    chunks: PendingChunks
    redumps: RedumpExecutor
    tables: TableChanges
    epochs: EpochCommit
    retries: EpochRetries
    publisher: Publisher
    work: PendingWork
    pace: EpochPace
    progress: ProgressEvents
    refused: RefusedTables

    def run(self, until: str | None) -> bool:
        """Run epochs until `until` ("snapshot", "caught-up"), or for ever.

        Returns True once the goal is reached, False after a stop; all finished chunks are then committed.

        Parked chunks do not keep a run from its goal: the caller checks `Gate.parking`.
        """
        with closing(self.reads), self.away.aborting(self.reads.abort_waits):
            self.tables.begin()
            connection = self.reads.connection
            with connection.turn():
                target, now_s = connection.position(), server_time_s(connection.now)
            self.epochs.begin(now_s)
            self.progress.resumed(self.epochs.state())
            self.progress.show(self.epochs.state())
            while not self._reached(until, target):
                self.binlog.require_on()
                if self.state.stopping:
                    self._wind_up()
                    return self._reached(until, target)
                if self.state.paused or self.disk.blocks_work():
                    self._pause()
                    continue
                self.pauses.answer_lifted()
                self._epoch(prompt=until is not None)
            return True

    def _reached(self, until: str | None, target: Position) -> bool:
        """Whether the goal is reached and everything is published; the next epoch handles a failed publication."""
        if not self._is_done(until, target):
            return False
        self.publisher.drain()
        with suppress(HelperError):  # an inbox that cannot be written: all commands wait
            self.intake.poll()  # the goal is not reached while commands wait
        return self._is_done(until, target) and not self.publisher.tables.failed_tables()

    def _is_done(self, until: str | None, target: Position) -> bool:
        behind = until == "caught-up" and self.epochs.position.order < target.order
        return until is not None and not behind and self.work.is_copied

    def _pause(self) -> None:
        self.away.back(EPOCHS)  # no epochs run during a pause
        self.requests.answer()
        self.chunks.gather()
        if not self.reads.snapshot.under_way:
            self.pauses.done("pause")
        self.state.wait(0.2)

    def _wind_up(self) -> None:
        """Stop gracefully.

        Waits for running jobs and commits their chunks, so that the next run does not read them again.

        Nothing can be committed while the source is away.
        """
        self.reads.end_throttled()
        while self.reads.snapshot.under_way and not self.away.now:
            self.chunks.gather()
            clock.sleep(_TICK_S)
        if self.away.now:
            return
        self.chunks.gather()
        try:
            self.reads.connection.refresh()
            with self.reads.connection.turn():
                while self.chunks.waiting:
                    self.epochs.commit(self.reads.connection.position())
            self.requests.finish_redumps()
        except SourceAwayError:
            return
        except (TransientError, OSError) as error:
            self.retries.failed_last(error)  # the next run reads again what could not be written

    def _epoch(self, *, prompt: bool) -> None:
        """One iteration: assign chunks, wait until the epoch is due, commit it. prompt: the end of the run waits."""
        while True:
            self.reads.assign(self.epochs.candidate)
            self.chunks.gather()
            waited_for = prompt or self.work.is_waited_for
            if self.pace.is_due(clock.monotonic_s(), waited_for=waited_for) or not self.state.running:
                break
            if self.disk.blocks_work():
                return
            if (self.chunks.frozen or self.redumps.waiting) and self.reads.snapshot.idle:
                break
            clock.sleep(_TICK_S)
        self.pace.begin(clock.monotonic_s())
        try:
            self.publisher.check()
            self.reads.require_driver()
            self.requests.answer()
            self.tables.commit_decisions()
            with self.reads.connection.turn():
                self._follow()
            self.retries.succeeded()
        except FAILURES as error:
            self.retries.failed(error)

    def _follow(self) -> None:
        """Change tables, and commit an epoch if there is something to commit."""
        connection = self.reads.connection
        self.refused.look(connection, self.epochs.state().tables)
        self.tables.commit_memberships(connection.now)
        asked_s, committed_position = clock.monotonic_s(), self.epochs.position
        position = connection.position()
        self.epochs.commits.measured(position, asked_s)
        if position.order < committed_position.order:
            connection.check(self.epochs.state())
            raise went_back(committed_position, position)  # must not pass for "nothing new"
        captured = {name: (table, self.captured.plans[name]) for name, table in self.captured.tables.items()}
        to_resnapshot = self.redumps.begin(self.epochs.state().tables, captured)
        outdated = position.order > committed_position.order
        if outdated or to_resnapshot or self.chunks.waiting or self.work.resnapshot_due:
            self.epochs.commit(position, to_resnapshot)
        else:
            self.reads.snapshot.binlog_read(self.pace.began_s)
            self.pace.done(0.0, changes=0)

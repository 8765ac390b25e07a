"""The epoch loop (docs/correctness.md).

Each epoch freezes the set of finished chunks, takes the source's position P', and reads the binlog from min(P, A of the
frozen chunks) to P'. It commits chunks and changes in one ledger file and submits that to the publisher. The order is
the proof. A frozen chunk's high watermark lies before P', so the range ends after it. A chunk that is not frozen joins
a later epoch, whose range starts at or before its high watermark.

Separate Spark jobs read the chunks: the binlog never waits for the snapshot, nor the snapshot for the binlog.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from engine.base import clock
from engine.base.errors import AccountRefusedError, SourceAwayError, TidemarkError, TransientError, stop_of
from engine.capture.binlog.known_gtids import known_gtids, position_after, require_gtids
from engine.capture.binlog.statements import Alteration
from engine.capture.captured_tables import CapturedTables
from engine.capture.redump_requests import check_ranges
from engine.capture.reports import RangeReport, RedumpReport
from engine.capture.tasks import ChunkGroup
from engine.destination.publisher import Publisher
from engine.journal import Journal
from engine.ledger.records import EpochRecord, ErrorRecord
from engine.ledger.state import State, TableState, following
from engine.ledger.store import Ledger
from engine.plan.coverage import split_as_dict
from engine.run.commands.control import Control
from engine.run.epochs.delivery import Delivery
from engine.run.epochs.epoch import (
    committed,
    completed,
    dates_nulled,
    epoch_facts,
    split_range,
    table_records,
    up_to_alteration,
)
from engine.run.epochs.epoch_pace import EpochPace
from engine.run.epochs.epoch_reader import EpochReader
from engine.run.epochs.publisher_commands import Requests, merge_soon
from engine.run.lifecycle.source_connection import SourceConnection
from engine.run.monitors.lag import Committed
from engine.run.monitors.progress import Progress
from engine.run.redump.executor import RedumpExecutor
from engine.run.snapshot.gate import Gate
from engine.run.snapshot.read_folder import ReadFolder
from engine.run.snapshot.scheduler import snapshot_of
from engine.run.snapshot.table_copy import Finished, planned, table_copy
from engine.run.snapshot.throttle import Health, hold
from engine.run.source_loss.outage import EPOCHS, OutageTracker
from engine.run.tables.alterations import Alterations, changed
from engine.run.tables.bootstrap import Source
from engine.run.tables.membership import MembershipChanges
from engine.run.tables.schema_change import Verdict
from engine.source.ancestry import went_back
from engine.source.positions import Position, binlog_files, current, position_from_dict
from engine.source.watermarks import Candidate, server_time_s
from engine.spark.session import Session
from engine.spec.settings import Spec

_TICK_S = 0.02


class Coordinator:
    """Runs epochs until an operator stops the run or it reaches `until` ("snapshot", "caught-up")."""

    def __init__(
        self,
        spec: Spec,
        source: Source,
        session: Session,
        ledger: Ledger,
        publisher: Publisher,
        control: Control,
        gate: Gate,
        journal: Journal,
        away: OutageTracker,
    ) -> None:
        assert ledger.state is not None  # the runner commits epoch 0 first
        self._spec = spec
        self._source = source
        self._session = session
        self._ledger = ledger
        self._publisher = publisher
        self._control = control
        self._journal = journal
        self._gate = gate
        self._away = away
        first = spec.first_server_id()
        self._connection = SourceConnection(source, first)
        self._mariadb = source.server.flavor == "mariadb"
        self._captured = captured = CapturedTables(spec, publisher.destination.landing)
        self._table_copy = partial(table_copy, spec, captured)
        self._gtids = known_gtids(self._connection.now, source.endpoint, source.server, self.position, first)
        self._candidate = Candidate(self.position, 0.0)
        self._last_ts = 0
        self._frozen: list[Finished] = []
        self._replaced: dict[tuple[str, int], list[Path]] = {}
        self._stopped: dict[str, ErrorRecord] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._progress = Progress(control.activity, journal)
        self._delivery = Delivery(spec, ledger, publisher, control, journal)
        self._last_epoch = -math.inf
        self._prompt = False
        self._pace = EpochPace(spec.poll_interval_s, spec.sink.merge_interval_s)
        self._read_folder = ReadFolder(spec.sink.path, ledger.state.ledger)
        self._snapshot = snapshot_of(spec, source.endpoint, source.turns, session, gate, control.activity, journal)
        self._redumps = RedumpExecutor(
            self._snapshot,
            control,
            journal,
            self._table_copy,
            lambda name, redump: check_ranges(source.endpoint, redump, captured.tables[name], captured.plans[name]),
            publisher.has_copy,
            captured.reader,
            captured.chunks,
            publisher.unmerged,
            partial(merge_soon, publisher, ledger),
        )
        self._membership = MembershipChanges(spec, publisher, control, self._snapshot.reading)
        self._requests = Requests(publisher, control, ledger, self._redumps)
        self._alterations = Alterations(spec, source, self._captured, publisher)
        self._reader = EpochReader(
            source.endpoint, first, self._mariadb, session, captured, self._snapshot, self._redumps
        )
        gate.parking.keep_only(ledger.state.tables)
        for name, table in ledger.state.tables.items():
            self._capture(name, table)

    def _capture(self, name: str, table: TableState) -> None:
        """Capture a table from its committed state."""
        self._captured.take(name, table)
        if not table.stopped and not table.copied:
            self._snapshot.add(self._table_copy(name, table.coverage))

    @property
    def state(self) -> State:
        assert self._ledger.state is not None
        return self._ledger.state

    @property
    def position(self) -> Position:
        """The committed position."""
        return position_from_dict(self.state.position)

    def committed(self) -> Committed:
        """The committed position and the time of its last event, for the lag monitor."""
        return Committed(self.position, self._last_ts)

    def run(self, until: str | None) -> bool:
        """Run epochs.

        Returns True once the goal is reached, False after a stop; all finished chunks are then committed.

        Parked chunks do not keep a run from its goal: the caller checks `Gate.parking`.
        """
        with self._connection.turn():
            target, now_s = current(self._connection.now, self._source.server), server_time_s(self._connection.now)
        self._candidate = Candidate(replace(self.position, gtids=self._gtids.settled), now_s)
        self._prompt = until is not None
        self._progress.resumed(self.state)
        self._progress.show(self.state)
        self._control.poll_inbox()  # the goal is not reached while commands wait
        source, control, pace = self._source, self._control, self._gate.pace
        self._health = Health(
            source.endpoint, pace, control.overloaded, control.helpers, control.activity, source.turns
        )
        self._away.abort_waits = self._abort_waits
        try:
            while not self._reached(until, target):
                self._away.require_binlog()
                if self._control.stopping:
                    self._wind_up()
                    return self._reached(until, target)
                if self._control.paused or self._control.disk.blocks_work():
                    self._pause()
                    continue
                self._control.settle()
                self._epoch()
            return True
        finally:
            self._away.abort_waits = None
            self._health.close()
            self._read_folder.end_throttled_reads()
            self._snapshot.close()
            self._connection.close()

    def _reached(self, until: str | None, target: Position) -> bool:
        """Whether the goal is reached and everything is published; the next epoch handles a failed publication."""
        copied = self.state.copied and self._snapshot.idle and not self._frozen and not self._asked
        behind = until == "caught-up" and self.position.order < target.order
        if until is None or behind or not (copied or self._only_parked()):
            return False
        self._publisher.settle()
        return not self._publisher.tables.unpublished()

    @property
    def _resnapshot_due(self) -> bool:
        """Whether a resnapshot was decided and has not begun yet."""
        return any(table.due for table in self.state.tables.values())

    @property
    def _asked(self) -> bool:
        """Whether a command or a decision waits for the next epochs."""
        return self._control.pending or self._membership.waiting or self._resnapshot_due

    @property
    def _waited_for(self) -> bool:
        """Whether a copy, a command or the end of the run waits for the next epochs."""
        return self._prompt or self._asked or self._redumps.waiting or not self.state.copied

    def _only_parked(self) -> bool:
        """Whether only parked chunks remain, and no command waits for anything else."""
        busy = self._frozen or self._stopped or self._resnapshot_due or not self._snapshot.idle
        left = self._gate.parking.pending(self.state.tables)
        return bool(left) and not busy and self._redumps.blocked(self.state.tables)

    def _prototype(self) -> ChunkGroup:
        source, first, settle_s = self._source, self._spec.first_server_id(), self._spec.source.settle_s
        return ChunkGroup(
            source.endpoint, first, source.watermarks, settle_s, self._candidate, (), self._read_folder.path
        )

    def _abort_waits(self) -> None:
        """Abort all waits for an unreachable source, so that a stop is quick; called from another thread."""
        self._connection.abort_waits()
        self._snapshot.abort_waits()
        self._session.interrupt()

    def _pause(self) -> None:
        self._away.back(EPOCHS)  # no epochs run during a pause
        self._requests.answer()
        self._gather()
        if not self._snapshot.under_way:
            self._control.done("pause")
        self._control.wait(0.2)

    def _wind_up(self) -> None:
        """Stop gracefully.

        Waits for running jobs and commits their chunks, so that the next run does not read them again.

        Nothing can be committed while the source is away.
        """
        self._read_folder.end_throttled_reads()
        while self._snapshot.under_way and not self._away.now:
            self._gather()
            clock.sleep(_TICK_S)
        if self._away.now:
            return
        self._gather()
        try:
            self._connection.refresh()
            with self._connection.turn():
                while self._frozen or self._stopped or self._redumps.waiting:
                    self._commit_epoch(current(self._connection.now, self._source.server))
            self._requests.settle()
        except SourceAwayError:
            return
        except (TransientError, OSError) as error:
            if self._control.disk.takes(error):
                self._control.disk.failed("log", error)  # the next run reads again what could not be written
            elif not self._away.now:
                raise

    def _gather(self) -> None:
        batch = self._snapshot.collect()
        for finished in batch.finished:
            self._redumps.take(finished) if finished.redump else self._frozen.append(finished)
        for name, error in batch.failed.items():
            self._redumps.failed(name, error)
        for name, error in batch.stopped.items():
            self._stop_table(name, error)
        self._connection.require_enough(batch)

    def _stop_table(self, name: str, error: TidemarkError) -> None:
        """Stop reading a table; the next epoch commits that it stopped."""
        self._drop(name)
        self._stopped[name] = stop_of(error, name)

    def _drop(self, name: str) -> None:
        """Discard the table's uncommitted chunks and the running reads of it."""
        self._snapshot.drop(name)
        self._redumps.drop(name)
        self._frozen = [f for f in self._frozen if f.table != name]

    def _epoch(self) -> None:
        """One iteration: assign chunks, wait until the epoch is due, commit it."""
        due = self._last_epoch + self._spec.poll_interval_s
        while True:
            self._snapshot.assign(self._prototype(), partial(hold, self._gate.pace, self._health))
            self._gather()
            now_s = clock.monotonic_s()
            prompt = now_s >= self._last_epoch + self._pace.interval_s or self._waited_for
            if (now_s >= due and prompt) or self._control.state != "running":
                break
            if self._control.disk.blocks_work():
                return
            if (self._frozen or self._redumps.waiting) and self._snapshot.idle:
                break
            clock.sleep(_TICK_S)
        self._last_epoch = clock.monotonic_s()
        try:
            self._publisher.check()
            self._requests.answer()
            self._commit_decisions()
            with self._connection.turn():
                self._follow()
            self._away.epoch_done()
            self._control.disk.succeeded("log")
        except (TransientError, AccountRefusedError, OSError) as error:
            if self._control.disk.takes(error):
                self._control.disk.failed("log", error)
            elif isinstance(error, OSError):
                raise
            else:
                self._retry(error)

    def _follow(self) -> None:
        """Change tables, and commit an epoch if there is something to commit."""
        self._change_tables()
        for name, error in self._membership.merged(self._connection.now, self.state, self._captured.tables).items():
            self._stop_table(name, error)
        position = current(self._connection.now, self._source.server)
        if position.order < self.position.order:
            self._connection.check(self.state)
            raise went_back(self.position, position)  # must not pass for "nothing new"
        captured = {name: (table, self._captured.plans[name]) for name, table in self._captured.tables.items()}
        asked = self._redumps.begin(self.state.tables, captured)
        outdated = position.order > self.position.order
        if self._frozen or outdated or self._stopped or asked or self._resnapshot_due or self._redumps.waiting:
            self._commit_epoch(position, asked)
        else:
            self._snapshot.binlog_read(self._last_epoch)
            self._pace.done(0.0, changes=0)

    def _with_files(self, frozen: Sequence[Finished]) -> list[Finished]:
        """The chunks whose files still exist. The others are read again, because someone deleted their files."""
        found = [f for f in frozen if self._delivery.has_files(self._captured.chunks(f.table), f.files)]
        for finished in (f for f in frozen if f not in found):
            self._frozen.remove(finished)
            self._snapshot.lost(finished)
        return found

    def _commit_decisions(self) -> None:
        """Commit stops and resnapshots that were decided, before anything that can fail: the source may be away."""
        for name in self._delivery.commit_decisions(self.state, self._captured.tables, self._stopped):
            self._drop(name)
        self._stopped = {}
        self._progress.show(self.state)

    def _change_tables(self) -> None:
        """Commit pending membership changes (`run.tables.membership`)."""
        while tables := self._membership.next(self._connection.now, self.state):
            record = completed(self.state, following(self.state, self._journal.run, tables))
            self._delivery.commit(record)
            for name, change in tables.items():
                self._drop(name)
                self._captured.forget(name)
                self._stopped.pop(name, None)
                if name not in self.state.tables:
                    self._control.forget(name)
                    continue
                self._capture(name, self.state.tables[name])
                if "stopped" not in change:
                    plan = self._captured.plans[name]
                    self._journal.write(planned(plan))
            self._gate.parking.keep_only(self.state.tables)
            self._publisher.submit(record)
            self._progress.show(self.state)

    def _retry(self, error: TidemarkError) -> None:
        """Retry until the source answers; return early on a pause or a stop.

        Raises the error if the source stays away too long, if it persists while the source answers, or if connections
        are too few.
        """
        self._connection.require_enough(error)
        while self._control.state == "running":
            self._control.wait(self._away.pause_after(error))
            if self._control.state != "running":
                return
            try:
                self._connection.reopen()
                with self._connection.turn():
                    self._connection.check(self.state)
                break
            except (TransientError, AccountRefusedError) as again:
                error = again

    def _commit_epoch(self, position: Position, asked: Collection[str] = ()) -> None:
        """Commit an epoch: read the binlog to `position`, or as far as one goes, and submit it to the publisher."""
        began, seen_s = clock.monotonic_s(), server_time_s(self._connection.now)
        known = self.position
        due, again = self._due(known), self._redumps.due(known)
        first = min([known, *(f.high for f in due)], key=lambda p: p.order)
        parts = split_range(binlog_files(self._connection.now), first, position, self._session.slots, known)
        end = parts[-1][1] if parts else known
        frozen = self._with_files([f for f in due if f.high.order <= max(end.order, known.order)])
        redumped, read = self._reader.read(parts, frozen, again, self.state, self._stopped)
        reports, end, alteration = up_to_alteration(read, end)
        if end.order < known.order:
            # The range began before `known`, for the frozen chunks alone, and did not get back to it.
            reports, frozen = [], []
        # No change after its high watermark was emitted for a chunk that is exact after the schema change: it waits.
        frozen = [f for f in frozen if f.high.order <= max(end.order, known.order)]
        self._delivery.require_files(self._captured.changes, reports, redumped)
        read_s = clock.monotonic_s() - began
        ends = max([end, known], key=lambda p: p.order)
        self._verdicts = self._alterations.judge(self._connection.now, self.state, alteration, asked, ends)
        record = self._record(known, end, frozen, reports, redumped)
        self._delivery.commit(record)
        self._redumps.note_changes(record)
        published = {f.identity for f in frozen}
        self._frozen = [f for f in self._frozen if f.identity not in published]
        for path in (path for identity in published for path in self._replaced.pop(identity, ())):
            path.unlink(missing_ok=True)
        if end.order >= position.order:
            self._snapshot.binlog_read(began)
        for name in record["tables"].keys() - self._verdicts.keys():  # `_apply_verdicts` drops those
            self._snapshot.committed(name, self.state.tables[name].coverage)
        self._stopped = {}
        self._redumps.committed(again, redumped)
        if any(report.defined for report in reports):
            self._membership.note_definition()
        if alteration is not None:
            self._last_epoch = -math.inf  # there may be more changes after it
        self._apply_verdicts(alteration)
        self._redumps.resnapshot_begun(asked)
        self._publisher.submit(record)
        self._last_ts = max([self._last_ts, *(r.last_ts for r in reports)])
        self._gtids = self._gtids.after(reports, mariadb=self._mariadb)
        self._reader.committed(reports)
        self._candidate = Candidate(replace(self.position, gtids=self._gtids.settled), seen_s, self._reader.places)
        took_s = clock.monotonic_s() - began
        self._journal.write(done := committed(record, len(frozen), reports, read_s, took_s, redumped))
        self._pace.done(max(took_s, self._publisher.append_s), done.changes)
        for event in dates_nulled(record):
            self._journal.write(event)
        self._progress.show(self.state)
        require_gtids(self._connection.now, self._source.watermarks, reports)

    def _apply_verdicts(self, alteration: Alteration | None) -> None:
        """Apply the verdicts, which are committed now, to the captured tables."""
        for name, found in self._verdicts.items():
            self._journal.write(changed(name, found, alteration))
            self._drop(name)
            if found.error is not None:
                continue
            self._captured.put(found.table, found.plan)
            if found.outcome == "resnapshotted":
                self._journal.write(planned(found.plan))
            if not self.state.tables[name].copied:
                self._snapshot.add(self._table_copy(name, self.state.tables[name].coverage))
        self._verdicts = {}

    def _due(self, known: Position) -> list[Finished]:
        """The chunks that an epoch starting at `known` may publish."""
        forwarded = self._reader.fast_forward(self._frozen, known)
        self._replaced = forwarded.replaced
        for name, error in forwarded.stopped.items():
            self._stop_table(name, error)
        return [f for f in forwarded.chunks if f.table not in self._stopped]

    def _record(
        self,
        known: Position,
        end: Position,
        frozen: Sequence[Finished],
        reports: Sequence[RangeReport],
        redumped: Sequence[RedumpReport],
    ) -> EpochRecord:
        new_chunks = {}
        for name, chunks in self._snapshot.new_chunks().items():
            coverage = self._snapshot.coverage(name)
            assert coverage is not None
            new_chunks[name] = split_as_dict(chunks, coverage)
        changes = {
            name: found.to_record(self._captured.tables[name], self.state.tables[name].projection)
            for name, found in self._verdicts.items()
        }
        tables, stopped = table_records(new_chunks, frozen, reports, self._stopped, changes, redumped)
        self._verdicts = {n: v for n, v in self._verdicts.items() if n not in stopped and n not in self._stopped}
        for name, error in stopped.items():
            self._stop_table(name, error)
            if due := self._delivery.due_after(error, self._captured.tables[name]):
                tables[name]["due"] = due
        written = [*(part.changes for part in redumped), *(c for report in reports for c in report.tables.values())]
        to = position_after(known, end, reports, self._gtids, mariadb=self._mariadb).as_dict()
        next_seq = max([self.state.next_seq, *(changes.next_seq for changes in written)])
        facts = epoch_facts(reports, self.state.largest)
        return completed(
            self.state, following(self.state, self._journal.run, tables, to=to, next_seq=next_seq, **facts)
        )

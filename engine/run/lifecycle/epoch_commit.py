"""One epoch: reads the binlog range and commits it with the finished chunks (docs/correctness.md).

`run.lifecycle.coordinator` freezes the chunks and takes the position before it calls `commit`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.base import clock
from engine.capture.binlog.known_gtids import KnownGtids, position_after, require_gtids
from engine.capture.binlog.statements import Alteration
from engine.capture.captured_tables import CapturedTables
from engine.capture.reports import RangeReport, RedumpReport
from engine.destination.publisher import Publisher
from engine.journal import Journal
from engine.ledger.records import EpochRecord
from engine.ledger.state import State, following
from engine.plan.coverage import split_as_dict
from engine.run.epochs.commit_clock import CommitClock, changes_by_table
from engine.run.epochs.delivery import Delivery
from engine.run.epochs.epoch import (
    commit_event,
    completed,
    dates_nulled,
    split_range,
    table_records,
    up_to_alteration,
    with_facts,
)
from engine.run.epochs.epoch_pace import EpochPace
from engine.run.epochs.epoch_reader import EpochReader
from engine.run.epochs.pending_chunks import PendingChunks
from engine.run.lifecycle.refused_tables import RefusedTables
from engine.run.lifecycle.source_connection import SourceConnection
from engine.run.lifecycle.table_changes import TableChanges
from engine.run.monitors.lag import CommittedPosition
from engine.run.monitors.progress import ProgressEvents
from engine.run.redump.executor import RedumpExecutor
from engine.run.snapshot.scheduler import SnapshotScheduler
from engine.run.snapshot.table_copy import Finished
from engine.run.tables.alterations import Alterations, Judgement
from engine.run.tables.first_epoch import SourceAccess
from engine.run.tables.membership import MembershipChanges
from engine.run.tables.schema_change import SchemaVerdict
from engine.source.positions import Position, binlog_files
from engine.source.watermarks import Candidate, server_time_s
from engine.spark.session import Session


@dataclass(frozen=True)
class _EpochContent:
    """What an epoch commits."""

    committed_position: Position
    """The committed position before it."""
    end: Position
    """Where its range ends; before `committed_position` if the range did not get back to it."""
    frozen: Sequence[Finished]
    reports: Sequence[RangeReport]
    redumped_chunks: Sequence[Finished]
    redumped: Sequence[RedumpReport]
    alteration: Alteration | None
    """The schema change that ends it, if one does."""


@dataclass
class EpochCommit:
    """Commits the epochs of one coordinator. Used by one thread, but for `committed`."""

    state: Callable[[], State]
    """The committed state."""
    source: SourceAccess
    connection: SourceConnection
    session: Session
    journal: Journal
    captured: CapturedTables
    snapshot: SnapshotScheduler
    redumps: RedumpExecutor
    chunks: PendingChunks
    reader: EpochReader
    delivery: Delivery
    publisher: Publisher
    alterations: Alterations
    membership: MembershipChanges
    tables: TableChanges
    progress: ProgressEvents
    pace: EpochPace
    refused: RefusedTables
    gtids: KnownGtids
    """The GTIDs up to the committed position."""
    candidate: Candidate
    """Of the low watermarks of the chunks that are read next."""
    commits: CommitClock = field(default_factory=CommitClock)
    last_ts: int = 0
    """When the last committed change was made, in seconds of the source's clock; 0: unknown."""

    @property
    def position(self) -> Position:
        """The committed position."""
        return self.state().position

    def committed(self) -> CommittedPosition:
        """The committed position and the time of its last event, for the lag monitor."""
        return CommittedPosition(self.position, self.last_ts)

    def begin(self, now_s: float) -> None:
        """Take the committed position as candidate. now_s: the source's clock, after the binlog was at least there."""
        self.candidate = Candidate(replace(self.position, gtids=self.gtids.proved_set), now_s)

    def commit(self, position: Position, to_resnapshot: Collection[str] = ()) -> None:
        """Commit an epoch: read the binlog to `position`, or as far as one goes, and submit it to the publisher.

        to_resnapshot: tables to resnapshot because an operator asked for it.
        """
        began_s, seen_s = clock.monotonic_s(), server_time_s(self.connection.now)
        content = self._read(position)
        read_s = clock.monotonic_s() - began_s
        ends = max([content.end, content.committed_position], key=lambda p: p.order)
        judged = self.alterations.judge(
            self.connection.now,
            self.state(),
            content.alteration,
            to_resnapshot,
            ends,
            self.refused.waits,
            self.snapshot.unread,
        )
        record, verdicts = self._record(content, judged)
        self.delivery.commit(record)
        self._note_commit(record, content, verdicts)
        if content.end.order >= position.order:
            self.snapshot.binlog_read(began_s)
        self._change_tables(content, verdicts)
        errors = {name: one.error for name, one in judged.verdicts.items() if one.error is not None}
        self.redumps.resnapshot_begun(set(to_resnapshot) - errors.keys(), errors)
        for name, error in judged.waiting.items():
            self.refused.note(self.captured.tables[name], error)
        commits = self.commits.times(content.committed_position, content.end, content.reports, began_s - seen_s)
        self.publisher.submit(record, commits, changes_by_table(content.reports))
        self._advance(content.reports, seen_s)
        took_s = clock.monotonic_s() - began_s
        self.journal.write(
            done := commit_event(record, len(content.frozen), content.reports, read_s, took_s, content.redumped)
        )
        self.pace.done(max(took_s, self.publisher.append_s), done.changes)
        for event in dates_nulled(record):
            self.journal.write(event)
        self.progress.show(self.state())
        require_gtids(self.connection.now, self.source.watermarks, content.reports)

    def _read(self, position: Position) -> _EpochContent:
        """Read the frozen chunks' part and the binlog to `position`, or as far as one epoch goes."""
        committed_position = self.position
        due, again = self.chunks.due(committed_position), self.redumps.due(committed_position)
        first = min([committed_position, *(f.high for f in due)], key=lambda p: p.order)
        parts = split_range(binlog_files(self.connection.now), first, position, self.session.slots, committed_position)
        end = parts[-1][1] if parts else committed_position
        frozen = self.chunks.with_files([f for f in due if f.high.order <= max(end.order, committed_position.order)])
        redumped, binlog_reports = self.reader.read(parts, frozen, again, self.state(), self.chunks.stopped)
        reports, end, alteration = up_to_alteration(binlog_reports, end)
        if end.order < committed_position.order:
            # The range began before `committed_position`, for the frozen chunks alone, and did not get back to it.
            reports, frozen = [], []
        # No change after its high watermark was emitted for a chunk that is exact after the schema change: it waits.
        frozen = [f for f in frozen if f.high.order <= max(end.order, committed_position.order)]
        self.delivery.require_files(self.captured.changes, reports, redumped)
        return _EpochContent(committed_position, end, frozen, reports, again, redumped, alteration)

    def _record(self, content: _EpochContent, judged: Judgement) -> tuple[EpochRecord, Mapping[str, SchemaVerdict]]:
        """The epoch's record, and the verdicts on tables that do not stop in it."""
        verdicts = judged.verdicts
        new_chunks = {}
        for name, chunks in self.snapshot.new_chunks().items():
            coverage = self.snapshot.coverage(name)
            assert coverage is not None
            new_chunks[name] = split_as_dict(chunks, coverage)
        changes = {
            name: verdict.to_record(self.captured.tables[name], self.state().tables[name].projection)
            for name, verdict in verdicts.items()
        } | dict(judged.postponed)
        reports, redumped = content.reports, content.redumped
        tables, stopped = table_records(new_chunks, content.frozen, reports, self.chunks.stopped, changes, redumped)
        verdicts = {n: v for n, v in verdicts.items() if n not in stopped and n not in self.chunks.stopped}
        for name, error in stopped.items():
            self.chunks.stop(name, error)
            if due := self.delivery.due_after(error, self.captured.tables[name]):
                tables[name] = replace(tables[name], due=due)
        written = [*(part.changes for part in redumped), *(c for report in reports for c in report.tables.values())]
        to = position_after(content.committed_position, content.end, reports, self.gtids, mariadb=self.reader.mariadb)
        next_seq = max([self.state().next_seq, *(changes.next_seq for changes in written)])
        record = replace(following(self.state(), self.journal.run, tables), to_position=to, next_seq=next_seq)
        return completed(self.state(), with_facts(record, reports, self.state().largest)), verdicts

    def _note_commit(self, record: EpochRecord, content: _EpochContent, verdicts: Mapping[str, SchemaVerdict]) -> None:
        """Let those who hold its chunks know that the ledger has the epoch."""
        self.redumps.note_changes(record)
        self.chunks.published(content.frozen)
        for name in record.tables.keys() - verdicts.keys():  # `apply_verdicts` drops those
            self.snapshot.note_commit(name, self.state().tables[name].coverage)
        self.chunks.stops_committed()
        self.redumps.note_commit(content.redumped_chunks, content.redumped)

    def _change_tables(self, content: _EpochContent, verdicts: Mapping[str, SchemaVerdict]) -> None:
        if any(report.may_define_tables for report in content.reports):
            self.membership.note_definition()
        if content.alteration is not None:
            self.pace.hurry()  # there may be more changes after it
        self.tables.apply_verdicts(verdicts, content.alteration)

    def _advance(self, reports: Sequence[RangeReport], seen_s: float) -> None:
        """Move on to the new committed position. seen_s: the source's clock before the range was read."""
        self.last_ts = max([self.last_ts, *(r.last_ts for r in reports)])
        self.gtids = self.gtids.after(reports, mariadb=self.reader.mariadb)
        self.reader.note_commit(reports)
        self.candidate = Candidate(replace(self.position, gtids=self.gtids.proved_set), seen_s, self.reader.places)

"""The chunk scheduler: which chunks are read next, by which job, and what they return.

Tables are split while they are read (`run.snapshot.splitter`), a bounded number of chunks ahead. Threads submit groups
of chunks to Spark as one-task jobs, each worth at least a second of work. At most one group more than there are readers
is in flight, so that the binlog waits for one task at most. Spark gives the next group to whichever slot is free.
Groups shrink towards the end, so that the readers finish together.

With a rate, a group reads slowly and keeps its slot for long (`run.snapshot.throttle`). Then no more groups are in
flight than there are readers, and one slot of several stays free for the binlog.
"""

import math
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from engine.base import clock
from engine.base.errors import PrivilegesMissingError, TableStoppedError, TidemarkError, TransientError
from engine.capture.chunk.chunk_reader import ChunkRequest
from engine.capture.reports import ChunkReport, FailureReport, ReaderReport
from engine.capture.row_counter import rows_read
from engine.capture.tasks import ChunkGroup
from engine.journal import Journal
from engine.journal.events import ChunkAssigned, ChunkFinished, ChunkPlanned
from engine.plan.chunks import text
from engine.plan.coverage import Chunk, Coverage, Split
from engine.run.commands.heartbeat import Activity, LongestRead
from engine.run.snapshot.gate import Gate
from engine.run.snapshot.refused_reads import RefusedReads
from engine.run.snapshot.retries import ATTEMPTS, Batch, ChunkRetries
from engine.run.snapshot.splitter import ChunkSplitter
from engine.run.snapshot.standstill import standstill
from engine.run.snapshot.table_copy import ROWS_PER_S, Finished, TableCopy
from engine.run.snapshot.throttle import RateShare
from engine.source.connect import Endpoint
from engine.source.positions import bytes_between
from engine.source.turns import TASK, Turns
from engine.spark.session import Session
from engine.spec.settings import Spec

GROUP_S = 1.0
"""Target seconds of work per group of chunks."""
AHEAD = 256
"""The most chunks of a table that are split ahead of its readers."""
_SHOW_S = 1.0
"""Seconds between looks at the rows that readers have read so far."""
_MOST_READERS = 1024
"""Each occupies a thread here that waits for its job."""


@dataclass(frozen=True)
class _SubmittedGroup:
    """The chunks of one job: numbers by table, and their table copies."""

    number: int
    chunks: dict[str, list[int]]
    copies: dict[str, TableCopy]
    since: str
    """When the job began: UTC text."""
    lease: RateShare
    counts: Path | None
    """The file with the rows that its reader has read so far of a chunk."""


@dataclass(frozen=True)
class ReaderSlots:
    """How many tasks run at once. Both numbers change as executors come and go."""

    readers: Callable[[], int]
    """Those that read chunks."""
    tasks: Callable[[], int]
    """All, those that read the binlog included."""

    def most(self, gate: Gate) -> int:
        """The number of groups read at once."""
        readers = gate.pace.settings.readers or self.readers()
        return max(1, min(readers, self.tasks() - 1)) if gate.pace.limited else readers


class SnapshotScheduler:
    """Splits tables, assigns chunks and collects results, in one session.

    Used by one thread; only the jobs and the splitter run in others.
    """

    def __init__(
        self,
        slots: ReaderSlots,
        gate: Gate,
        activity: Activity,
        max_memory: int,
        journal: Journal,
        splitter: ChunkSplitter,
        run: Callable[[ChunkGroup, str], list[ReaderReport]],
        refused_reads: RefusedReads,
        attempts: int = ATTEMPTS,
    ) -> None:
        """gate: what can block chunk reads. activity: receives the running reads, and why there are none.

        max_memory: of a chunk's window, in bytes. run: runs one group as a Spark job and returns its reports.
        attempts: failures of a chunk before it is parked.
        """
        self._slots = slots
        self._gate = gate
        self._activity = activity
        self._max_memory = max_memory
        self._journal = journal
        self._splitter = splitter
        self._run = run
        self._pool = ThreadPoolExecutor(_MOST_READERS, thread_name_prefix="chunks")
        self._tables: dict[str, TableCopy] = {}
        self._jobs: dict[Future[list[ReaderReport]], _SubmittedGroup] = {}
        self._groups = 0
        self._shown_s = -math.inf
        self._refused_reads = refused_reads
        self._retries = ChunkRetries(journal, gate.parking, attempts, gate.disk, refused_reads)

    def add(self, copy: TableCopy, wait_s: float = 0.0) -> None:
        """Start or continue copying a table, in so many seconds."""
        if wait_s:
            copy.retry_at = clock.monotonic_s() + wait_s
            copy.begins = clock.utc_text(clock.utc_now() + timedelta(seconds=wait_s))
        self._tables[copy.table.full_name] = copy
        self._retries.add(copy)
        # An earlier run may have been killed after a commit, before it journaled the chunks.
        self._report_chunks(copy, list(copy.waiting))

    def drop(self, table: str) -> None:
        """Stop splitting and reading a table; running reads of it are ignored."""
        if table in self._tables:
            self._tables[table].drop()
            self._splitter.forget(table)
            self._refused_reads.end(table)

    def reading(self, table: str) -> bool:
        """Whether a job is reading chunks of a table, even if their result is ignored."""
        return any(table in group.chunks for group in self._jobs.values())

    def unread(self, table: str) -> bool:
        """Whether a table's copy has yet to begin: no job has read any of it, and nobody has paused it."""
        copy = self._tables.get(table)
        if copy is None or copy.dropped or copy.redump or self._gate.is_paused(table):
            return False
        return not copy.turn and not copy.coverage.finished

    def redumped(self, table: str, chunk: int) -> bool:
        """Record that a redumped chunk is committed. Returns whether it was the last one of its command."""
        copy = self._tables[table]
        copy.note_commit(copy.coverage.finish([chunk]))
        if copy.coverage.copied:
            del self._tables[table]
        return copy.coverage.copied

    def lost(self, finished: Finished) -> None:
        """Read a finished chunk again, because its files are gone."""
        copy = self._tables.get(finished.table)
        if copy is not None and not copy.dropped:
            copy.lost(finished.report.chunk)

    def coverage(self, table: str) -> Coverage | None:
        """How far a table that is being copied is split; None for other tables."""
        copy = self._tables.get(table)
        return copy.coverage if copy and not copy.dropped and not copy.redump else None

    def new_chunks(self) -> dict[str, list[Chunk]]:
        """The chunks that were split off or shortened since the last commit, by table."""
        copies = {name: c for name, c in self._tables.items() if c.changed and not c.dropped and not c.redump}
        return {name: list(copy.uncommitted.values()) for name, copy in copies.items()}

    def note_commit(self, table: str, coverage: Coverage) -> None:
        """Record that an epoch was committed, with all chunks split off before."""
        copy = self._tables.get(table)
        if copy is not None and not copy.redump:
            copy.note_commit(coverage)

    def binlog_read(self, asked_s: float) -> None:
        """Record that the binlog was read to its end as of that time (`clock.monotonic_s`).

        So earlier schema changes are known.
        """
        self._retries.note_binlog_read(asked_s)

    @property
    def idle(self) -> bool:
        """Whether no chunk waits or is being read; parked chunks do not count."""
        return not self._jobs and not any(copy.has_work for copy in self._tables.values())

    @property
    def under_way(self) -> bool:
        return bool(self._jobs)

    def assign(self, prototype: ChunkGroup, hold: Callable[[], str] = lambda: "") -> None:
        """Keep chunks split ahead, and start groups while readers are free.

        prototype: a group without requests; its `counts` is a folder. hold: the reason why no group may start now, or
        "".
        """
        if self._jobs and clock.monotonic_s() - self._shown_s >= _SHOW_S:
            self._show_reading()
        self._retries.resume(self._tables)
        for name, copy in self._tables.items():
            copy.queue_due()
            if self._gate.is_paused(name):
                continue
            if copy.ready and copy.coverage.unsplit and len(copy.waiting) < AHEAD // 2:
                most = 1 if copy.unsplit else AHEAD - len(copy.waiting)
                self._splitter.start(copy.table, copy.plan, copy.coverage.unsplit[0], most)
        limited, paused = self._gate.pace.limited, self._gate.is_paused
        most = min(self._slots.most(self._gate) + (not limited), _MOST_READERS)
        while limited or len(self._jobs) < most:
            wanted = [c for c in self._tables.values() if (c.waiting or c.coverage.unsplit) and c.ready]
            ready = sorted(
                (c for c in wanted if c.waiting and not paused(c.table.full_name)),
                key=partial(TableCopy.priority, in_turn=limited),
            )
            reason = (
                hold() if ready else standstill(self._tables.values(), wanted, paused, is_reading=self.under_way)
            ) or (self._gate.disk.reason if self._gate.disk.blocks_work() else "")
            self._activity.waiting_for = reason
            if reason or not ready or len(self._jobs) >= most:
                return
            self._start(ready, prototype, self._lease(wanted))

    def _lease(self, copies: list[TableCopy]) -> RateShare:
        """A share of the rates for the next group: all that is free, if no chunk waits for another reader."""
        waiting = sum(_MOST_READERS if copy.coverage.unsplit else len(copy.waiting) for copy in copies)
        return self._gate.pace.take_share(
            max(1, min(self._slots.most(self._gate) - len(self._jobs), waiting)), clock.monotonic_s()
        )

    def _start(self, ready: list[TableCopy], prototype: ChunkGroup, lease: RateShare) -> None:
        """Start a group: chunks of the next table in turn.

        If it is small, together with chunks of other small tables.
        """
        small = [c for c in ready if c.waiting_s <= GROUP_S and not c.coverage.unsplit and not c.trials]
        tables = small[: max(1, len(small) // (2 * self._slots.most(self._gate)))] if ready[0] in small else ready[:1]
        requests, chosen = [], dict[str, list[int]]()
        budget_s = GROUP_S * self._gate.pace.share(ROWS_PER_S)
        for copy in tables:
            chunks = copy.next_chunks(budget_s, self._slots.most(self._gate), share=len(tables) == 1)
            budget_s -= len(chunks) * copy.chunk_s
            chosen[copy.table.full_name] = [chunk.number for chunk in chunks]
            copy.turn = self._groups + 1
            requests += [_request(copy, chunk, lease, self._max_memory) for chunk in chunks]
            if budget_s <= 0:
                break
        self._groups += 1
        for copy in tables:
            name = copy.table.full_name
            if name in chosen and not copy.redump:
                self._journal.write(ChunkAssigned(table=name, chunks=chosen[name], group=self._groups))
        first, *others = [f"{name}: chunks {numbers[0]}–{numbers[-1]}" for name, numbers in chosen.items()]
        about = f"{first} and {len(others)} tables more" if others else first
        counts = prototype.counts and prototype.counts / f"{uuid.uuid4().hex}.json"
        group = ChunkGroup(**{**vars(prototype), "requests": tuple(requests), "counts": counts})
        self._jobs[self._pool.submit(self._run, group, about)] = _SubmittedGroup(
            self._groups, chosen, {copy.table.full_name: copy for copy in tables}, clock.utc_text(), lease, counts
        )
        self._show_reading()

    def _show_reading(self) -> None:
        """Publish the longest running read of each table to `status`.

        Adds the rows that all its readers have read so far.
        """
        oldest, self._shown_s = dict[str, LongestRead](), clock.monotonic_s()
        for group in self._jobs.values():  # in the order in which they began
            counted = rows_read(group.counts) if group.counts else None
            for name, numbers in group.chunks.items():
                if not group.copies[name].dropped:
                    one = oldest.setdefault(name, {"chunks": numbers, "since": group.since, "rows": 0})
                    one["rows"] += counted.rows if counted and counted.table == name else 0
        self._activity.reading = oldest

    def collect(self) -> Batch:
        """The split-off chunks and the reports of ended jobs since the last call.

        Raises errors that end the run: of Spark, of a lost source, of a table that failed too often.
        """
        batch = Batch()
        for name, split in self._splitter.done().items():
            self._take_split(self._tables[name], split, batch)
        for job in [job for job in self._jobs if job.done()]:
            group = self._jobs.pop(job)
            if group.counts:
                with suppress(OSError):
                    group.counts.unlink(missing_ok=True)
            unreported = {name: set(numbers) for name, numbers in group.chunks.items()}
            for name, numbers in group.chunks.items():
                group.copies[name].under_way -= len(numbers)
            reports = list[ReaderReport]()
            try:
                reports = self._reports(job, group, batch, unreported)
            finally:  # also if Spark is lost: the pace outlives this scheduler
                chunk_reports = [report for report in reports if isinstance(report, ChunkReport)]
                size = sum(file.bytes for report in chunk_reports for file in report.files)
                self._gate.pace.release(
                    group.lease, sum(report.rows for report in chunk_reports), size, clock.monotonic_s()
                )
            for report in reports:
                assert isinstance(report, ChunkReport | FailureReport)
                self._take_report(group.copies[report.table], report, group, batch, unreported)
            for name, unread in unreported.items():
                group.copies[name].put_back(unread)
            self._show_reading()
        return batch

    def _reports(
        self, job: Future[list[ReaderReport]], group: _SubmittedGroup, batch: Batch, unreported: dict[str, set[int]]
    ) -> list[ReaderReport]:
        """The job's reports; none if its worker was lost."""
        try:
            return job.result()
        except TransientError as error:
            among = sum(map(len, group.chunks.values()))
            for name, numbers in group.chunks.items():
                copy = group.copies[name]
                if not copy.dropped:
                    unreported[name] -= self._retries.lost(copy, numbers, among, group.number, error, batch)
            return []

    def _take_split(self, copy: TableCopy, job: Future[Split], batch: Batch) -> None:
        if copy.dropped:
            return
        try:
            split = job.result()
            chunks = copy.take(split)
        except TableStoppedError as error:
            batch.stop(copy, error)
        except TransientError as error:
            self._retries.retry(copy, [], 0, error, batch)
        except PrivilegesMissingError as error:
            self._retries.denied(copy, [], 0, error, batch)
        else:
            copy.failures = 0
            self._report_chunks(copy, chunks, split.of.parent)

    def _report_chunks(self, copy: TableCopy, chunks: list[Chunk], parent: int | None = None) -> None:
        if copy.redump:
            return
        news = [
            [chunk.number, text(chunk.limits.lower), text(chunk.limits.upper)]
            for chunk in chunks
            if not copy.listed(chunk)
        ]
        complete = not copy.coverage.unsplit
        if news or (complete and not copy.reported_complete):
            copy.reported_complete = complete
            self._journal.write(ChunkPlanned(table=copy.table.full_name, chunks=news, complete=complete, parent=parent))

    def _take_report(
        self,
        copy: TableCopy,
        report: ChunkReport | FailureReport,
        group: _SubmittedGroup,
        batch: Batch,
        unreported: dict[str, set[int]],
    ) -> None:
        if copy.dropped:
            return
        if isinstance(report, FailureReport):
            unread = sorted(unreported[report.table])
            unreported[report.table] -= self._retries.reported(copy, report, unread, group.number, batch)
            return
        unreported[report.table].discard(report.chunk)
        if report.limits != copy.coverage.pending[report.chunk]:
            self._report_chunks(copy, copy.shorten(report.chunk, report.limits))
        copy.chunk_read(report)
        self._retries.read(copy, report.chunk)
        if not copy.redump:
            self._journal.write(_finished(report, group.number))
        batch.finished.append(Finished(report, copy.redump, copy.keys_of(report.chunk)))

    def abort_waits(self) -> None:
        """Abort waits for the source's answer; called from another thread."""
        self._splitter.abort_waits()

    def close(self) -> None:
        """Wait for running jobs. Their unread reports are lost and their files never published."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for group in self._jobs.values():
            self._gate.pace.release(group.lease, 0, 0, clock.monotonic_s())
        with suppress(TidemarkError):
            self._splitter.close()


def _request(copy: TableCopy, chunk: Chunk, lease: RateShare, max_memory: int) -> ChunkRequest:
    return ChunkRequest(
        copy.table,
        chunk.number,
        copy.key,
        chunk.limits,
        copy.plan.chunk_rows,
        copy.folder,
        max_memory,
        copy.projection,
        copy.mirrors,
        copy.keys_of(chunk.number),
        lease.rate(copy.row_bytes),
    )


def _finished(report: ChunkReport, group: int) -> ChunkFinished:
    low, high = report.low, report.high
    same_file = bytes_between({}, low, high) if low.file == high.file else None
    return ChunkFinished(
        table=report.table,
        chunk=report.chunk,
        lower=text(report.limits.lower),
        upper=text(report.limits.upper),
        low=str(low),
        high=str(high),
        gap_bytes=same_file,
        rows=report.rows,
        backfill=report.backfill,
        file=report.files[0].name if report.files else None,
        bytes=sum(file.bytes for file in report.files),
        timings=dict(report.timings),
        started=report.started_at,
        ended=report.ended_at,
        reader=str(report.reader),
        host=report.reader.host,
        pid=report.reader.pid,
        attempt=report.attempt,
        group=group,
    )


def snapshot_of(
    spec: Spec,
    endpoint: Endpoint,
    turns: Turns,
    session: Session,
    gate: Gate,
    activity: Activity,
    journal: Journal,
    refused_reads: RefusedReads,
) -> SnapshotScheduler:
    """The scheduler of one session, as the spec wants it."""

    def run(group: ChunkGroup, text: str) -> list[ReaderReport]:
        with turns.take(TASK):
            return session.run([group], text)

    return SnapshotScheduler(
        ReaderSlots(
            lambda: min(spec.snapshot.readers or session.slots, turns.tasks or _MOST_READERS), lambda: session.slots
        ),
        gate,
        activity,
        spec.snapshot.max_chunk_memory_bytes,
        journal,
        ChunkSplitter(endpoint, turns),
        run,
        refused_reads,
        spec.snapshot.chunk_attempts,
    )

"""Failed reads: what was at fault, when to retry, and when to give up.

    the table changed     `SchemaChangedError`: the binlog will show the schema change; the whole table waits for it
    the source was away   the reader could not reconnect right after: the table waits as long as the run does
                          (`run.source_loss.outage`)
    the chunk itself      the reader could reconnect right after. Only that chunk waits; after too many failures in a
                          row it is parked (`run.snapshot.parking`), and everything else continues
    a disk is full        the whole pipeline waits until there is room (`pipeline.disk`), chunks included. It counts
                          against no chunk and no table
    a worker was lost     with all that its group had read. Any of its chunks may have killed it: they are read again
                          in groups half the size, until a failing chunk is alone; then the chunk itself is at fault

    no privilege          the account may not read the table: it waits for the grant (`run.snapshot.refused_reads`)

If many chunks of a table are parked in a row, with none read in between, the table itself is at fault: its remaining
chunks rest until an operator resumes the table, or until the next run. Redumped chunks are not parked: the command is
refused instead.
"""

import math
from dataclasses import dataclass, field

from engine.base import clock
from engine.base.errors import (
    AccountRefusedError,
    ConnectionLimitError,
    PrivilegesMissingError,
    SchemaChangedError,
    SourceAwayError,
    TableStoppedError,
    TidemarkError,
    TransientError,
    WriteOutageError,
)
from engine.base.wording import shell_word
from engine.capture.reports import FailureReport
from engine.journal import Journal
from engine.journal.events import ChunkFailed, ErrorReported
from engine.pipeline.disk import RETRY_S, Disk
from engine.run.snapshot.parking import Parking
from engine.run.snapshot.refused_reads import RefusedReads
from engine.run.snapshot.table_copy import Finished, TableCopy, Trial
from engine.run.source_loss.outage import REFUSED_S

ATTEMPTS = 8
"""Tries of a table, except for a chunk's own errors and an unreachable source; a chunk read or split off resets the
count."""
_FIRST_RETRY_S = 0.5
_LONGEST_RETRY_S = 30.0


@dataclass
class Batch:
    """The result of `SnapshotScheduler.collect`: finished chunks, stopped tables, and tables whose redump failed."""

    finished: list[Finished] = field(default_factory=list)
    stopped: dict[str, TidemarkError] = field(default_factory=dict)
    failed: dict[str, TidemarkError] = field(default_factory=dict)
    refused: ConnectionLimitError | None = None
    """The error of a reader that was refused a connection."""

    def stop(self, copy: TableCopy, error: TidemarkError) -> None:
        """Stop a table's copy or its redump."""
        (self.failed if copy.redump else self.stopped)[copy.table.full_name] = error
        copy.drop()


class ChunkRetries:
    """Judges failures. attempts: failures of a chunk before it is parked. Used by one thread."""

    def __init__(
        self, journal: Journal, parking: Parking, attempts: int, disk: Disk, refused_reads: RefusedReads
    ) -> None:
        self._journal = journal
        self._parking = parking
        self._attempts = attempts
        self._disk = disk
        self._refused_reads = refused_reads
        self._binlog_read_s = 0.0
        self._refused_s = math.inf  # when the source first refused the account

    def note_binlog_read(self, asked_s: float) -> None:
        """Record that the binlog was read to its end as of that time (`clock.monotonic_s`)."""
        self._binlog_read_s = asked_s

    def add(self, copy: TableCopy) -> None:
        """Register a table copy that starts or continues: its parked chunks are retried once."""
        if copy.redump:
            return
        for number, parked in self._parking.reconcile(copy.table.full_name, copy.coverage.pending).items():
            copy.trials[number] = Trial(max(parked.attempts, self._attempts - 1), was_parked=True)

    def resume(self, tables: dict[str, TableCopy]) -> None:
        """Retry the parked chunks of the tables with a requested retry."""
        for name in self._parking.take_retries(tables):
            if not tables[name].dropped and not tables[name].redump:
                tables[name].unpark_all()

    def read(self, copy: TableCopy, number: int) -> None:
        """Record that a chunk was read."""
        self._refused_s = math.inf
        self._refused_reads.end(copy.table.full_name)
        self._disk.succeeded("chunks")
        if copy.trials.pop(number, None) is not None and not copy.redump:
            self._parking.unpark(copy.table.full_name, number, "it was read")

    def reported(
        self, copy: TableCopy, failure: FailureReport, unread: list[int], group: int, batch: Batch
    ) -> set[int]:
        """Handle a reader that failed at one chunk. unread: chunks of the table. Returns those not to put back now."""
        error = failure.error
        if isinstance(error, WriteOutageError):
            self._not_written(copy, unread, group, error)
        elif isinstance(error, TableStoppedError):
            self._report(copy, unread, group, error, None, copy.failures)
            batch.stop(copy, error)
        elif failure.is_chunk_fault and isinstance(error, PrivilegesMissingError):
            return self.denied(copy, unread, group, error, batch)
        elif failure.is_chunk_fault and not copy.redump:
            return self._chunk_at_fault(copy, failure.chunk, group, error)
        else:
            away = not failure.is_chunk_fault and not isinstance(error, SchemaChangedError)
            self.retry(copy, unread, group, error, batch, away=away)
        return set()

    def lost(
        self, copy: TableCopy, chunks: list[int], among: int, group: int, error: TidemarkError, batch: Batch
    ) -> set[int]:
        """Handle a lost worker with a group of `among` chunks.

        chunks: those of the table. Returns those not to put back now.
        """
        if isinstance(error, WriteOutageError):
            self._not_written(copy, chunks, group, error)
            return set()
        if copy.redump:
            self.retry(copy, chunks, group, error, batch)
            return set()
        if among == 1:
            return self._chunk_at_fault(copy, chunks[0], group, error)
        self._report(copy, chunks, group, error, _pause_s(1), 1)
        for number in chunks:
            copy.trials.setdefault(number, Trial()).among = max(1, min(len(chunks), among // 2))
            copy.postpone(number, clock.monotonic_s() + _pause_s(1))
        return set(chunks)

    def _not_written(self, copy: TableCopy, chunks: list[int], group: int, error: WriteOutageError) -> None:
        """Wait until it can be written; the chunks are put back."""
        self._disk.failed("chunks", error)
        self._report(copy, chunks, group, error, RETRY_S, 1)

    def _chunk_at_fault(self, copy: TableCopy, number: int, group: int, error: TidemarkError) -> set[int]:
        """Handle a failure of the chunk itself."""
        trial = copy.trials.setdefault(number, Trial())
        trial.failures += 1
        if trial.failures < self._attempts:
            pause_s = _pause_s(trial.failures)
            self._report(copy, [number], group, error, pause_s, trial.failures)
            copy.postpone(number, clock.monotonic_s() + pause_s)
        else:
            self._report(copy, [number], group, error, None, trial.failures)
            limits, was_parked = copy.coverage.pending[number], trial.was_parked
            copy.park(number)
            copy.parked_in_a_row += not was_parked
            self._parking.park(copy.table.full_name, number, limits, error, trial.failures)
        return {number}

    def denied(
        self, copy: TableCopy, chunks: list[int], group: int, error: PrivilegesMissingError, batch: Batch
    ) -> set[int]:
        """Handle a table that the account may not read or split.

        chunks: those that were not read. Returns those not to put back now.
        """
        refusal = self._refused_reads.note(copy.table, error)
        if self._refused_reads.is_temporary(copy.table.full_name):
            copy.failures += clock.monotonic_s() >= copy.retry_at
            pause_s = _pause_s(copy.failures)
            if copy.redump:
                copy.on("failed", chunks)
            else:
                self._report(copy, chunks, group, refusal, pause_s, copy.failures)
            copy.retry_at = clock.monotonic_s() + pause_s
            return set()
        if chunks and not copy.redump:
            return self._chunk_at_fault(copy, chunks[0], group, refusal)
        batch.stop(copy, refusal)
        self._refused_reads.end(copy.table.full_name)
        return set()

    def retry(
        self,
        copy: TableCopy,
        chunks: list[int],
        group: int,
        error: TidemarkError,
        batch: Batch,
        *,
        away: bool = False,
    ) -> None:
        """Schedule the next try of a table. Raises the error if a retry is useless or there were too many.

        away: the reader could not reconnect right after; such tries are not counted, as `run.source_loss.outage` ends
        them. A changed table whose schema change never shows up in the binlog stops alone.
        """
        if isinstance(error, ConnectionLimitError):
            batch.refused = error
        # Groups that fail together, after a lost connection, count as one failure.
        copy.failures += clock.monotonic_s() >= copy.retry_at
        retry_s = _pause_s(copy.failures)
        if not isinstance(error, SchemaChangedError):
            copy.changed_s = math.inf
        elif copy.changed_s == math.inf:
            copy.changed_s = clock.monotonic_s()
        # The binlog will show the schema change, however far behind the pipeline is.
        awaited = isinstance(error, SchemaChangedError) and self._binlog_read_s <= copy.changed_s
        counts = not (awaited or isinstance(error, SourceAwayError) or away)
        retried = isinstance(error, TransientError) and not (counts and copy.failures >= ATTEMPTS)
        retried = retried or (isinstance(error, AccountRefusedError) and self._refused())
        self._report(copy, chunks, group, error, retry_s if retried else None, copy.failures)
        if isinstance(error, SchemaChangedError) and not retried:
            stopped = TableStoppedError(
                error.message,
                detail="The binlog was read to its end since, without a schema change of the table. "
                "Its published data is right.",
                hint=f"Resnapshot it: tidemark redump SPEC --table {shell_word(copy.table.full_name)}",
            )
            batch.stop(copy, stopped)
        elif copy.redump and isinstance(error, TransientError) and not retried:
            batch.stop(copy, error)
        elif not retried:
            raise error
        copy.retry_at = clock.monotonic_s() + retry_s

    def _refused(self) -> bool:
        """Whether a refused account is still worth a retry."""
        self._refused_s = min(self._refused_s, clock.monotonic_s())
        return clock.monotonic_s() - self._refused_s < REFUSED_S

    def _report(
        self,
        copy: TableCopy,
        chunks: list[int],
        group: int,
        error: TidemarkError,
        retry_in_s: float | None,
        attempt: int,
    ) -> None:
        copy.on("failed", chunks)
        if copy.redump:
            name = copy.table.full_name
            self._journal.write(ErrorReported.of(error, attempt=attempt, retry_in_s=retry_in_s, table=name))
            return
        self._journal.write(
            ChunkFailed(
                table=copy.table.full_name,
                chunks=chunks,
                group=group,
                error=type(error).__name__,
                message=str(error),
                attempt=attempt,
                retry_in_s=retry_in_s,
            )
        )


def _pause_s(failures: int) -> float:
    """Seconds before the next try after that many failures in a row."""
    return float(min(_FIRST_RETRY_S * 2 ** min(failures, 10), _LONGEST_RETRY_S))

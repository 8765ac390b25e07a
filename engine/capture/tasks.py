"""The kinds of Spark task: chunk groups, binlog ranges, and those of `chunk.fast_forward` and `chunk.redump_part`.

A request contains everything its task needs. A task keeps nothing but the process's session with the source. A
TidemarkError becomes a report, so the coordinator gets its message, detail and hint. So does a folder that may not be
written (`write_faults`), and any other error of a single chunk; elsewhere it fails the task, and Spark retries it.
"""

import gc
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from engine.base import clock
from engine.base.errors import (
    ConnectionLimitError,
    DecodeError,
    PreflightError,
    SchemaChangedError,
    SourceChangedError,
    TableStoppedError,
    TidemarkError,
    TransientError,
)
from engine.capture import reader_session as sessions
from engine.capture.binlog.binlog_range import BinlogRange, SchemaMismatch
from engine.capture.binlog.binlog_reader import read_range
from engine.capture.binlog.emission import EmissionProgress, emission_mask, published_images
from engine.capture.binlog.row_changes import log_schema, log_table
from engine.capture.chunk.chunk_reader import ChunkRequest, read_chunk, schema_changed_error
from engine.capture.chunk.fast_forward import FastForward
from engine.capture.chunk.keyless import read_keyless
from engine.capture.chunk.redump_part import RedumpPart, read_part
from engine.capture.files import DataFile, FileWriter
from engine.capture.pacing import END, ReadEndedError
from engine.capture.projection.table_projection import WHOLE_TABLE, Projection
from engine.capture.reports import (
    ChunkReport,
    FailureReport,
    Kinds,
    RangeReport,
    ReaderProcess,
    ReaderReport,
    WrittenChanges,
)
from engine.capture.row_counter import RowCounter
from engine.capture.spill import WAITING_BYTES
from engine.capture.store_reach import reach
from engine.capture.write_faults import outage_of, writing
from engine.decode.arrow_schema import arrow_schema
from engine.decode.schema import TM_SEQ, Table, same_columns
from engine.plan.keys import ChunkKey
from engine.plan.ordering import ServerOrder
from engine.source.catalog import read_table
from engine.source.connect import Endpoint, open_connection
from engine.source.positions import Position
from engine.source.watermarks import Candidate, WatermarkClass
from engine.source.xa_places import XaPlaces
from engine.store.folder import Folder

_STORED_AT_ONCE = 16
"""Files of a binlog range that are stored at once."""


@dataclass(frozen=True)
class EmittedTable:
    """A captured table in a binlog range.

    Its chunk key (None if it has none), snapshot progress, change log and projection.
    """

    table: Table
    key: ChunkKey | None
    progress: EmissionProgress
    folder: Folder
    projection: Projection = WHOLE_TABLE


@dataclass(frozen=True)
class ChunkGroup:
    """Chunks of one table, or of several small tables, that one task reads in sequence."""

    endpoint: Endpoint
    first_server_id: int
    watermarks: WatermarkClass
    settle_s: float
    candidate: Candidate
    requests: tuple[ChunkRequest, ...]
    counts: Path | None = None
    """The file with the rows read so far of the current chunk (`capture.row_counter`), in a folder of the run."""

    def run(self) -> Iterator[ReaderReport]:
        """Yield one report per chunk.

        The first failure ends the group, unless it only stops its table. `FailureReport.is_chunk_fault` tells whether
        the chunk is at fault. A throttled read that ends with the run is no failure: what is not reported is read
        later.
        """
        try:
            yield from self._reports()
        finally:
            if self.endpoint.few_connections:
                sessions.drop_all()

    def _reports(self) -> Iterator[ReaderReport]:
        """Read a chunk while the file of the one before is being stored, which the report of that one waits for.

        A failure to store that ends the group comes after the report of the chunk that was read meanwhile. If that one
        was not stored either, it is not reported: nothing more is known of it.
        """
        stopped: set[str] = set()
        with ThreadPoolExecutor(1, "store") as pool:
            earlier: _StoredChunk | None = None
            for request in self.requests:
                if request.table.full_name in stopped:
                    continue
                chunk = self._read_or_fail(request, pool)
                report = None if earlier is None else self._report(earlier)
                earlier = chunk if isinstance(chunk, _StoredChunk) else None
                if report is not None and _ends_group(report):
                    last = None if earlier is None else self._report(earlier)
                    if isinstance(last, ChunkReport):
                        yield last
                    yield report
                    return
                if report is not None:
                    yield report
                if isinstance(chunk, FailureReport):
                    yield chunk
                    stopped.add(request.table.full_name)
                if chunk is None or _ends_group(chunk):
                    break
            if earlier is not None:
                yield self._report(earlier)

    def _read_or_fail(self, request: ChunkRequest, pool: ThreadPoolExecutor) -> "_StoredChunk | FailureReport | None":
        """Read a chunk. None if the read ended with the run."""
        try:
            return self._read_chunk(request, pool)
        except ReadEndedError:
            sessions.drop(self.endpoint, self.watermarks)
            return None
        except Exception as raised:  # noqa: BLE001 - a chunk that cannot be read must not block the others
            sessions.drop(self.endpoint, self.watermarks)
            return self._failure(request, raised)
        except BaseException:
            sessions.drop(self.endpoint, self.watermarks)
            raise

    def _report(self, chunk: "_StoredChunk") -> ChunkReport | FailureReport:
        """Wait until a chunk's file is stored."""
        try:
            chunk.stored.result()
        except Exception as raised:  # noqa: BLE001 - as a chunk that cannot be read
            return self._failure(chunk.request, raised)
        return chunk.report

    def _failure(self, request: ChunkRequest, raised: Exception) -> FailureReport:
        error, own = self._explain(request, raised)
        name = request.table.full_name
        return FailureReport(
            reader=ReaderProcess.here(), error=error, table=name, chunk=request.number, is_chunk_fault=own
        )

    def _explain(self, request: ChunkRequest, exception: Exception) -> tuple[TidemarkError, bool]:
        """The error, and whether the chunk is at fault.

        If the table changed, an error that stops it becomes SchemaChangedError.
        """
        error, table = (
            exception if isinstance(exception, TidemarkError) else _unexpected_error(request, exception),
            request.table,
        )
        stops, retried = isinstance(error, TableStoppedError), isinstance(error, TransientError | PreflightError)
        if isinstance(error, SchemaChangedError | ConnectionLimitError) or not (stops or retried):
            return error, False
        try:
            with closing(open_connection(self.endpoint)) as connection:
                if not stops:
                    return error, True
                now = read_table(connection, table.database, table.name)
        except TidemarkError as another:
            return (another if stops or isinstance(another, SourceChangedError) else error), False
        return (error if same_columns(now, table) else schema_changed_error(table, str(error))), False

    def _read_chunk(self, request: ChunkRequest, pool: ThreadPoolExecutor) -> "_StoredChunk":
        started = clock.utc_text()
        session = sessions.session(self.endpoint, self.watermarks, self.settle_s, self.first_server_id)
        session.watermarks.offer(self.candidate)
        session.pacer.end = self.counts and self.counts.with_name(END)
        session.counter = RowCounter(self.counts, request.table.full_name, request.number)
        ghosts: list[DataFile] = []
        if request.mirrors:
            result, ghosts = read_part(session, self.endpoint, self.first_server_id, request)
        else:
            read = partial(read_chunk, stores=False) if request.table.key else read_keyless
            result = read(session, self.endpoint, self.first_server_id, request)
        report = ChunkReport(
            reader=ReaderProcess.here(),
            table=request.table.full_name,
            chunk=request.number,
            limits=result.limits,
            low=result.low,
            high=result.high,
            files=tuple(result.files),
            ghosts=tuple(ghosts),
            rows=result.rows,
            backfill=result.backfill,
            nulled_dates=result.nulled_dates,
            timings=dict(result.timings),
            paused_s=session.pacer.take_paused_s(),
            started_at=started,
            ended_at=clock.utc_text(),
        )
        return _StoredChunk(request, report, pool.submit(result.writer.store if result.writer else _nothing))


@dataclass(frozen=True)
class _StoredChunk:
    """A chunk that was read, and whose file is being stored."""

    request: ChunkRequest
    report: ChunkReport
    stored: Future[None]


def _ends_group(report: object) -> bool:
    return isinstance(report, FailureReport) and not isinstance(report.error, TableStoppedError)


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class BinlogTask:
    """A binlog range for all captured tables."""

    endpoint: Endpoint
    first_server_id: int
    mariadb: bool
    start: Position
    end: Position
    tables: tuple[EmittedTable, ...]
    first_seq: int
    """`_tm_seq` of each table's first change in the range."""
    absent_tables: tuple[Table, ...] = ()
    """Tables that do not exist now and may be created again."""
    handled_through: Position | None = None
    """The committed position. It is after `start` if the epoch publishes chunks that are exact at an
    earlier position."""
    places: XaPlaces | None = None
    """Of the XA transactions that were prepared last before `start`, or before an earlier position."""

    def run(self) -> Iterator[ReaderReport]:
        """Yield one report. If it has `altered`, the range ends at its `end`, earlier than requested."""
        try:
            with writing("Reading the binlog", [captured.folder for captured in self.tables]):
                report = self._read()
            yield report
        except TidemarkError as error:
            yield FailureReport(reader=ReaderProcess.here(), error=error)

    def _read(self) -> RangeReport:
        try:
            return self._read_range(self.end)
        except SchemaMismatch as mismatch:
            # Discard the first read: it may contain changes after the last position at which the schema is known.
            return replace(self._read_range(mismatch.position), alteration=mismatch.alteration)

    def _read_range(self, end: Position) -> RangeReport:
        started = clock.monotonic_s()
        tables = {captured.table.full_name: captured for captured in self.tables}
        binlog_range = BinlogRange(
            {(f.table.database, f.table.name): f.projection.tolerant(f.table) for f in self.tables},
            self.start,
            end,
            mariadb=self.mariadb,
            absent_tables=self.absent_tables,
            since={name: captured.progress.since for name, captured in tables.items()},
            handled_through=self.handled_through,
            places=self.places,
        )
        logs = _Logs(self.first_seq)
        order = ServerOrder(self.endpoint)
        try:
            for table, file, changes in read_range(self.endpoint, binlog_range, self.first_server_id):
                captured = tables[table.full_name]
                emit = captured.projection.emission_mask(
                    changes, emission_mask(changes, captured.key, captured.progress, order)
                )
                chosen, kinds = published_images(changes.fact("kind"), emit)
                if len(chosen):
                    logs.write(captured, captured.projection.published_changes(changes, chosen), kinds, file)
            for name, error in binlog_range.stop_errors.items():
                if isinstance(error, DecodeError):
                    logs.discard(name)  # the table may have stopped in the middle of a transaction
            nulled = {
                name: tables[name].projection.published_counts(binlog_range.nulled_dates[name]) for name in logs.names
            }
            written = logs.close(nulled)
        except BaseException:
            logs.discard_all()
            raise
        finally:
            order.close()
        transactions = binlog_range.transactions
        return RangeReport(
            reader=ReaderProcess.here(),
            end=binlog_range.end,
            alteration=binlog_range.alteration,
            may_define_tables=binlog_range.may_define_tables,
            gtids=str(transactions.gtids),
            anonymous=transactions.anonymous,
            complete=transactions.complete,
            births=transactions.births,
            tables=written,
            stop_errors=dict(binlog_range.stop_errors),
            transactions=transactions.count,
            bytes=binlog_range.statistics.bytes,
            events=binlog_range.statistics.events,
            damaged_events=binlog_range.statistics.damaged_events,
            unknown_events=dict(binlog_range.statistics.unknown_events),
            largest=binlog_range.statistics.largest,
            one_phase=binlog_range.one_phase.found,
            xa=binlog_range.places,
            last_ts=transactions.last_ts,
            seconds=round(clock.monotonic_s() - started, 6),
        )


class _Logs:
    """The change log files that a binlog range writes: one for each table with changes.

    Rows wait in memory for a row group of a good size. With a thousand tables these are many, so their bytes are
    bounded together.
    """

    def __init__(self, first_seq: int) -> None:
        self._first_seq = first_seq
        self._logs: dict[str, _ChangeLogFile] = {}
        self._waiting_rows = 0

    @property
    def names(self) -> list[str]:
        """The tables with changes."""
        return list(self._logs)

    def write(self, captured: EmittedTable, changes: Any, kinds: Any, file: str) -> None:
        log = self._logs.setdefault(captured.table.full_name, _ChangeLogFile(captured, self._first_seq))
        before = log.writer.pending_bytes
        log.write(changes, kinds, file)
        self._waiting_rows += log.writer.pending_bytes - before
        while self._waiting_rows > WAITING_BYTES:
            largest = max((log.writer for log in self._logs.values()), key=lambda writer: writer.pending_bytes)
            self._waiting_rows -= largest.pending_bytes
            largest.flush()

    def discard(self, table: str) -> None:
        """Remove a table's file."""
        if table in self._logs:
            self._waiting_rows -= self._logs[table].writer.pending_bytes
            self._logs.pop(table).writer.discard()

    def discard_all(self) -> None:
        for table in self.names:
            self.discard(table)

    def close(self, nulled: Mapping[str, Mapping[str, int]]) -> dict[str, WrittenChanges]:
        """Finish all files, and store several at once: a disk or a bucket takes its time for each."""
        with ThreadPoolExecutor(_STORED_AT_ONCE, "store") as pool:
            written, stored = dict[str, WrittenChanges](), list[Future[None]]()
            for name, log in self._logs.items():
                written[name] = log.finish(nulled[name])
                stored.append(pool.submit(log.writer.store))
        for one in stored:
            one.result()
        return written


class _ChangeLogFile:
    """The change log file that a binlog range writes for one table."""

    def __init__(self, captured: EmittedTable, first_seq: int) -> None:
        self._seq = first_seq
        self._kinds: Kinds = (0, 0, 0, 0)
        schema = log_schema(arrow_schema(captured.projection.published_table(captured.table)))
        self.writer = FileWriter(captured.folder, "changes", schema, (*captured.table.key, TM_SEQ))

    def write(self, changes: Any, kinds: Any, file: str) -> None:
        self.writer.write(log_table(changes, kinds, file, self._seq))
        self._seq += len(kinds)
        inserts, before, after, deletes = (np.array(self._kinds) + np.bincount(kinds, minlength=4)).tolist()
        self._kinds = inserts, before, after, deletes

    def finish(self, nulled: Mapping[str, int]) -> WrittenChanges:
        files = tuple(self.writer.finish())
        return WrittenChanges(files=files, kinds=self._kinds, nulled_dates=nulled, next_seq=self._seq)


def _unexpected_error(request: ChunkRequest, error: Exception) -> TransientError:
    """Convert any other error: a bug in Tidemark, out of memory, a full disk."""
    *_, place = traceback.extract_tb(error.__traceback__)
    outage = outage_of(
        error,
        f"Reading chunk {request.number} of {request.table.full_name}",
        [request.folder],
        f"At {Path(place.filename).name}:{place.lineno}. Nothing of it was published.",
        "The chunk is then read again.",
    )
    if outage is not None:
        return outage
    return TransientError(
        f"Reading chunk {request.number} of {request.table.full_name} failed: {type(error).__name__}: {error}",
        detail=f"At {Path(place.filename).name}:{place.lineno}. Nothing of it was published.",
        hint="Tidemark retries. If it keeps failing, give the reader more memory or disk, use smaller chunks, "
        "or report it.",
    )


@dataclass(frozen=True)
class WarmUp:
    """Sleeps long enough that every slot gets one. Each starts its worker, which imports what readers need."""

    store: Folder | None = None
    """A bucket's folder that the reader must be able to write to."""
    seconds: float = 0.2

    def run(self) -> Iterator[ReaderReport]:
        """Yield one report that names the reader, or says why it cannot write to the bucket.

        gc.freeze() exempts loaded modules: Spark runs the collector after each task.
        """
        clock.sleep(self.seconds)
        gc.freeze()
        try:
            if self.store is not None:
                reach(self.store)
        except OSError as error:
            yield FailureReport(reader=ReaderProcess.here(), error=TransientError(str(error)))
            return
        yield ReaderReport(reader=ReaderProcess.here())


Task = ChunkGroup | BinlogTask | FastForward | RedumpPart | WarmUp

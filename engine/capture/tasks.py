"""The kinds of Spark task: a group of chunks, a binlog range, and those of `chunk.fast_forward` and `chunk.redump_part`.

Tasks get everything they need in their request and keep nothing but the process's session with the source. An error of ours
becomes a report, so that the coordinator sees its three parts. Any other does too where it concerns one chunk; elsewhere it is a
failure of the task, which Spark retries.
"""

import gc
import socket
import traceback
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from engine import clock
from engine.capture import reader_session as sessions
from engine.capture.binlog.binlog_range import BinlogRange, SchemaMismatch
from engine.capture.binlog.binlog_reader import read_range
from engine.capture.binlog.emission import Progress, emitted, published
from engine.capture.binlog.row_changes import log_schema, log_table
from engine.capture.chunk.chunk_reader import ChunkRequest, changed, read_chunk
from engine.capture.chunk.fast_forward import FastForward
from engine.capture.chunk.keyless import read_keyless
from engine.capture.chunk.redump_part import RedumpPart, read_again
from engine.capture.files import DataFile, FileWriter
from engine.capture.projection.table_projection import WHOLE_TABLE, Projection
from engine.capture.reports import ChunkReport, FailureReport, Kinds, RangeReport, Reader, ReaderReport, WrittenChanges
from engine.decode.arrow_schema import arrow_schema
from engine.decode.schema import Table, same_columns
from engine.errors import (
    DecodeError,
    DiskFullError,
    PreflightError,
    SchemaChangedError,
    SourceChangedError,
    TableStoppedError,
    TidemarkError,
    TransientError,
    is_disk_full,
)
from engine.plan.keys import ChunkKey
from engine.plan.ordering import ServerOrder
from engine.source.catalog import read_table
from engine.source.connect import Endpoint, open_connection
from engine.source.positions import Position
from engine.source.watermarks import Candidate, WatermarkClass


@dataclass(frozen=True)
class EmittedTable:
    """A captured table in a binlog range: its chunk key (None without), how far it is copied, its change log, its projection."""

    table: Table
    key: ChunkKey | None
    progress: Progress
    folder: Path
    projection: Projection = WHOLE_TABLE


@dataclass(frozen=True)
class ChunkGroup:
    """Chunks, of one table or of several small ones, that one task reads one after the other."""

    endpoint: Endpoint
    first_server_id: int
    watermarks: WatermarkClass
    settle_s: float
    candidate: Candidate
    requests: tuple[ChunkRequest, ...]

    def run(self) -> Iterator[ReaderReport]:
        """A report a chunk; after an error no more, but for other tables when it concerns one alone.

        That of a failure says whether it is the chunk's `own`: the source could be reached right after it.
        """
        stopped: set[str] = set()
        for request in self.requests:
            name = request.table.full_name
            if name in stopped:
                continue
            try:
                yield self._read(request)
            except Exception as raised:  # noqa: BLE001 - one chunk that cannot be read holds nothing else up
                sessions.drop(self.endpoint, self.watermarks)
                error, own = self._explained(request, raised)
                yield FailureReport(reader=Reader.here(), error=error, table=name, chunk=request.number, own=own)
                if not isinstance(error, TableStoppedError):
                    return
                stopped.add(name)
            except BaseException:
                sessions.drop(self.endpoint, self.watermarks)
                raise

    def _explained(self, request: ChunkRequest, raised: Exception) -> tuple[TidemarkError, bool]:
        """The error, and whether it is the chunk's own; what stops a table is something else when the table has changed."""
        error, table = raised if isinstance(raised, TidemarkError) else _unforeseen(request, raised), request.table
        stops, retried = isinstance(error, TableStoppedError), isinstance(error, TransientError | PreflightError)
        if isinstance(error, SchemaChangedError) or not (stops or retried):
            return error, False
        try:
            with closing(open_connection(self.endpoint)) as connection:
                if not stops:
                    return error, True
                now = read_table(connection, table.database, table.name)
        except TidemarkError as another:
            return (another if stops or isinstance(another, SourceChangedError) else error), False
        return (error if same_columns(now, table) else changed(table, str(error))), False

    def _read(self, request: ChunkRequest) -> ChunkReport:
        started = clock.utc_text()
        session = sessions.session(self.endpoint, self.watermarks, self.settle_s)
        session.watermarks.offer(self.candidate)
        ghosts: list[DataFile] = []
        if request.redump:
            result, ghosts = read_again(session, self.endpoint, self.first_server_id, request)
        else:
            read = read_chunk if request.table.key else read_keyless
            result = read(session, self.endpoint, self.first_server_id, request)
        return ChunkReport(
            reader=Reader.here(),
            table=request.table.full_name,
            chunk=request.number,
            limits=result.limits,
            low=result.low,
            high=result.high,
            files=tuple(result.files),
            ghosts=tuple(ghosts),
            rows=result.rows,
            backfill=result.backfill,
            nulled=result.nulled,
            timings=dict(result.timings),
            started=started,
            ended=clock.utc_text(),
        )


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
    """`_tm_seq` of the first change of each table in it."""
    awaited: tuple[Table, ...] = ()
    """Tables that do not exist now and may be created again."""
    known: Position | None = None
    """The committed position, which lies behind `start` where chunks are published that are exact in front of it."""

    def run(self) -> Iterator[ReaderReport]:
        """One report; when it says `altered`, the binlog range ends at its `end`, earlier than asked for."""
        try:
            try:
                yield self._read(self.end)
            except SchemaMismatch as mismatch:
                # What was read is thrown away, as some of it lies behind the place up to which the tables are known.
                yield replace(self._read(mismatch.position), altered=mismatch.alteration)
        except TidemarkError as error:
            yield FailureReport(reader=Reader.here(), error=error)

    def _read(self, end: Position) -> RangeReport:
        started = clock.monotonic_s()
        follows = {follow.table.full_name: follow for follow in self.tables}
        binlog_range = BinlogRange(
            {(f.table.database, f.table.name): f.projection.tolerant(f.table) for f in self.tables},
            self.start,
            end,
            mariadb=self.mariadb,
            awaited=self.awaited,
            since={name: follow.progress.since for name, follow in follows.items()},
            known=self.known,
        )
        logs: dict[str, _Log] = {}
        order = ServerOrder(self.endpoint)
        try:
            for table, file, changes in read_range(self.endpoint, binlog_range, self.first_server_id):
                follow = follows[table.full_name]
                emit = follow.projection.emitted(changes, emitted(changes, follow.key, follow.progress, order))
                chosen, kinds = published(changes.fact("kind"), emit)
                if len(chosen):
                    log = logs.setdefault(table.full_name, _Log(follow, self.first_seq))
                    log.write(follow.projection.chosen(changes, chosen), kinds, file)
            for name, error in binlog_range.stopped.items():
                if name in logs and isinstance(error, DecodeError):
                    logs.pop(name).writer.discard()  # it may have stopped within a transaction
            written = {
                name: log.close(follows[name].projection.counted(binlog_range.nulled[name]))
                for name, log in logs.items()
            }
        except BaseException:
            for log in logs.values():
                log.writer.discard()
            raise
        finally:
            order.close()
        seen = binlog_range.transactions
        return RangeReport(
            reader=Reader.here(),
            end=binlog_range.end,
            altered=binlog_range.altered,
            defined=binlog_range.defined,
            gtids=str(seen.gtids),
            anonymous=seen.anonymous,
            complete=seen.complete,
            births=seen.births,
            tables=written,
            stopped=dict(binlog_range.stopped),
            transactions=seen.count,
            bytes=binlog_range.statistics.bytes,
            events=binlog_range.statistics.events,
            damaged=binlog_range.statistics.damaged,
            unknown=dict(binlog_range.statistics.unknown),
            largest=binlog_range.statistics.largest,
            last_ts=seen.last_ts,
            seconds=round(clock.monotonic_s() - started, 6),
        )


class _Log:
    """The change log file that a binlog range writes for one table."""

    def __init__(self, follow: EmittedTable, first_seq: int) -> None:
        self._seq = first_seq
        self._kinds: Kinds = (0, 0, 0, 0)
        schema = log_schema(arrow_schema(follow.projection.published(follow.table)))
        self.writer = FileWriter(follow.folder, "changes", schema, (*follow.table.key, "_tm_seq"))

    def write(self, changes: Any, kinds: Any, file: str) -> None:
        self.writer.write(log_table(changes, kinds, file, self._seq))
        self._seq += len(kinds)
        inserts, before, after, deletes = (np.array(self._kinds) + np.bincount(kinds, minlength=4)).tolist()
        self._kinds = inserts, before, after, deletes

    def close(self, nulled: Mapping[str, int]) -> WrittenChanges:
        files = tuple(self.writer.close())
        return WrittenChanges(files=files, kinds=self._kinds, nulled=nulled, next_seq=self._seq)


def _unforeseen(request: ChunkRequest, error: Exception) -> TransientError:
    """An error that is not ours: a fault of Tidemark's, no memory, a full disk."""
    *_, place = traceback.extract_tb(error.__traceback__)
    if is_disk_full(error):
        return DiskFullError(
            f"Reading chunk {request.number} of {request.table.full_name} found no room: {error}",
            detail=f"At {Path(place.filename).name}:{place.lineno} on {socket.gethostname()}. Nothing of it was published.",
            hint=f"Free space in {request.folder}, or on the reader's own disk. It is read again when there is room.",
        )
    return TransientError(
        f"Reading chunk {request.number} of {request.table.full_name} failed: {type(error).__name__}: {error}",
        detail=f"At {Path(place.filename).name}:{place.lineno}. Nothing of it was published.",
        hint="It is tried again. If it stays: has the reader enough memory and disk (smaller chunks need less)? Else report it.",
    )


@dataclass(frozen=True)
class Warming:
    """Does nothing, for long enough that every slot gets one: each starts its worker, which imports what readers need."""

    seconds: float = 0.2

    def run(self) -> Iterator[ReaderReport]:
        """One report: which reader it is. What is loaded by now is kept from the collector, which Spark runs after each task."""
        clock.sleep(self.seconds)
        gc.freeze()
        yield ReaderReport(reader=Reader.here())


Task = ChunkGroup | BinlogTask | FastForward | RedumpPart | Warming

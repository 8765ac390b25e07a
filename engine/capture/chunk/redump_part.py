"""Redumps a published part of a table, and writes the changes that replace it in the destination.

A part is a range of the chunk key, or a list of rows named by their identities. It is read like a chunk, exact at its
high watermark H. Its *ghosts* are kept beside it: rows of the part that the mirror has at that time and the source has
not.

With an epoch that begins at P(k) >= H, both are fast-forwarded to P(k) and become the epoch's first changes: a `-D` per
ghost and a `+I` per row, marked with the command's id (`_tm_redump`). From then on the ledger, the log and the mirror's
merge treat them like any other change. Why that is right:

    before   everything published for the part up to P(k) has smaller numbers in the log's order (`_tm_seq`);
    after    every change after P(k) has larger numbers, because the epoch's ranges start counting after the part;
    at P(k)  the rows are the source's rows. A ghost is not one of them: it was none at H, and no change up to P(k)
             touched it. A key that a change did touch is no ghost: either it is among the rows by then, or the log
             itself has its deletion. (The mirror may not have merged that deletion when it was read, so the newest
             files of the log are checked.)

A row stays in its range while it keeps its identity. Where that does not hold (`fast_forward.has_mutable_key`), only
named rows can be redumped: a row that had left the range would look like a ghost. Nothing waits for a redump. The log
is read as usual meanwhile, and merges leave the mirror's older versions alone.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.base.errors import TidemarkError
from engine.capture.batches import batches, batches_of, parquet_file
from engine.capture.binlog.row_changes import log_schema, redump_changes
from engine.capture.chunk.backfill import NetChanges, Within, among, last_of_each, without
from engine.capture.chunk.chunk_reader import (
    ChunkRequest,
    ChunkResult,
    Timings,
    backfill,
    chunk_writer,
    low_watermark,
    read_chunk,
    read_rows,
)
from engine.capture.chunk.fast_forward import FastForward
from engine.capture.files import DataFile, FileWriter
from engine.capture.landing import MirrorReader, TableVersion, read_or_raise
from engine.capture.pacing import slice_rows
from engine.capture.reader_session import ReaderSession
from engine.capture.reports import FailureReport, ReaderProcess, ReaderReport, RedumpReport, WrittenChanges
from engine.capture.spill import Spill
from engine.capture.write_faults import writing
from engine.decode.arrow_schema import arrow_schema, conformed, image_schema
from engine.decode.images import DELETE, GONE, INSERT
from engine.decode.schema import KINDS, TM_KIND, TM_SEQ, Table
from engine.journal.event_fields import Backfill
from engine.plan.keys import Bound, scalar
from engine.plan.named import identities
from engine.plan.ordering import ServerOrder
from engine.plan.row_conditions import AllOf, AnyOf, Compared, NullColumn, RowCondition
from engine.source.connect import Endpoint
from engine.store.folder import Folder

_KEYS_A_STATEMENT = 500


def read_part(
    session: ReaderSession, endpoint: Endpoint, first_server_id: int, request: ChunkRequest
) -> tuple[ChunkResult, list[DataFile]]:
    """Read one part, and write its ghosts to a file.

    Raises as `read_chunk`, and DestinationError for an unreadable mirror.
    """
    result = (read_named if request.keys else read_chunk)(session, endpoint, first_server_id, request)
    request = replace(request, limits=result.limits)
    with closing(ServerOrder(endpoint)) as order:
        within, ghosts = _within(request, result.files, order), _Ghosts(request, result.files)
        for reader in request.mirrors:
            read_or_raise(reader, partial(ghosts.add, reader, within))
    return result, ghosts.files


def read_named(session: ReaderSession, endpoint: Endpoint, first_server_id: int, request: ChunkRequest) -> ChunkResult:
    """Read the rows with the request's keys; like a chunk, they are exact at the high watermark.

    Raises as `read_chunk`.
    """
    timings, watermarks, nulled = Timings(), session.watermarks, Counter[str]()
    low = low_watermark(session, request)
    timings.lap("low")
    most = min(slice_rows(request.rows_per_s), _KEYS_A_STATEMENT) if request.rows_per_s else _KEYS_A_STATEMENT
    schema, names = request.schema, request.table.key
    key_rows = [schema.empty_table().select(names)]
    with Spill(schema, request.max_memory) as waiting, chunk_writer(request, schema) as writer:
        for first in range(0, len(request.keys), most):
            keys_of_statement = replace(request, keys=request.keys[first : first + most])
            for batch in read_rows(session, keys_of_statement, nulled):
                rows = request.projection.apply(batch).cast(schema)
                waiting.add(rows)
                key_rows.append(rows.select(names))
        timings.lap("read")
        high = watermarks.high(low, request.table)
        watermarks.release()
        timings.lap("high")
        reduced = None
        if high != low:
            within = named_within(request.table, request.keys, pa.concat_tables(key_rows))
            reduced = backfill(session, endpoint, first_server_id, request, low, high, nulled, within)
        timings.lap("backfill")
        for rows in waiting:
            writer.write(rows if reduced is None else without(rows, reduced.touched_keys))
        for rows in reduced.upserts if reduced is not None else ():
            writer.write(request.projection.apply(rows).cast(schema))
        files = writer.close()
    timings.lap("write")
    nulled = request.projection.published_counts(nulled)
    counts = reduced.counts if reduced is not None else Backfill()
    return ChunkResult(
        request.limits, low, high, files, sum(file.rows for file in files), counts, nulled, dict(timings)
    )


def named_within(table: Table, keys: tuple[Bound, ...], key_rows: pa.Table) -> Within:
    """Select rows by identity: those requested, and those read, because a collation may match a different spelling.

    key_rows: the key columns of the rows that were read.
    """
    wanted = identities(table, keys)
    wanted = pa.concat_tables([wanted, key_rows.select(table.key).cast(wanted.schema)])
    return lambda rows: among(rows, wanted)


def _within(request: ChunkRequest, files: list[DataFile], order: ServerOrder) -> Within:
    if request.keys:
        return named_within(request.table, request.keys, _keys(request, files))
    return request.within(order) or (lambda rows: np.ones(rows.num_rows, bool))


def _keys(request: ChunkRequest, files: list[DataFile]) -> pa.Table:
    """The identities of the rows in the part's files."""
    schema = image_schema(request.table)
    schema = pa.schema([schema.field(name) for name in request.table.key])
    parts = [pq.read_table(request.folder.open(file.name), columns=schema.names, partitioning=None) for file in files]
    return pa.concat_tables([schema.empty_table(), *(conformed(part, schema) for part in parts)])


class _Ghosts:
    """Files with the mirrors' rows of the part that were not read. A key that several mirrors have is there once."""

    def __init__(self, request: ChunkRequest, files: list[DataFile]) -> None:
        """files: of the rows that were read."""
        self._request = request
        self._schema = image_schema(request.projection.published_table(request.table))
        self._taken = _keys(request, files)
        """The keys that no ghost has any more."""
        self.files: list[DataFile] = []

    def add(self, reader: MirrorReader, within: Within) -> None:
        """Write those of one mirror. Scans the keys first, and whole rows only if there are ghosts."""
        request, key = self._request, list(self._taken.column_names)
        names = list(dict.fromkeys([*key, *(request.key.names if request.key else ())]))
        condition = _condition(request)
        if (mirror := reader.mirror()) is None:
            return
        try:
            self._add(mirror, key, names, condition, within)
        finally:
            mirror.release()

    def _add(
        self, mirror: TableVersion, key: list[str], names: list[str], condition: RowCondition | None, within: Within
    ) -> None:
        request, schema = self._request, self._schema
        keys = [pa.schema([schema.field(name) for name in key]).empty_table()]
        for batch in mirror.batches(names, condition):
            rows = without(conformed(batch, pa.schema([schema.field(name) for name in names])), self._taken)
            if rows.num_rows:
                keys.append(rows.filter(pa.array(within(rows))).select(key))
        gone = pa.concat_tables(keys)
        with FileWriter(request.folder, "chunk-ghosts", schema, ()) as writer:
            if gone.num_rows:
                for batch in mirror.batches(schema.names, condition):
                    rows = conformed(batch, schema)
                    writer.write(rows.filter(pa.array(among(rows, gone))))
            self.files += writer.close()
        self._taken = pa.concat_tables([self._taken, gone.cast(self._taken.schema)])


def _condition(request: ChunkRequest) -> RowCondition | None:
    """A condition that lets the mirror's scan skip files.

    It uses only the key's first column, if Arrow can compare it.
    """
    if request.keys or request.key is None:
        return None
    column, name = request.key.columns[0], request.key.names[0]
    ends = [scalar(column, bound[0]) if bound else None for bound in (request.limits.lower, request.limits.upper)]
    conditions = [Compared(name, ">=", ends[0])] if ends[0] is not None else []
    conditions += [Compared(name, "<=", ends[1])] if ends[1] is not None else []
    return AnyOf([AllOf(conditions), NullColumn(name)]) if conditions else None


@dataclass(frozen=True)
class RedumpPart:
    """A task: fast-forward a redumped part to `fast_forward.end`, and write it as changes at that position."""

    fast_forward: FastForward
    ghosts: tuple[DataFile, ...]
    """Files with the ghosts: rows of the part that the mirror has and the source does not."""
    log: tuple[str, ...]
    """Files of the change log that may not have been merged into the mirror when the part was read."""
    folder: Folder
    """The folder of the change log."""
    first_seq: int
    """`_tm_seq` of the first change."""
    command: str
    """The command's id, which marks the changes (`_tm_redump`)."""

    def run(self) -> Iterator[ReaderReport]:
        """Yield one report.

        It has the change log's file, the number of rows and ghosts, and the requested keys that do not exist.
        """
        try:
            with writing("Writing redumped rows", [self.folder, self.fast_forward.request.folder]):
                report = self._write_changes()
            yield report
        except TidemarkError as error:
            request = self.fast_forward.request
            yield FailureReport(
                reader=ReaderProcess.here(), error=error, table=request.table.full_name, chunk=request.number
            )

    def _write_changes(self) -> RedumpReport:
        part, request, projection = self.fast_forward, self.fast_forward.request, self.fast_forward.request.projection
        table, published = request.table, projection.published_table(request.table)
        with closing(ServerOrder(part.endpoint)) as order:
            reduced, nulled = part.net_changes(_within(request, list(part.files), order))
        schema = image_schema(published)
        writer = FileWriter(self.folder, "changes", log_schema(arrow_schema(published)), (*table.key, TM_SEQ))
        kinds, seq = [0, 0, 0, 0], self.first_seq
        unmatched = [] if not request.keys else [identities(request.table, request.keys)]
        with writer:
            for kind, rows in self._parts(reduced, schema):
                writer.write(redump_changes(rows, KINDS[kind], str(part.end), seq, self.command))
                kinds[kind], seq = kinds[kind] + rows.num_rows, seq + rows.num_rows
                if kind == INSERT:
                    unmatched = [without(some, rows.select(table.key)) for some in unmatched]
            files = writer.close()
        inserts, before, after, deletes = kinds
        return RedumpReport(
            reader=ReaderProcess.here(),
            table=request.table.full_name,
            chunk=request.number,
            redump=self.command,
            changes=WrittenChanges(
                files=tuple(files), kinds=(inserts, before, after, deletes), nulled_dates=dict(nulled), next_seq=seq
            ),
            missing_keys=_texts(request.keys, request.table, unmatched[0]) if unmatched else [],
        )

    def _parts(self, reduced: NetChanges, schema: pa.Schema) -> Iterator[tuple[int, pa.Table]]:
        for kind, files in ((DELETE, self.ghosts), (INSERT, self.fast_forward.files)):
            for file in files:
                data = parquet_file(self.fast_forward.request.folder.open(file.name))
                for _, batch in batches(data):
                    rows = without(conformed(batch, schema), reduced.touched_keys)
                    yield kind, without(rows, self._logged_gone(rows)) if kind == DELETE else rows
        for rows in reduced.upserts:
            yield INSERT, conformed(self.fast_forward.request.projection.apply(rows), schema)

    def _logged_gone(self, ghosts: pa.Table) -> pa.Table:
        """The identities of the ghosts whose deletion is already in the log."""
        wanted = ghosts.select(self.fast_forward.request.table.key)
        parts = [wanted.slice(0, 0).append_column(TM_KIND, pa.array([], pa.string()))]
        for name in self.log if ghosts.num_rows else ():
            if self.folder.find(name) is None:
                continue  # every destination has it, so it was deleted: a deletion that it has may come once more
            batches = batches_of(self.folder.open(name), parts[0].schema)
            parts.extend(rows.filter(pa.array(among(rows, wanted))) for rows in batches)
        logged = pa.concat_tables(parts)
        newest = logged.take(pa.array(last_of_each(logged.select(wanted.column_names))))
        return newest.filter(pc.is_in(newest[TM_KIND], pa.array(GONE))).select(wanted.column_names)


def _texts(keys: tuple[Bound, ...], table: Table, some: pa.Table) -> list[list[str]]:
    """The keys, as requested, that are among these identities."""
    mask = among(identities(table, keys), some)
    return [list(key) for key, one in zip(keys, mask, strict=True) if one]

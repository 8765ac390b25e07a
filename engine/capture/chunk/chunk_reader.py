"""Reading one chunk: low watermark, SELECT, high watermark, backfill, one Parquet file (docs/correctness.md).

Rows stay columns from the socket to the file. Where a backfill may follow they wait in memory for the high watermark, and beyond
`max_memory` bytes on the reader's disk; where low and high are the same by construction they are written as they come.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from engine import clock
from engine.capture.binlog.binlog_range import BinlogRange, SchemaMismatch
from engine.capture.binlog.binlog_reader import read_range
from engine.capture.binlog.row_changes import RowChanges
from engine.capture.chunk.backfill import Reduced, Within, reduce_changes, without
from engine.capture.files import DataFile, FileWriter
from engine.capture.projection.table_projection import WHOLE_TABLE, Projection
from engine.capture.reader_session import ReaderSession
from engine.decode.arrow_schema import arrow_schema, image_schema
from engine.decode.gtid import joined
from engine.decode.result_rows import check_types, decode_rows
from engine.decode.schema import Table
from engine.errors import SchemaChangedError, TableStoppedError
from engine.events import Backfill
from engine.plan.chunks import Range, predicate
from engine.plan.keys import Bound, ChunkKey, bound_at
from engine.plan.named import having
from engine.plan.ordering import ServerOrder
from engine.plan.places import Ask, inside
from engine.source.connect import Endpoint, query, quote
from engine.source.packets import prepare
from engine.source.positions import Position
from engine.source.watermarks import Candidate, Step, no_step, server_time_s


@dataclass(frozen=True)
class ChunkRequest:
    """One chunk to be read."""

    table: Table
    number: int
    key: ChunkKey | None
    """The chunk key; None for a table without one."""
    limits: Range
    rows: int
    """Rows of a chunk by plan. At most twice as many are read."""
    folder: Path
    """The folder of the mirror that gets the file; of the change log, for a table without a key."""
    max_memory: int
    projection: Projection = WHOLE_TABLE
    """Which columns and rows are published."""
    redump: bool = False
    """Whether this is a redump (`capture.chunk.redump_part`)."""
    keys: tuple[Bound, ...] = ()
    """Of a redump of named rows: their identities."""

    @property
    def schema(self) -> pa.Schema:
        """Of the rows that are published."""
        return arrow_schema(self.projection.published(self.table))

    @property
    def may_be_null(self) -> bool:
        """Whether rows whose key is NULL belong to it."""
        return self.key is not None and self.key.columns[0].nullable and self.limits.lower is None

    def within(self, ask: Ask) -> Within | None:
        """Which rows are the chunk's; None: all."""
        key, limits = self.key, self.limits
        return (lambda rows: inside(rows, limits, key, ask)) if key else None

    def most(self, nulls: int | None = None) -> int | None:
        """The number of rows after which reading stops; None where it cannot, as rows could share the key of the last one.

        nulls: how many rows have NULL for a key, None when not counted; it does not distinguish them, so all of them are read.
        """
        if (
            self.keys
            or self.key is None
            or not set(self.table.key) <= set(self.key.names)
            or (self.may_be_null and nulls is None)
        ):
            return None
        return 2 * self.rows + (nulls or 0)


@dataclass(frozen=True)
class ChunkResult:
    """A chunk that is exact at `high`."""

    limits: Range
    """The range that was read: shorter than the chunk where the reader stopped early."""
    low: Position
    high: Position
    files: list[DataFile]
    rows: int
    backfill: Backfill
    nulled: Counter[str]
    """Dates that became NULL, by column."""
    timings: dict[str, float]
    """Seconds by step."""


class Timings(dict[str, float]):
    """Seconds by step: `lap` books the time since the lap before."""

    def __init__(self) -> None:
        self._at = clock.monotonic_s()

    def lap(self, name: str) -> None:
        now = clock.monotonic_s()
        self[name] = round(self.get(name, 0.0) + now - self._at, 6)
        self._at = now


def read_chunk(
    session: ReaderSession, endpoint: Endpoint, first_server_id: int, request: ChunkRequest, step: Step = no_step
) -> ChunkResult:
    """Read one chunk. Raises TableStoppedError for what cannot be copied, TransientError for what another try may cure."""
    timings, watermarks = Timings(), session.watermarks
    low = watermarks.low(step)
    timings.lap("low")
    step("before_read")
    schema = request.schema
    exact = watermarks.exact(request.table)
    nulled: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="tidemark-spill-") as spill, chunk_writer(request, schema) as writer:
        buffer = _Buffer(request.max_memory, Path(spill), schema)
        nulls = _null_keys(session, request)
        count, most = 0, request.most(nulls)
        for rows in read_rows(session, request, nulled, nulls):
            count += rows.num_rows
            kept = rows
            if count == most:
                kept, request = _shortened(request, rows)
            kept = request.projection.apply(kept)
            writer.write(kept) if exact else buffer.add(kept)
        step("after_read")
        timings.lap("read")
        high = watermarks.high(low, request.table, step)
        watermarks.release()
        timings.lap("high")
        step("before_backfill")
        reduced = None
        if high != low:
            with closing(ServerOrder(endpoint)) as order:
                within = request.within(order)
                reduced = backfill(session, endpoint, first_server_id, request, low, high, nulled, within)
        step("after_backfill")
        timings.lap("backfill")
        for rows in buffer:
            writer.write(rows if reduced is None else without(rows, reduced.touched))
        if reduced is not None:
            writer.write(request.projection.apply(reduced.upserts).cast(schema))
        files = writer.close()
        timings.lap("write")
    nulled = request.projection.counted(nulled)
    counts: Backfill = reduced.counts if reduced else {"changes": 0, "deleted": 0, "upserted": 0}
    return ChunkResult(request.limits, low, high, files, sum(f.rows for f in files), counts, nulled, dict(timings))


def _null_keys(session: ReaderSession, request: ChunkRequest) -> int:
    """How many rows of the chunk have NULL for a key: entries of the index, read once more."""
    if request.key is None or not request.may_be_null:
        return 0
    source, name = quote(request.table.database, request.table.name), quote(request.key.names[0])
    index = quote(request.key.index)
    (row,) = query(session.connection, f"SELECT COUNT(*) AS n FROM {source} FORCE INDEX ({index}) WHERE {name} IS NULL")
    return int(row["n"])


def _shortened(request: ChunkRequest, rows: pa.Table) -> tuple[pa.Table, ChunkRequest]:
    """A chunk that is larger than it may be ends in front of the last row that was read: all rows below its key were read.

    Raises TableStoppedError when no row of the last batch can be a bound.
    """
    assert request.key is not None
    for row in reversed(range(rows.num_rows)):
        bound = bound_at(request.key, rows, row)
        if bound is not None:
            return rows.slice(0, row), replace(request, limits=Range(request.limits.lower, bound))
    raise TableStoppedError(
        f"{request.table.full_name}: a chunk is too large and no key of its last {rows.num_rows} rows can end it.",
        detail="They are NULL, or hold codes that their character set has no character for. Nothing of it was published.",
        hint="Set another chunk key for the table, or larger chunks.",
    )


def chunk_writer(request: ChunkRequest, schema: pa.Schema) -> FileWriter:
    """The writer of the chunk's file."""
    return FileWriter(request.folder, f"chunk-{request.number:06d}", schema, request.table.key)


def select_statement(request: ChunkRequest, nulls: int | None = None) -> str:
    """The SELECT of a chunk: columns listed (so that invisible ones come too), one range of the key's index.

    Without FORCE INDEX the optimiser takes a range that is a good part of the table for the whole of it.
    """
    columns = ", ".join(quote(column.name) for column in request.projection.needed(request.table))
    source = quote(request.table.database, request.table.name)
    if request.keys:
        return f"SELECT {columns} FROM {source} WHERE {having(request.table, request.keys)}"
    if request.key is None:
        return f"SELECT {columns} FROM {source}"
    condition = predicate(request.key, request.limits)
    where = f" WHERE {condition}" if condition else ""
    most = request.most(nulls)
    order = f" ORDER BY {', '.join(map(quote, request.key.names))} LIMIT {most}" if most else ""
    index = f" FORCE INDEX ({quote(request.key.index)})" if where or order else ""
    return f"SELECT {columns} FROM {source}{index}{where}{order}"


def read_rows(
    session: ReaderSession, request: ChunkRequest, nulled: Counter[str], nulls: int | None = None
) -> Iterator[pa.Table]:
    """What the chunk's SELECT returns, in batches, with the columns that its projection needs."""
    doing, columns = (
        f"Reading chunk {request.number} of {request.table.full_name}",
        request.projection.needed(request.table),
    )
    schema = arrow_schema(replace(request.table, columns=columns))
    statement = prepare(session.connection, select_statement(request, nulls), doing)
    types, packets = statement.execute(doing)
    check_types(columns, types)
    for block in packets.blocks():
        batch = decode_rows(block.buffer, block.start, block.end, columns, nulled)
        yield pa.Table.from_batches([batch]).cast(schema)
    statement.close()


def backfill(
    session: ReaderSession,
    endpoint: Endpoint,
    first_server_id: int,
    request: ChunkRequest,
    low: Position,
    high: Position,
    nulled: Counter[str],
    within: Within | None,
) -> Reduced:
    """The changes between the watermarks, reduced to their effect on the rows that are read."""
    table = request.projection.tolerant(request.table)
    changes = changes_between(session, endpoint, first_server_id, table, low, high, nulled)
    return reduce_changes(changes, image_schema(table), table.key, within)


def changes_between(
    session: ReaderSession,
    endpoint: Endpoint,
    first_server_id: int,
    table: Table,
    low: Position,
    high: Position,
    nulled: Counter[str],
) -> Iterator[RowChanges]:
    """A table's changes in (low, high]; what it learns of GTIDs makes `high` a candidate for the next low watermark.

    Raises as `changes_of`.
    """
    binlog_range = BinlogRange(
        {(table.database, table.name): table}, low, high, mariadb=session.server.flavor == "mariadb"
    )
    yield from changes_of(endpoint, first_server_id, table, binlog_range)
    nulled.update(binlog_range.nulled[table.full_name])
    if session.watermarks.kind == "gtid" and low.gtids is not None:
        gtids = joined([low.gtids, str(binlog_range.transactions.gtids)], mariadb=False)
        known = Position(high.file, high.offset, gtids)
        session.watermarks.offer(Candidate(known, server_time_s(session.connection)))


def changes_of(
    endpoint: Endpoint, first_server_id: int, table: Table, binlog_range: BinlogRange
) -> Iterator[RowChanges]:
    """The changes of the one table of a binlog range. Raises SchemaChangedError when it was altered there, and what stops it."""
    try:
        for _, _, changes in read_range(endpoint, binlog_range, first_server_id):
            yield changes
    except SchemaMismatch as mismatch:
        raise changed(table, str(mismatch)) from mismatch
    if binlog_range.altered is not None:
        raise changed(table, f"At {binlog_range.altered.at}: {binlog_range.altered.statement[:200]}")
    if table.full_name in binlog_range.stopped:
        raise binlog_range.stopped[table.full_name]


def changed(table: Table, why: str) -> SchemaChangedError:
    """What a read of a table is when the table was altered before it ended."""
    return SchemaChangedError(
        f"{table.full_name} was altered while it was read. {why}",
        detail="What was read of this chunk is void; nothing of it is published.",
        hint="It is read again, with the columns that the table has then.",
    )


class _Buffer:
    """Rows that wait for the high watermark: in memory up to a limit, the rest in an Arrow file."""

    def __init__(self, limit: int, folder: Path, schema: pa.Schema) -> None:
        self._limit, self._path, self._schema = limit, folder / "rows.arrow", schema
        self._held: list[pa.Table] = []
        self._bytes = 0
        self._spill: pa.RecordBatchFileWriter | None = None

    def add(self, rows: pa.Table) -> None:
        self._held.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > self._limit:
            if self._spill is None:
                self._spill = pa.ipc.new_file(self._path, self._schema)
            for held in self._held:
                self._spill.write_table(held)
            self._held, self._bytes = [], 0

    def __iter__(self) -> Iterator[pa.Table]:
        if self._spill is not None:
            self._spill.close()
            with pa.OSFile(str(self._path)) as source, pa.ipc.open_file(source) as file:
                for n in range(file.num_record_batches):
                    yield pa.Table.from_batches([file.get_batch(n)])
        yield from self._held

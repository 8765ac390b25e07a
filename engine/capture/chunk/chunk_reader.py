"""Reads one chunk: low watermark, SELECT, high watermark, backfill, one Parquet file (docs/correctness.md).

Rows stay in columns from the socket to the file. If a backfill may follow, they wait for the high watermark in memory,
and beyond `max_memory` bytes on the reader's disk. If both watermarks are equal by construction, rows are written as
they arrive.

A throttled chunk is read in slices, one SELECT each, with pauses between them (`capture.pacing`). Between two SELECTs
the reader holds nothing in the source: no read view, no metadata lock. So in class snapshot it ends the transaction
before the first slice, and takes the high watermark after the last one, as in the other classes. The slices need not
agree with each other: whatever changed between the watermarks, the backfill replaces.
"""

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa

from engine.base import clock
from engine.base.errors import SchemaChangedError, TableStoppedError
from engine.capture.binlog.binlog_range import BinlogRange, SchemaMismatch
from engine.capture.binlog.binlog_reader import read_range
from engine.capture.binlog.row_changes import RowChanges
from engine.capture.chunk.backfill import NetChanges, Within, reduce_changes, without
from engine.capture.files import DataFile, FileWriter
from engine.capture.landing import MirrorReader
from engine.capture.pacing import slice_rows
from engine.capture.projection.table_projection import WHOLE_TABLE, Projection
from engine.capture.reader_session import ReaderSession
from engine.capture.spill import Spill
from engine.decode.arrow_schema import arrow_schema, image_schema
from engine.decode.gtid import joined
from engine.decode.result_rows import check_types, decode_rows
from engine.decode.schema import Table
from engine.journal.event_fields import Backfill
from engine.plan.chunks import Range, predicate
from engine.plan.keys import Bound, ChunkKey, bound_at
from engine.plan.named import having
from engine.plan.ordering import ServerOrder
from engine.plan.places import Ask, inside
from engine.source.connect import Endpoint, query, quote
from engine.source.packets import BUFFER, prepare
from engine.source.positions import Position
from engine.source.watermarks import Candidate, StepHook, no_step, server_time_s
from engine.source.xa_places import XaPlaces
from engine.store.folder import Folder

_SMALL_BLOCK = 128 << 10
"""Bytes per block of a SELECT that is read with pauses between its blocks."""
_LONGEST_PAUSE_S = 300.0
"""Seconds between two blocks. The server breaks a SELECT off when it cannot send for `net_write_timeout`,
ten minutes."""


@dataclass(frozen=True)
class ChunkRequest:
    """A request to read one chunk."""

    table: Table
    number: int
    key: ChunkKey | None
    """The chunk key; None if the table has none."""
    limits: Range
    rows: int
    """Planned rows per chunk. The reader stops at twice as many."""
    folder: Folder
    """The folder that gets the file (`capture.landing`)."""
    max_memory: int
    projection: Projection = WHOLE_TABLE
    """Which columns and rows are published."""
    mirrors: tuple[MirrorReader, ...] = ()
    """For a redump (`capture.chunk.redump_part`): they read back the destinations whose ghosts are deleted."""
    keys: tuple[Bound, ...] = ()
    """The identities of the rows, if the redump names rows."""
    rows_per_s: float = 0.0
    """The rate at which rows are read; 0: as fast as possible."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the published rows."""
        return arrow_schema(self.projection.published_table(self.table))

    @property
    def may_be_null(self) -> bool:
        """Whether rows with a NULL key belong to the chunk."""
        return self.key is not None and self.key.columns[0].nullable and self.limits.lower is None

    def within(self, ask: Ask) -> Within | None:
        """Select the chunk's rows; None for all rows."""
        key, limits = self.key, self.limits
        return (lambda rows: inside(rows, limits, key, ask)) if key else None

    def max_rows(self, nulls: int | None = None) -> int | None:
        """Rows after which the reader stops. None if it cannot stop, because rows could share the key of the last one.

        nulls: the number of rows with a NULL key, None if not counted. NULL keys are indistinguishable, so all of them
        are read.
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
    """A chunk's rows, exact at `high`."""

    limits: Range
    """The range that was read; shorter than the chunk if the reader stopped early."""
    low: Position
    high: Position
    files: list[DataFile]
    rows: int
    backfill: Backfill
    nulled_dates: Counter[str]
    """Invalid dates that became NULL, by column."""
    timings: dict[str, float]
    """Seconds per step."""
    writer: FileWriter | None = None
    """If the files are not stored yet: stores them."""


class Timings(dict[str, float]):
    """Seconds per step. `lap` adds the time since the previous lap."""

    def __init__(self) -> None:
        self._at = clock.monotonic_s()

    def lap(self, name: str) -> None:
        now = clock.monotonic_s()
        self[name] = round(self.get(name, 0.0) + now - self._at, 6)
        self._at = now


def read_chunk(
    session: ReaderSession,
    endpoint: Endpoint,
    first_server_id: int,
    request: ChunkRequest,
    step: StepHook = no_step,
    *,
    stores: bool = True,
) -> ChunkResult:
    """Read one chunk. Raises TableStoppedError if it cannot be copied, TransientError if a retry may help.

    stores: whether its file is stored; else the caller does that (`ChunkResult.writer`), and may read the next chunk
    meanwhile.
    """
    timings, watermarks = Timings(), session.watermarks
    low = low_watermark(session, request, step)
    timings.lap("low")
    step("before_read")
    schema = request.schema
    exact = watermarks.exact(request.table)
    nulled: Counter[str] = Counter()
    with Spill(schema, request.max_memory) as waiting, chunk_writer(request, schema) as writer:
        nulls = null_keys(session, request)
        count, most = 0, request.max_rows(nulls)
        for rows in read_rows(session, request, nulled, nulls):
            count += rows.num_rows
            batch = rows
            if count == most:
                batch, request = cut_short(request, rows)
            batch = request.projection.apply(batch)
            writer.write(batch) if exact else waiting.add(batch)
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
        for rows in waiting:
            writer.write(rows if reduced is None else without(rows, reduced.touched_keys))
        for rows in reduced.upserts if reduced is not None else ():
            writer.write(request.projection.apply(rows).cast(schema))
        files = writer.close() if stores else writer.finish()
        timings.lap("write")
    nulled = request.projection.published_counts(nulled)
    counts = reduced.counts if reduced else Backfill()
    rows = sum(file.rows for file in files)
    return ChunkResult(
        request.limits, low, high, files, rows, counts, nulled, dict(timings), None if stores else writer
    )


def low_watermark(session: ReaderSession, request: ChunkRequest, step: StepHook = no_step) -> Position:
    """The chunk's low watermark. A slow read does not keep the transaction of class snapshot open."""
    low = session.watermarks.low(step)
    if request.rows_per_s:
        session.watermarks.release()
    return low


def null_keys(session: ReaderSession, request: ChunkRequest) -> int:
    """The number of the chunk's rows with a NULL key, counted in the index."""
    if request.key is None or not request.may_be_null:
        return 0
    source, name = quote(request.table.database, request.table.name), quote(request.key.names[0])
    index = quote(request.key.index)
    (row,) = query(session.connection, f"SELECT COUNT(*) AS n FROM {source} FORCE INDEX ({index}) WHERE {name} IS NULL")
    return int(row["n"])


def cut_short(request: ChunkRequest, rows: pa.Table) -> tuple[pa.Table, ChunkRequest]:
    """Cut an oversized chunk before the last row read: all rows below that row's key have been read.

    Raises TableStoppedError if no row of the last batch can be a bound.
    """
    assert request.key is not None
    row, bound = _last_bound(request.key, rows)
    if bound is not None:
        return rows.slice(0, row), replace(request, limits=Range(request.limits.lower, bound))
    raise TableStoppedError(
        f"{request.table.full_name}: a chunk is too large, and none of its last {rows.num_rows} keys can be a chunk "
        "bound.",
        detail="They are NULL, or contain codes that their character set does not define. "
        "Nothing of the chunk was published.",
        hint="Set another chunk key for the table, or larger chunks.",
    )


def _last_bound(key: ChunkKey, rows: pa.Table) -> tuple[int, Bound | None]:
    """The last row whose key can be a bound, and that bound; (0, None) if there is none."""
    for row in reversed(range(rows.num_rows)):
        bound = bound_at(key, rows, row)
        if bound is not None:
            return row, bound
    return 0, None


def chunk_writer(request: ChunkRequest, schema: pa.Schema) -> FileWriter:
    """A writer for the chunk's file."""
    return FileWriter(request.folder, f"chunk-{request.number:06d}", schema, request.table.key)


def select_statement(request: ChunkRequest, nulls: int | None = None) -> str:
    """The chunk's SELECT. It lists the columns, to include invisible ones, and reads one range of the key's index.

    FORCE INDEX, because for a range that is a large part of the table the optimiser prefers a full scan.
    """
    if request.keys:
        return f"{_select(request)} WHERE {having(request.table, request.keys)}"
    if request.key is None:
        return _select(request)
    condition, most = predicate(request.key, request.limits), request.max_rows(nulls)
    if not condition and not most:
        return _select(request)
    return _select(request) + _range(request.key, condition, most)


def slice_statement(request: ChunkRequest, after: Bound | None, max_rows: int) -> str:
    """The SELECT of a slice of the chunk: at most `max_rows` rows after a key, or of its first rows."""
    key, limits = request.key, request.limits
    assert key is not None
    condition = predicate(key, limits) if after is None else predicate(key, Range(after, limits.upper), after=True)
    return _select(request) + _range(key, condition, max_rows)


def _select(request: ChunkRequest) -> str:
    columns = ", ".join(quote(column.name) for column in request.projection.needed_columns(request.table))
    return f"SELECT {columns} FROM {quote(request.table.database, request.table.name)}"


def _range(key: ChunkKey, condition: str, most: int | None) -> str:
    where = f" WHERE {condition}" if condition else ""
    order = f" ORDER BY {', '.join(map(quote, key.names))} LIMIT {most}" if most else ""
    return f" FORCE INDEX ({quote(key.index)}){where}{order}"


def read_rows(
    session: ReaderSession, request: ChunkRequest, nulled_dates: Counter[str], nulls: int | None = None
) -> Iterator[pa.Table]:
    """Yield the chunk's rows in batches, with the columns that its projection needs, and count them."""
    for rows in _read_paced(session, request, nulled_dates, nulls):
        session.counter.add(rows.num_rows)
        yield rows


def _read_paced(
    session: ReaderSession, request: ChunkRequest, nulled_dates: Counter[str], nulls: int | None
) -> Iterator[pa.Table]:
    """Yield the chunk's rows no faster than its rate.

    A chunk that cannot be read in slices is one SELECT, and the pauses are between its blocks. Until it is read, it
    holds a read view and a metadata lock. An engine without transactions would lock its writers out, so such a table is
    read without pauses.
    """
    whole = request.max_rows(nulls) is None and not request.keys
    if not request.rows_per_s or (whole and not request.table.transactional):
        yield from _read_select(session, request, select_statement(request, nulls), nulled_dates)
    elif request.max_rows(nulls) is not None:
        yield from _slices(session, request, nulled_dates, nulls)
    else:
        pacer = session.pacer
        pacer.wait(_LONGEST_PAUSE_S)
        for rows in _read_select(session, request, select_statement(request, nulls), nulled_dates, _SMALL_BLOCK):
            pacer.wait(_LONGEST_PAUSE_S)
            yield rows
            pacer.read(rows.num_rows, request.rows_per_s)


def _slices(
    session: ReaderSession, request: ChunkRequest, nulled_dates: Counter[str], nulls: int | None
) -> Iterator[pa.Table]:
    """Yield the rows of the chunk's SELECT slice by slice: each slice is what follows the last key of the one before.

    If the last key cannot be a bound, the slice is read again: up to a key that can, or twice as many rows.
    """
    assert request.key is not None
    size, after, budget = slice_rows(request.rows_per_s), None, request.max_rows(nulls)
    assert budget is not None
    limit = size + (nulls or 0)
    while True:
        limit = budget if budget < limit + size else limit  # so that enough rows remain to find a bound among
        counts = Counter[str]()
        session.pacer.wait(math.inf)
        batches = list(_read_select(session, request, slice_statement(request, after, limit), counts))
        rows = pa.concat_tables(batches) if batches else request.schema.empty_table()
        session.pacer.read(rows.num_rows, request.rows_per_s)
        last, bound = _last_bound(request.key, rows)
        more = limit < budget and rows.num_rows == limit
        if more and (bound is None or last < limit - 1):
            limit = 2 * limit if bound is None else last + 1
            continue
        nulled_dates.update(counts)
        yield from batches
        if not more:
            return
        after, budget, limit = bound, budget - limit, size


def _read_select(
    session: ReaderSession, request: ChunkRequest, sql: str, nulled_dates: Counter[str], block_bytes: int = BUFFER
) -> Iterator[pa.Table]:
    """Yield the rows of a SELECT in batches."""
    doing, columns = (
        f"Reading chunk {request.number} of {request.table.full_name}",
        request.projection.needed_columns(request.table),
    )
    schema = arrow_schema(replace(request.table, columns=columns))
    statement = prepare(session.connection, sql, doing)
    types, packets = statement.execute(doing, block_bytes)
    check_types(columns, types)
    for block in packets.blocks():
        batch = decode_rows(block.buffer, block.start, block.end, columns, nulled_dates)
        yield pa.Table.from_batches([batch]).cast(schema)
    statement.close()


def backfill(
    session: ReaderSession,
    endpoint: Endpoint,
    first_server_id: int,
    request: ChunkRequest,
    low: Position,
    high: Position,
    nulled_dates: Counter[str],
    within: Within | None,
) -> NetChanges:
    """Reduce the changes between the watermarks to their effect on the chunk's rows."""
    table = request.projection.tolerant(request.table)
    changes = changes_between(session, endpoint, first_server_id, table, low, high, nulled_dates)
    return reduce_changes(changes, image_schema(table), table.key, within)


def changes_between(
    session: ReaderSession,
    endpoint: Endpoint,
    first_server_id: int,
    table: Table,
    low: Position,
    high: Position,
    nulled_dates: Counter[str],
) -> Iterator[RowChanges]:
    """Yield a table's changes in (low, high].

    Afterwards `high`, with its GTIDs, is a candidate for the next low watermark.

    Raises as `changes_of`.
    """
    before, mariadb = session.watermarks.places, session.server.flavor == "mariadb"
    if before.at is None:
        before = session.xa_places.near(low)
    binlog_range = BinlogRange({(table.database, table.name): table}, low, high, mariadb=mariadb, places=before)
    yield from changes_of(endpoint, first_server_id, table, binlog_range)
    nulled_dates.update(binlog_range.nulled_dates[table.full_name])
    places = before.after(*binlog_range.places) if binlog_range.places is not None else XaPlaces()
    session.xa_places.note(before)
    session.xa_places.note(places)
    if session.watermarks.kind == "gtid" and low.gtids is not None:
        gtids = joined([low.gtids, str(binlog_range.transactions.gtids)], mariadb=False)
        end = Position(high.file, high.offset, gtids)
        session.watermarks.offer(Candidate(end, server_time_s(session.connection), places))


def changes_of(
    endpoint: Endpoint, first_server_id: int, table: Table, binlog_range: BinlogRange
) -> Iterator[RowChanges]:
    """Yield a binlog range's changes of one table.

    Raises SchemaChangedError if it was altered, or the error that stopped it.
    """
    try:
        for _, _, changes in read_range(endpoint, binlog_range, first_server_id):
            yield changes
    except SchemaMismatch as mismatch:
        raise schema_changed_error(table, str(mismatch)) from mismatch
    if binlog_range.alteration is not None:
        raise schema_changed_error(table, f"At {binlog_range.alteration.at}: {binlog_range.alteration.statement[:200]}")
    if table.full_name in binlog_range.stop_errors:
        raise binlog_range.stop_errors[table.full_name]


def schema_changed_error(table: Table, why: str) -> SchemaChangedError:
    """The error for a table that was altered while it was being read."""
    return SchemaChangedError(
        f"{table.full_name} was altered while it was read. {why}",
        detail="The rows read for this chunk were discarded; none were published.",
        hint="Tidemark reads the chunk again, with the table's new columns.",
    )

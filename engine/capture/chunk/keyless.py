"""Reading a table that has no identity: one chunk, published to its change log as inserts.

Nothing tells its rows apart, so no change can be applied to what a SELECT returned. The chunk must be exact by itself: a consistent
snapshot is opened between two watermarks, and only if every change of the table between them is known to be in it is it read, all
within that snapshot; it is then the table at the high watermark. Otherwise another one is opened. Known to be in it is,
with GTIDs, what `gtid_executed` held before it was opened: what remains doubtful is a millisecond, however long the read takes and
however old the low watermark is. Without GTIDs nothing is known, and the window must be free of changes. (A table of an engine
without snapshots is read between the watermarks, and read again.)
"""

from collections import Counter
from dataclasses import dataclass

from engine import clock
from engine.capture.binlog.row_changes import concatenate, dumped, log_schema
from engine.capture.chunk.chunk_reader import ChunkRequest, ChunkResult, Timings, changes_between, read_rows
from engine.capture.files import FileWriter
from engine.capture.reader_session import ReaderSession
from engine.decode.arrow_schema import image_schema
from engine.decode.gtid import gtid_set_of
from engine.errors import TableStoppedError
from engine.events import Backfill
from engine.source.connect import Endpoint, query
from engine.source.positions import Position, current
from engine.source.watermarks import Step, no_step

_PATIENCE_S = 120.0
_PAUSE_S = 0.01
_FIRST_SEQ = -(1 << 62)
"""`_tm_seq` of the first row: rows of a copy come before all changes."""


def read_keyless(
    session: ReaderSession, endpoint: Endpoint, first_server_id: int, request: ChunkRequest, step: Step = no_step
) -> ChunkResult:
    """Read the table. Raises TableStoppedError when it is written so often that no window without a change was found."""
    timings, nulled = Timings(), Counter[str]()
    deadline = clock.monotonic_s() + _PATIENCE_S
    while clock.monotonic_s() < deadline:
        low = session.watermarks.low(step)
        timings.lap("low")
        writer = FileWriter(request.folder, "changes", log_schema(request.schema), ("_tm_seq",))
        with writer:
            opened = _opened(session, request, low, step)
            high, quiet = opened.high, _quiet(session, endpoint, first_server_id, request, low, opened)
            if quiet or not request.table.transactional:
                timings.lap("high")
                nulled = _write(session, request, high, writer)
                timings.lap("read")
            if not request.table.transactional and not session.watermarks.exact(request.table):
                high = current(session.connection, session.server)
                quiet = _quiet(session, endpoint, first_server_id, request, low, _Opened(high, ""))
            query(session.connection, "COMMIT")
            if quiet:
                files = writer.close()
                timings.lap("write")
                rows, counts = sum(f.rows for f in files), Backfill(changes=0, deleted=0, upserted=0)
                return ChunkResult(request.limits, low, high, files, rows, counts, nulled, dict(timings))
            writer.discard()
        clock.sleep(_PAUSE_S)
    raise TableStoppedError(
        f"{request.table.full_name} has no key and was written all the time for {_PATIENCE_S:.0f} s.",
        detail="Without a key its rows can be read exactly only at an instant without a change of it; nothing was published.",
        hint="Give it a primary key, or start the pipeline when it is written less.",
    )


@dataclass(frozen=True)
class _Opened:
    """A snapshot: what it shows lies at or before `high`, and holds all transactions of `visible` (a GTID set; empty: unknown)."""

    high: Position
    visible: str


def _opened(session: ReaderSession, request: ChunkRequest, low: Position, step: Step) -> _Opened:
    if session.watermarks.exact(request.table):
        return _Opened(low, "")
    executed = ""
    if session.watermarks.kind == "gtid":
        executed = query(session.connection, "SELECT @@global.gtid_executed AS executed")[0]["executed"]
    query(session.connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    step("before_high")
    high = current(session.connection, session.server)
    step("after_high")
    return _Opened(high, executed)


def _quiet(
    session: ReaderSession,
    endpoint: Endpoint,
    first_server_id: int,
    request: ChunkRequest,
    low: Position,
    opened: _Opened,
) -> bool:
    """Whether no change of the table lies in (low, high] but those that the snapshot is known to show."""
    if opened.high == low:
        return True
    table = request.projection.tolerant(request.table)
    parts = changes_between(session, endpoint, first_server_id, table, low, opened.high, Counter())
    changes = concatenate(parts, image_schema(table))
    if not len(changes):
        return True
    if not opened.visible or not changes.fact("tx_n").all():
        return False
    theirs = str(gtid_set_of(changes.sources, changes.fact("tx_source"), changes.fact("tx_n")))
    (row,) = query(session.connection, "SELECT GTID_SUBSET(%s, %s) AS shown", (theirs, opened.visible))
    return bool(row["shown"])


def _write(session: ReaderSession, request: ChunkRequest, high: Position, writer: FileWriter) -> Counter[str]:
    nulled: Counter[str] = Counter()
    seq = _FIRST_SEQ
    for read in read_rows(session, request, nulled):
        rows = request.projection.apply(read)
        writer.write(dumped(rows, "+I", str(high), seq))
        seq += rows.num_rows
    return request.projection.counted(nulled)

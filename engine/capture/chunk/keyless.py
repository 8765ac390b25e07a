"""Reads a table without an identity: one chunk, published to its change log as inserts.

Its rows are indistinguishable, so no change can be applied to the rows of a SELECT. The chunk must be exact by itself.
The reader opens a consistent snapshot between two watermarks. It reads the snapshot only if it is known to show every
change of the table between them; the snapshot is then the table at the high watermark. Otherwise the reader opens
another one. With GTIDs, the snapshot is known to show what `gtid_executed` contained before it was opened. Only a
millisecond stays in doubt, however long the read takes and however old the low watermark is. Without GTIDs nothing is
known, so the window must be free of changes. (If the engine has no snapshots, the table is read between the watermarks,
and read again if it changed.)
"""

from collections import Counter
from dataclasses import dataclass

from engine.base import clock
from engine.base.errors import TableStoppedError
from engine.capture.binlog.row_changes import SNAPSHOT_SEQ, concatenate, log_schema, redump_changes
from engine.capture.chunk.chunk_reader import ChunkRequest, ChunkResult, Timings, changes_between, read_rows
from engine.capture.files import FileWriter
from engine.capture.reader_session import ReaderSession
from engine.decode.arrow_schema import image_schema
from engine.decode.gtid import gtid_set_of
from engine.decode.schema import TM_SEQ
from engine.journal.event_fields import Backfill
from engine.source.connect import Endpoint, query
from engine.source.positions import Position, current
from engine.source.watermarks import StepHook, no_step

_PATIENCE_S = 120.0
_PAUSE_S = 0.01


def read_keyless(
    session: ReaderSession, endpoint: Endpoint, first_server_id: int, request: ChunkRequest, step: StepHook = no_step
) -> ChunkResult:
    """Read the table. Raises TableStoppedError if constant writes leave no window without a change."""
    timings, nulled = Timings(), Counter[str]()
    deadline = clock.monotonic_s() + _PATIENCE_S
    while clock.monotonic_s() < deadline:
        low = session.watermarks.low(step)
        timings.lap("low")
        writer = FileWriter(request.folder, "changes", log_schema(request.schema), (TM_SEQ,))
        with writer:
            snapshot = _open_snapshot(session, request, low, step)
            high, unchanged = snapshot.high, _is_unchanged(session, endpoint, first_server_id, request, low, snapshot)
            if unchanged or not request.table.transactional:
                timings.lap("high")
                nulled = _write(session, request, high, writer)
                timings.lap("read")
            if not request.table.transactional and not session.watermarks.exact(request.table):
                high = current(session.connection, session.server)
                unchanged = _is_unchanged(session, endpoint, first_server_id, request, low, _VisibleSnapshot(high, ""))
            query(session.connection, "COMMIT")
            if unchanged:
                files = writer.close()
                timings.lap("write")
                rows, counts = sum(f.rows for f in files), Backfill()
                return ChunkResult(request.limits, low, high, files, rows, counts, nulled, dict(timings))
            writer.discard()
        clock.sleep(_PAUSE_S)
    raise TableStoppedError(
        f"{request.table.full_name} has no key and was written to continuously for {_PATIENCE_S:.0f} s.",
        detail="Without a key, a table can only be read exactly at an instant when it does not change. "
        "Nothing was published.",
        hint="Give it a primary key on whole columns. Or try again when there are fewer writes: tidemark remove-table "
        "SPEC --table "
        f"{request.table.full_name} --drop and, once it is removed, tidemark add-table SPEC --table "
        f"{request.table.full_name}",
    )


@dataclass(frozen=True)
class _VisibleSnapshot:
    """A snapshot taken at or before `high`. It shows all transactions of `visible` (a GTID set; empty: unknown)."""

    high: Position
    visible: str


def _open_snapshot(session: ReaderSession, request: ChunkRequest, low: Position, step: StepHook) -> _VisibleSnapshot:
    if session.watermarks.exact(request.table):
        return _VisibleSnapshot(low, "")
    executed = ""
    if session.watermarks.kind == "gtid":
        executed = query(session.connection, "SELECT @@global.gtid_executed AS executed")[0]["executed"]
    query(session.connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    step("before_high")
    high = current(session.connection, session.server)
    step("after_high")
    return _VisibleSnapshot(high, executed)


def _is_unchanged(
    session: ReaderSession,
    endpoint: Endpoint,
    first_server_id: int,
    request: ChunkRequest,
    low: Position,
    snapshot: _VisibleSnapshot,
) -> bool:
    """Whether every change of the table in (low, high] is known to be visible in the snapshot."""
    if snapshot.high == low:
        return True
    table = request.projection.tolerant(request.table)
    parts = changes_between(session, endpoint, first_server_id, table, low, snapshot.high, Counter())
    changes = concatenate(parts, image_schema(table))
    if not len(changes):
        return True
    if not snapshot.visible or not changes.fact("tx_n").all():
        return False
    changed_gtids = str(gtid_set_of(changes.sources, changes.fact("tx_source"), changes.fact("tx_n")))
    (row,) = query(session.connection, "SELECT GTID_SUBSET(%s, %s) AS shown", (changed_gtids, snapshot.visible))
    return bool(row["shown"])


def _write(session: ReaderSession, request: ChunkRequest, high: Position, writer: FileWriter) -> Counter[str]:
    nulled: Counter[str] = Counter()
    seq = SNAPSHOT_SEQ
    for batch in read_rows(session, request, nulled):
        rows = request.projection.apply(batch)
        writer.write(redump_changes(rows, "+I", str(high), seq))
        seq += rows.num_rows
    return request.projection.published_counts(nulled)

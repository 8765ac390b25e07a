"""A group of chunks as one task: what is still read after a failure, and by which reader."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.base.errors import (
    DecodeError,
    PreflightError,
    SchemaChangedError,
    SourceChangedError,
    SourceLostError,
    StoreUnreachableError,
    TableStoppedError,
    TransientError,
)
from engine.base.store_errors import StoreAwayError
from engine.capture import reader_session, tasks
from engine.capture.chunk.chunk_reader import ChunkRequest, ChunkResult
from engine.capture.chunk.fast_forward import has_mutable_key
from engine.capture.pacing import Pacer, ReadEndedError
from engine.capture.reports import ChunkReport, FailureReport, from_bytes, to_bytes
from engine.capture.row_counter import RowCounter
from engine.capture.tasks import ChunkGroup
from engine.decode.schema import Column, Table
from engine.journal.event_fields import Backfill
from engine.plan.chunks import WHOLE, Range
from engine.plan.keys import ChunkKey
from engine.source.connect import Endpoint
from engine.source.positions import Position
from engine.source.watermarks import Candidate
from engine.store.local_folder import LocalFolder
from tests.support.patience import PATIENCE_S

AT = Position("b.000001", 4, "")
COLUMNS = (Column("id", "int"), Column("day", "date"))


class Readers:
    """Fake sessions and readers that fail on command."""

    def __init__(self) -> None:
        self.errors: dict[tuple[str, int], BaseException] = {}
        self.stores: dict[tuple[str, int], Callable[[], None]] = {}
        self.limits = WHOLE
        self.read: list[str] = []
        self.offered: list[Candidate] = []
        self.dropped = 0
        self.columns: tuple[Column, ...] = COLUMNS
        self.watermarks = self
        self.pacer, self.counter = Pacer(), RowCounter(None)

    def offer(self, candidate: Candidate) -> None:
        self.offered.append(candidate)

    def drop(self, *_: object) -> None:
        self.dropped += 1

    def reading(self, kind: str) -> Any:
        def read(session: object, _: Endpoint, __: int, request: ChunkRequest, *, stores: bool = True) -> ChunkResult:
            assert session is self
            self.read.append(f"{kind} {request.table.name} {request.number}")
            if error := self.errors.get((request.table.name, request.number)):
                raise error
            assert not stores or kind == "keyless", "the group stores while it reads on"
            store = self.stores.get((request.table.name, request.number))
            writer: Any = store and SimpleNamespace(store=store)
            return ChunkResult(self.limits, AT, AT, [], 3, Backfill(), Counter(), {}, writer)

        return read


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> Readers:
    """All readers of the process; the fake catalog shows `made.columns`."""
    made = Readers()
    monkeypatch.setattr(tasks, "open_connection", lambda _: nullcontext(made))
    monkeypatch.setattr(tasks, "closing", lambda connection: connection)
    monkeypatch.setattr(tasks, "read_table", lambda _, d, t: Table(d, t, made.columns, ("id",)))
    monkeypatch.setattr(reader_session, "session", lambda *_: made)
    monkeypatch.setattr(reader_session, "drop", made.drop)
    monkeypatch.setattr(tasks, "read_chunk", made.reading("chunk"))
    monkeypatch.setattr(tasks, "read_keyless", made.reading("keyless"))
    return made


def group(*chunks: tuple[str, int], key: tuple[str, ...] = ("id",)) -> ChunkGroup:
    """Chunks (table, number) for one task."""
    requests = tuple(
        ChunkRequest(Table("d", name, COLUMNS, key), number, None, WHOLE, 9, LocalFolder(Path()), 0)
        for name, number in chunks
    )
    return ChunkGroup(Endpoint("127.0.0.1", 1, "u", "p"), 1, "gtid", 1.0, Candidate(AT, 0.0), requests)


def done(of: ChunkGroup) -> list[str]:
    """The reports: `table number`, or the name of the error."""
    reports: list[Any] = list(of.run())
    errors = [type(r.error).__name__ if isinstance(r, FailureReport) else "" for r in reports]
    return [f"{r.table} {r.chunk} {error}".strip() for r, error in zip(reports, errors, strict=True)]


MIXED = (("a", 0), ("b", 0), ("b", 1), ("c", 7))


@pytest.mark.parametrize("error", [TableStoppedError("no"), DecodeError("no")])
def test_a_table_that_stops_does_not_stop_the_others(readers: Readers, error: TableStoppedError) -> None:
    """Its other chunks are skipped; other tables are read on, with an intact session."""
    readers.errors["b", 0] = error
    assert done(group(*MIXED)) == ["d.a 0", f"d.b 0 {type(error).__name__}", "d.c 7"]
    assert readers.read == ["chunk a 0", "chunk b 0", "chunk c 7"]
    assert readers.dropped == 1


def test_the_next_chunk_is_read_while_a_file_is_stored(readers: Readers) -> None:
    """A report waits for the file of its chunk, which the next read does not."""
    readers.stores["a", 0] = lambda: _wait_for(lambda: "chunk b 0" in readers.read)
    assert done(group(*MIXED)) == ["d.a 0", "d.b 0", "d.b 1", "d.c 7"]


def test_a_file_that_is_not_stored_is_a_failure_of_its_chunk(readers: Readers) -> None:
    """The chunk that was read meanwhile is reported first; the rest is left for another try."""

    def fail() -> None:
        raise StoreAwayError("The store does not answer: s3://lake/b")

    readers.stores["b", 0] = fail
    reports: list[Any] = list(group(*MIXED).run())
    assert [(r.table, r.chunk, isinstance(r, FailureReport)) for r in reports] == [
        ("d.a", 0, False),
        ("d.b", 1, False),
        ("d.b", 0, True),
    ]
    assert isinstance(reports[2].error, StoreUnreachableError)
    assert "chunk c 7" not in readers.read


def test_a_group_ends_with_one_failure(readers: Readers) -> None:
    """The chunk behind it may have failed meanwhile, too: it is read again, whatever it was."""

    def fail() -> None:
        raise OSError(28, "No space left on device")

    readers.stores["b", 0], readers.errors["b", 1] = fail, TransientError("lost")
    assert done(group(*MIXED)) == ["d.a 0", "d.b 0 DiskFullError"]
    readers.errors.clear()
    readers.stores["b", 1] = fail
    assert done(group(*MIXED)) == ["d.a 0", "d.b 0 DiskFullError"]
    assert done(group(("b", 0))) == ["d.b 0 DiskFullError"], "the last file is waited for"


def _wait_for(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_would_stop_a_table_that_was_altered_voids_the_read_instead(readers: Readers) -> None:
    """Whatever the error, the read used columns that are gone. The binlog decides what happens."""
    readers.errors["b", 0], readers.columns = DecodeError("no"), COLUMNS[:1]
    assert done(group(*MIXED)) == ["d.a 0", "d.b 0 SchemaChangedError"]


@pytest.mark.parametrize("error", [TransientError("lost"), SourceLostError("gone")])
def test_a_lost_source_ends_the_task(readers: Readers, error: TransientError) -> None:
    """Finished chunks are reported, the rest is left for another try."""
    readers.errors["b", 0] = error
    assert done(group(*MIXED)) == ["d.a 0", f"d.b 0 {type(error).__name__}"]
    assert readers.dropped == 1


def test_a_read_that_ends_with_the_run_is_no_failure(readers: Readers) -> None:
    """What was read is reported; the rest is put back."""
    readers.errors["b", 1] = ReadEndedError()
    assert done(replace(group(*MIXED), counts=Path("there/g.json"))) == ["d.a 0", "d.b 0"]
    assert readers.dropped == 1
    assert readers.pacer.end == Path("there/end")


def test_an_end_of_the_process_is_a_failure_of_the_task(readers: Readers) -> None:
    """Spark retries it in a process whose session is not in the middle of a response."""
    readers.errors["b", 1] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        list(group(*MIXED).run())
    assert readers.dropped == 1


@pytest.mark.parametrize(
    ("error", "away", "own", "expected"),
    [
        (TransientError("interrupted"), None, True, "TransientError"),
        (PreflightError("denied"), None, True, "PreflightError"),
        (MemoryError("no"), None, True, "TransientError"),
        (TransientError("gone"), TransientError("refused"), False, "TransientError"),
        (TransientError("gone"), SourceChangedError("another"), False, "SourceChangedError"),
        (SchemaChangedError("altered"), None, False, "SchemaChangedError"),
        (SourceLostError("purged"), None, False, "SourceLostError"),
    ],
)
def test_a_failure_is_the_chunks_own_where_the_source_can_be_reached(
    readers: Readers,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    away: Exception | None,
    own: bool,
    expected: str,
) -> None:
    """Any failure is reported, unless another server answers at the source's address, which comes first."""

    def connect(_: Endpoint) -> Any:
        if away:
            raise away
        return nullcontext(readers)

    monkeypatch.setattr(tasks, "open_connection", connect)
    readers.errors["b", 1] = error
    last = list(group(*MIXED).run())[-1]
    assert isinstance(last, FailureReport)
    assert (last.table, last.chunk, last.is_chunk_fault, type(last.error).__name__) == ("d.b", 1, own, expected)


def test_a_table_without_identity_is_read_in_its_own_way(readers: Readers) -> None:
    """Each reader gets the newest position that is known to be visible."""
    assert done(group(("t", 0), key=())) == ["d.t 0"]
    assert readers.read == ["keyless t 0"]
    assert readers.offered == [Candidate(AT, 0.0)]


def test_a_report_says_what_was_read_of_a_chunk(readers: Readers) -> None:
    """Its range may be smaller than requested."""
    readers.limits = Range(None, ("5", "6"))
    (report,) = group(("t", 0)).run()
    assert isinstance(report, ChunkReport)
    assert (report.table, report.chunk, report.limits) == ("d.t", 0, readers.limits)
    assert (report.low, report.high, report.rows) == (AT, AT, 3)


def test_a_report_travels_whole(readers: Readers) -> None:
    """From a worker to the driver, with an error's three parts."""
    readers.errors["b", 0] = DecodeError("no", detail="why", hint="do")
    for report in group(*MIXED).run():
        arrived = from_bytes(to_bytes(report))
        if isinstance(report, FailureReport):
            assert isinstance(arrived, FailureReport)
            assert arrived.error.as_dict() == report.error.as_dict()
            assert arrived.table == report.table
        else:
            assert arrived == report


@pytest.mark.parametrize(
    ("columns", "key", "moves"),
    [
        ((0,), ("id",), False),
        ((1,), ("id",), True),
        ((0, 1), ("id",), True),
        ((1,), ("id", "day"), False),
        ((), (), False),
    ],
)
def test_rows_move_between_chunks_when_the_chunk_key_is_not_of_the_identity(
    columns: tuple[int, ...], key: tuple[str, ...], moves: bool
) -> None:
    """The row keeps its identity while it moves to another chunk."""
    by = ChunkKey(tuple(COLUMNS[n] for n in columns), "i") if columns else None
    assert has_mutable_key(Table("d", "t", COLUMNS, key), by) == moves

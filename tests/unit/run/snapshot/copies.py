"""A snapshot without a server: a chunk splitter that answers at once, and readers that report what a test wants."""

import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from engine.base.errors import TidemarkError
from engine.capture.chunk.chunk_reader import ChunkRequest
from engine.capture.reports import ChunkReport, FailureReport, ReaderProcess, ReaderReport
from engine.capture.tasks import ChunkGroup
from engine.decode.schema import Column, Index, Table
from engine.journal import Journal
from engine.journal.event_fields import Backfill
from engine.pipeline.directory import Directory
from engine.pipeline.disk import Disk
from engine.plan.chunks import Plan, Range, Strategy
from engine.plan.coverage import Coverage, Split, Unsplit, unsplit_table
from engine.run.commands.heartbeat import Activity
from engine.run.snapshot.gate import Gate
from engine.run.snapshot.parking import Parking
from engine.run.snapshot.refused_reads import RefusedReads
from engine.run.snapshot.retries import Batch
from engine.run.snapshot.scheduler import ReaderSlots, SnapshotScheduler
from engine.run.snapshot.splitter import ChunkSplitter
from engine.run.snapshot.table_copy import TableCopy
from engine.run.snapshot.throttle import ReadPace
from engine.source.connect import Endpoint
from engine.source.positions import Position
from engine.source.watermarks import Candidate
from engine.spec.throttle_settings import Throttle
from engine.store.local_folder import LocalFolder

LOW = Position("b.000001", 4)
READER = ReaderProcess("h", 1)
GROUP = ChunkGroup(Endpoint("127.0.0.1", 1, "u", "p"), 1, "gtid", 1.0, Candidate(Position("b.000001", 4, ""), 0.0), ())


def table_copy(
    name: str, chunks: int, strategy: Strategy = "even", *, rank: int = 0, rows: int = 100_000, **more: Any
) -> TableCopy:
    """A table with bounds at 10, 20, 30 …, and that many rows per chunk."""
    table = Table("d", name, (Column("id", "int", nullable=False),), ("id",), indexes=(Index("PRIMARY", ("id",)),))
    size = chunks * rows if strategy != "one" else 9
    plan = Plan(
        f"d.{name}", size, 0, ("id",), "PRIMARY", "0", "9", 1.0, strategy, "", rows, chunks, "10", "10"
    )  # fmt: skip
    return TableCopy(table, plan, LocalFolder(Path()), rank, **{"coverage": unsplit_table(plan), **more})


def pending_table(name: str, chunks: int) -> TableCopy:
    """A table of small chunks that are all split off, so that a group has several."""
    pending = {n: Range((str(n),), (str(n + 1),)) for n in range(chunks)}
    return table_copy(name, chunks, rows=10, coverage=Coverage(pending=pending))


class FakeSplitter:
    """Replaces `run.snapshot.splitter.ChunkSplitter`: splits at each ten, up to `ends` of a walked table."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Unsplit, int]] = []
        self.ends: dict[str, int] = {}
        self.errors: dict[str, TidemarkError] = {}
        self._done: dict[str, Future[Split]] = {}

    def start(self, table: Table, plan: Plan, piece: Unsplit, most: int) -> None:
        assert table.full_name not in self._done
        self.asked.append((table.full_name, piece, most))
        self._done[table.full_name] = job = Future[Split]()
        if error := self.errors.pop(table.full_name, None):
            job.set_exception(error)
        else:
            job.set_result(self._split(plan, piece, most))

    def _split(self, plan: Plan, piece: Unsplit, most: int) -> Split:
        if piece.way == "whole":
            return Split(piece, (piece.limits,), None)
        chunks: list[Range] = []
        rest: Range | None = piece.limits
        end = self.ends.get(plan.table, 10 * plan.estimated_chunks)
        while rest and len(chunks) < most:
            upper = int(rest.lower[0] if rest.lower else 0) + (10 if piece.way == "even" else 5)
            last = upper >= (int(rest.upper[0]) if rest.upper else end)
            chunks.append(Range(rest.lower, rest.upper if last else (str(upper),)))
            rest = None if last else Range((str(upper),), rest.upper)
        return Split(piece, tuple(chunks), rest)

    def done(self) -> dict[str, Future[Split]]:
        done, self._done = self._done, {}
        return done

    def forget(self, table: str) -> None:
        self._done.pop(table, None)

    def close(self) -> None:
        pass


def report(request: ChunkRequest, **more: Any) -> ChunkReport:
    """A reader's report of a finished chunk."""
    whole = ChunkReport(
        reader=READER,
        table=request.table.full_name,
        chunk=request.number,
        limits=request.limits,
        low=LOW,
        high=LOW,
        files=(),
        rows=10,
        backfill=Backfill(),
        nulled_dates={},
        timings={"read": 0.2},
        started_at="",
        ended_at="",
    )
    return replace(whole, **more)


def failure(request: ChunkRequest, error: TidemarkError, *, own: bool = False) -> FailureReport:
    """A reader's report of a failure."""
    return FailureReport(
        reader=READER, error=error, table=request.table.full_name, chunk=request.number, is_chunk_fault=own
    )


def read_all(group: ChunkGroup) -> list[ReaderReport]:
    """Readers without failures."""
    return [report(request) for request in group.requests]


class Copies:
    """A snapshot of some tables, and its journal. answer: the reports of a group's job, which waits until `settle`."""

    def __init__(
        self,
        folder: Path,
        tables: Iterable[TableCopy],
        readers: int,
        answer: Callable[[ChunkGroup], list[ReaderReport]],
        patience_s: float = math.inf,
    ) -> None:
        self.answer, self.readers, self.splitter = answer, readers, FakeSplitter()
        self.finished: set[tuple[str, int]] = set()
        self._path, self._gate = folder / "j.jsonl", threading.Event()
        self.journal = Journal(self._path, "r")
        directory, self.activity = Directory(folder), Activity()
        self.parking, self.paused = Parking(directory, self.journal), set[str]()
        disk = Disk([directory.root], self.journal)
        self.pace = ReadPace(Throttle())
        gate = Gate(self.pace, self.parking, disk, lambda name: name in self.paused)
        splitter = cast(ChunkSplitter, self.splitter)
        self.snapshot = SnapshotScheduler(
            ReaderSlots(lambda: self.readers, lambda: self.readers),
            gate,
            self.activity,
            1 << 20,
            self.journal,
            splitter,
            self._run,
            RefusedReads(self.journal, "'u'@'%'", patience_s),
        )
        for table in tables:
            self.snapshot.add(table)

    def _run(self, group: ChunkGroup, _: str) -> list[ReaderReport]:
        self._gate.wait(10)
        return self.answer(group)

    def assign(self) -> list[dict[str, list[int]]]:
        """Split what is requested and start groups; returns the new groups in order, as chunks by table."""
        before = self.events("chunk.assigned")
        for _ in range(8):
            self.snapshot.assign(GROUP)
            self.split()
        groups: dict[int, dict[str, list[int]]] = {}
        for event in self.events("chunk.assigned")[len(before) :]:
            groups.setdefault(event["group"], {})[event["table"].removeprefix("d.")] = event["chunks"]
        return list(groups.values())

    def split(self) -> None:
        """Take over the split chunks, before any job ends."""
        batch = self.snapshot.collect()
        assert not batch.finished
        assert not batch.stopped

    def settle(self) -> Batch:
        """Let all jobs end; returns their results."""
        self._gate.set()
        whole, deadline = Batch(), time.monotonic() + 10
        while self.snapshot.under_way and time.monotonic() < deadline:
            batch = self.snapshot.collect()
            whole.finished += batch.finished
            whole.stopped |= batch.stopped
            whole.failed |= batch.failed
            time.sleep(0.001)
        self._gate.clear()
        return whole

    def commit(self, batch: Batch) -> None:
        """Commit the finished chunks, as the coordinator does."""
        names = {f.table for f in batch.finished} | set(self.snapshot.new_chunks())
        for name in names:
            coverage = self.coverage(name.removeprefix("d."))
            self.snapshot.note_commit(name, coverage.finish(f.report.chunk for f in batch.finished if f.table == name))

    def coverage(self, name: str) -> Coverage:
        coverage = self.snapshot.coverage(f"d.{name}")
        assert coverage is not None
        return coverage

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The journal's lines of a kind."""
        lines = map(json.loads, self._path.read_text(encoding="utf-8").splitlines())
        return [line for line in lines if line["event"] == kind]

    def journalled(self) -> list[tuple[str, list[Any], bool]]:
        """The journalled chunks: table, chunks, complete."""
        return [(e["table"].removeprefix("d."), e["chunks"], e["complete"]) for e in self.events("chunk.planned")]

    def close(self) -> None:
        self._gate.set()
        self.snapshot.close()
        self.journal.close()


@contextmanager
def copies(
    folder: Path,
    *tables: TableCopy,
    readers: int = 2,
    answer: Callable[[ChunkGroup], list[ReaderReport]] = read_all,
    patience_s: float = math.inf,
) -> Iterator[Copies]:
    """A snapshot that is closed at the end."""
    made = Copies(folder, tables, readers, answer, patience_s)
    try:
        yield made
    finally:
        made.close()

"""Which chunks are read next, by whom, and what came of it: the snapshot's side of the coordinator.

Chunks go to Spark in one-task jobs, a group of chunks worth at least a second of work each, from a small pool of threads. At most
one group more than there are readers is under way, so that a segment of the log waits for one task at the most. Spark's scheduler
gives the next group to whichever slot is free; towards the end groups get smaller, so that the readers end together.
"""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine import clock
from engine.capture.chunk import ChunkRequest
from engine.capture.tasks import ChunkGroup, Report
from engine.decode.schema import Table
from engine.errors import TableStoppedError, TidemarkError, TransientError, from_dict
from engine.events import Journal
from engine.plan.chunks import Plan, text
from engine.source.positions import bytes_between, position_from_dict

GROUP_S = 1.0
"""Seconds of work that a group of chunks should be worth."""
_ROWS_PER_S = 400_000
"""How fast a reader reads until it is measured (FACTS)."""
_ATTEMPTS = 8
_FIRST_RETRY_S = 0.5


@dataclass
class Copying:
    """One table that is being copied: the chunks that wait, and how many are under way."""

    table: Table
    plan: Plan
    folder: Path
    waiting: deque[int]
    under_way: int = 0
    failures: int = 0
    retry_at: float = 0.0
    dropped: bool = False
    seconds: float = 0.0
    read: int = 0


@dataclass(frozen=True)
class Finished:
    """A chunk that was read and waits for the next epoch."""

    table: str
    report: Report


@dataclass
class Batch:
    """What `Snapshot.collect` gives back: finished chunks, tables that stopped, and the first error that ends the run."""

    finished: list[Finished] = field(default_factory=list)
    stopped: dict[str, TidemarkError] = field(default_factory=dict)


class Snapshot:
    """Assigns chunks and collects their reports. Used by one thread; only the jobs run in others.

    run: runs one group as a Spark job and returns its reports. group: makes the request for chunks of a table.
    """

    def __init__(
        self, readers: int, max_memory: int, journal: Journal, run: Callable[[ChunkGroup, str], list[Report]]
    ) -> None:
        self._readers, self._limit = readers, readers + 1
        self._max_memory, self._journal, self._run = max_memory, journal, run
        self._pool = ThreadPoolExecutor(self._limit, thread_name_prefix="chunks")
        self._tables: dict[str, Copying] = {}
        self._jobs: dict[Future[list[Report]], tuple[str, list[int], int]] = {}
        self._groups = 0

    def add(self, table: Table, plan: Plan, folder: Path, chunks: Iterable[int]) -> None:
        """Copy these chunks of a table."""
        self._tables[table.full_name] = Copying(table, plan, folder, deque(chunks))

    def drop(self, table: str) -> None:
        """Read no more chunks of a table."""
        if table in self._tables:
            self._tables[table].dropped = True
            self._tables[table].waiting.clear()

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is under way."""
        return not self._jobs and not any(c.waiting for c in self._tables.values())

    @property
    def under_way(self) -> bool:
        return bool(self._jobs)

    def assign(self, prototype: ChunkGroup) -> None:
        """Start groups while readers are free. prototype: a group without requests, with what all of them need."""
        while len(self._jobs) < self._limit:
            ready = [c for c in self._tables.values() if c.waiting and c.retry_at <= clock.monotonic_s()]
            if not ready:
                return
            # Fair share: the table with the fewest chunks under way; among equals, the one with the most to do.
            copying = min(ready, key=lambda c: (c.under_way, -len(c.waiting)))
            self._start(copying, prototype)

    def _start(self, copying: Copying, prototype: ChunkGroup) -> None:
        chunks = [copying.waiting.popleft() for _ in range(self._group_size(copying))]
        key = copying.plan.chunk_key[0] if copying.plan.chunk_key else None
        requests = tuple(
            ChunkRequest(copying.table, n, key, copying.plan.range(n), copying.folder, self._max_memory) for n in chunks
        )
        self._groups += 1
        name = copying.table.full_name
        group = ChunkGroup(**{**vars(prototype), "requests": requests})
        copying.under_way += len(chunks)
        self._journal.write("chunk.assigned", table=name, chunks=chunks, group=self._groups)
        job = self._pool.submit(self._run, group, f"{name}: chunks {chunks[0]}–{chunks[-1]}")
        self._jobs[job] = (name, chunks, self._groups)

    def _group_size(self, copying: Copying) -> int:
        """As many chunks as are worth GROUP_S, fewer towards the end."""
        guess_s = copying.plan.approx_rows / len(copying.plan) / _ROWS_PER_S
        each_s = copying.seconds / copying.read if copying.read else guess_s
        worth = max(1, round(GROUP_S / max(each_s, 1e-3)))
        fair = max(1, len(copying.waiting) // (2 * self._readers))
        return min(worth, fair, len(copying.waiting))

    def collect(self) -> Batch:
        """The reports of all jobs that have ended since the last call.

        Raises what ends the run: an error of Spark, a source that is lost, a chunk that failed too often.
        """
        batch = Batch()
        for job in [job for job in self._jobs if job.done()]:
            name, chunks, group = self._jobs.pop(job)
            copying = self._tables[name]
            copying.under_way -= len(chunks)
            left = set(chunks)
            for report in job.result() if not copying.dropped else ():
                if "failure" in report:
                    self._failed(copying, chunks, group, report, batch)
                    continue
                left.discard(report["chunk"])
                copying.seconds += sum(report["timings"].values())
                copying.read += 1
                copying.failures = 0
                self._journal.write("chunk.finished", **_event(copying, report, group))
                batch.finished.append(Finished(name, report))
            if name not in batch.stopped and not copying.dropped:
                copying.waiting.extendleft(sorted(left, reverse=True))
        return batch

    def _failed(self, copying: Copying, chunks: list[int], group: int, report: Report, batch: Batch) -> None:
        error = from_dict(report["failure"])
        # The groups that fail together, when a connection is lost, are one failure.
        copying.failures += clock.monotonic_s() >= copying.retry_at
        retry_s = min(_FIRST_RETRY_S * 2**copying.failures, 30.0)
        retried = isinstance(error, TransientError) and copying.failures < _ATTEMPTS
        self._journal.write(
            "chunk.failed",
            table=copying.table.full_name,
            chunks=chunks,
            group=group,
            error=type(error).__name__,
            message=str(error),
            attempt=copying.failures,
            retry_in_s=retry_s if retried else None,
        )
        if isinstance(error, TableStoppedError):
            batch.stopped[copying.table.full_name] = error
            copying.waiting.clear()
        elif not retried:
            raise error
        else:
            copying.retry_at = clock.monotonic_s() + retry_s

    def close(self) -> None:
        """Wait for the jobs that are under way; their unread reports are lost, their files never published."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _event(copying: Copying, report: Report, group: int) -> dict[str, Any]:
    limits = copying.plan.range(report["chunk"])
    low, high = position_from_dict(report["low"]), position_from_dict(report["high"])
    same_file = bytes_between({}, low, high) if low.file == high.file else None
    files = report["files"]
    return {
        "table": copying.table.full_name,
        "chunk": report["chunk"],
        "lower": text(limits.lower),
        "upper": text(limits.upper),
        "low": str(low),
        "high": str(high),
        "gap_bytes": same_file,
        "rows": report["rows"],
        "backfill": report["backfill"],
        "file": files[0]["name"] if files else None,
        "bytes": sum(file["bytes"] for file in files),
        "timings": report["timings"],
        "started": report["started"],
        "ended": report["ended"],
        "reader": f"{report['host']}:{report['pid']}",
        "host": report["host"],
        "pid": report["pid"],
        "attempt": report["attempt"],
        "group": group,
    }

"""Task reports: frozen records that Spark's workers send to the runner unchanged.

ChunkReport          a chunk was read (`ChunkGroup`)
FastForwardReport    a finished chunk is exact at a later position (`FastForward`)
RangeReport          a binlog range was read (`BinlogTask`)
RedumpReport         a redumped part is in the change log (`RedumpPart`)
FailureReport        one of these tasks failed
ReaderReport         a reader has started (`WarmUp`)
"""

import os
import pickle
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from engine.base.errors import TidemarkError
from engine.capture.binlog.statements import Alteration
from engine.capture.files import DataFile
from engine.journal.event_fields import Backfill
from engine.plan.chunks import Range
from engine.source.positions import Position
from engine.source.xa_places import XaPlaces, Xid
from engine.store.requests import COUNTER, RequestCounts

Kinds = tuple[int, int, int, int]
"""Changes per kind, in the order of `decode.images.KINDS`."""


@dataclass(frozen=True)
class ReaderProcess:
    """The worker process that ran a task."""

    host: str
    pid: int

    @classmethod
    def here(cls) -> Self:
        """This process."""
        return cls(socket.gethostname(), os.getpid())

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"


@dataclass(frozen=True, kw_only=True)
class ReaderReport:
    """Names the reader that ran a task. All other reports extend it."""

    reader: ReaderProcess
    attempt: int = 0
    """Spark's attempt number, from 0."""
    requests: Mapping[str, RequestCounts] = field(default_factory=dict)
    """What its process has asked of buckets since its last report, by folder."""


@dataclass(frozen=True, kw_only=True)
class FailureReport(ReaderReport):
    """A task failed."""

    error: TidemarkError
    table: str = ""
    """The table's full name; empty for a binlog range."""
    chunk: int = -1
    is_chunk_fault: bool = False
    """True if the chunk itself is at fault: the source was reachable right after the failure."""


@dataclass(frozen=True, kw_only=True)
class ChunkReport(ReaderReport):
    """A chunk was read."""

    table: str
    chunk: int
    limits: Range
    """The range that was read; shorter than requested if the reader stopped early."""
    low: Position
    high: Position
    """The watermarks. The rows are exact at the high watermark."""
    files: tuple[DataFile, ...]
    ghosts: tuple[DataFile, ...] = ()
    """Redumps only: files with the ghosts, rows that the mirror has and the source does not."""
    rows: int
    backfill: Backfill
    """Images between the watermarks, and the keys that they deleted and upserted."""
    nulled_dates: Mapping[str, int]
    """Invalid dates that became NULL, by column."""
    timings: Mapping[str, float]
    """Seconds per step."""
    paused_s: float = 0.0
    """Seconds of the step `read` in which a throttled reader paused."""
    started_at: str
    ended_at: str
    """UTC text."""


@dataclass(frozen=True, kw_only=True)
class FastForwardReport(ReaderReport):
    """A chunk is exact at a later position."""

    table: str
    chunk: int
    files: tuple[DataFile, ...]
    nulled_dates: Mapping[str, int]

    @property
    def rows(self) -> int:
        """Rows of the chunk, in all files."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, kw_only=True)
class WrittenChanges:
    """Changes that a task wrote to one table's change log."""

    files: tuple[DataFile, ...]
    kinds: Kinds
    nulled_dates: Mapping[str, int]
    next_seq: int
    """The `_tm_seq` after the last change."""


@dataclass(frozen=True, kw_only=True)
class RedumpReport(ReaderReport):
    """A redumped part is in the change log."""

    table: str
    chunk: int
    redump: str
    """The command's id."""
    changes: WrittenChanges
    missing_keys: Sequence[list[str]]
    """Requested keys that do not exist in the source."""


@dataclass(frozen=True, kw_only=True)
class RangeReport(ReaderReport):
    """A binlog range was read for all captured tables."""

    end: Position
    """The end of the range; earlier than requested if a captured table was altered."""
    alteration: Alteration | None
    may_define_tables: bool
    """True if a statement may have created or renamed tables."""
    gtids: str
    anonymous: int
    """The number of transactions without a GTID."""
    complete: bool
    """True if `gtids` contains all transactions from the start of the first file."""
    births: Mapping[str, int]
    """When the server created each file, in Unix seconds."""
    tables: Mapping[str, WrittenChanges]
    stop_errors: Mapping[str, TidemarkError]
    """Tables that cannot be captured any further, with the reason."""
    transactions: int
    bytes: int
    events: Mapping[str, int]
    """Events by type."""
    damaged_events: int
    """Events whose checksum was wrong at first, but right on the second read."""
    unknown_events: Mapping[str, int]
    largest: dict[str, Any] | None
    """The largest transaction, as stored in the ledger."""
    one_phase: bool
    """Whether MariaDB commits transactions in one phase: its snapshots prove nothing then."""
    xa: tuple[XaPlaces, set[Xid]] | None
    """The XA transactions prepared in the range, and the earlier ones decided in it; None if they are not known
    exactly."""
    last_ts: int
    """Commit time of the last transaction, in Unix seconds of the source's clock."""
    seconds: float


def to_bytes(report: ReaderReport) -> bytes:
    """Serialize a report, with the requests of this process.

    The driver runs the same versions of Tidemark and Python.
    """
    return pickle.dumps(replace(report, requests=COUNTER.take()))


def from_bytes(data: bytes) -> ReaderReport:
    """The inverse of `to_bytes`. Its requests count as those of this process from now on."""
    report = pickle.loads(data)  # noqa: S301 - sent by one of our own tasks
    assert isinstance(report, ReaderReport)
    for folder, requests in report.requests.items():
        COUNTER.add(folder, requests)
    return report

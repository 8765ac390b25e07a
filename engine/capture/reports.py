"""What tasks report to the runner: frozen records, sent as they are from Spark's workers to the driver.

ChunkReport          a chunk was read (`ChunkGroup`)
FastForwardReport    a finished chunk is exact at a later position (`FastForward`)
RangeReport          a binlog range was read (`BinlogTask`)
RedumpReport         a redumped part is in the change log (`RedumpPart`)
FailureReport        one of them failed
ReaderReport         a reader is there (`Warming`)
"""

import os
import pickle
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from engine.capture.binlog.statements import Alteration
from engine.capture.files import DataFile
from engine.errors import TidemarkError
from engine.events import Backfill
from engine.plan.chunks import Range
from engine.source.positions import Position

Kinds = tuple[int, int, int, int]
"""Changes by kind, in the order of `decode.images.KINDS`."""


@dataclass(frozen=True)
class Reader:
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
    """Who ran a task. All other reports say more."""

    reader: Reader
    attempt: int = 0
    """Spark's attempt of the task, from 0."""


@dataclass(frozen=True, kw_only=True)
class FailureReport(ReaderReport):
    """A task failed."""

    error: TidemarkError
    table: str = ""
    """The full name of the table that was read; empty for a binlog range."""
    chunk: int = -1
    own: bool = False
    """Whether the failure is the chunk's own: the source could be reached right after it."""


@dataclass(frozen=True, kw_only=True)
class ChunkReport(ReaderReport):
    """A chunk was read."""

    table: str
    chunk: int
    limits: Range
    """What was read: less than was asked for where the reader stopped early."""
    low: Position
    high: Position
    """The watermarks. The rows are exact at the high one."""
    files: tuple[DataFile, ...]
    ghosts: tuple[DataFile, ...] = ()
    """Of a redump: the files of rows that the mirror holds of the chunk and the source does not."""
    rows: int
    backfill: Backfill
    """Events of the table between the watermarks, by kind."""
    nulled: Mapping[str, int]
    """Dates that do not exist and became NULL, by column."""
    timings: Mapping[str, float]
    """Seconds by step."""
    started: str
    ended: str
    """UTC text."""


@dataclass(frozen=True, kw_only=True)
class FastForwardReport(ReaderReport):
    """A chunk is exact at a later position."""

    table: str
    chunk: int
    files: tuple[DataFile, ...]
    nulled: Mapping[str, int]

    @property
    def rows(self) -> int:
        """Of the chunk, in all files."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, kw_only=True)
class WrittenChanges:
    """What a task wrote to the change log of one table."""

    files: tuple[DataFile, ...]
    kinds: Kinds
    nulled: Mapping[str, int]
    next_seq: int
    """The `_tm_seq` behind the last change."""


@dataclass(frozen=True, kw_only=True)
class RedumpReport(ReaderReport):
    """A redumped part is in the change log."""

    table: str
    chunk: int
    redump: str
    """The command's id."""
    changes: WrittenChanges
    missing: Sequence[list[str]]
    """Of the keys that were asked for, those that the source does not have."""


@dataclass(frozen=True, kw_only=True)
class RangeReport(ReaderReport):
    """A binlog range was read for all captured tables."""

    end: Position
    """Where the range ends: earlier than asked for where a captured table was altered."""
    altered: Alteration | None
    defined: bool
    """Whether a statement may have made or renamed tables."""
    gtids: str
    anonymous: int
    """Transactions without a GTID."""
    complete: bool
    """Whether `gtids` holds all transactions from the first file's begin on."""
    births: Mapping[str, int]
    """By file, when the server began it: Unix seconds."""
    tables: Mapping[str, WrittenChanges]
    stopped: Mapping[str, TidemarkError]
    """Tables whose rows cannot be followed, with the reason."""
    transactions: int
    bytes: int
    events: Mapping[str, int]
    """By type."""
    damaged: int
    """Events whose checksum was wrong at first, and right when they were read again."""
    unknown: Mapping[str, int]
    largest: dict[str, Any] | None
    """The largest transaction, as the ledger keeps it."""
    last_ts: int
    """When the last transaction was committed: Unix seconds by the source's clock."""
    seconds: float


def to_bytes(report: ReaderReport) -> bytes:
    """A report as it travels from a worker to the driver, which runs the same Tidemark on the same Python."""
    return pickle.dumps(report)


def from_bytes(data: bytes) -> ReaderReport:
    """The inverse of `to_bytes`."""
    report = pickle.loads(data)  # noqa: S301 - it comes from a task of ours
    assert isinstance(report, ReaderReport)
    return report

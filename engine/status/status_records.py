"""A pipeline's status as frozen records: their fields, in this order, are the keys of `status --json`.

Times are UTC text.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from engine.alerting.silences import Silence
from engine.base.errors import ErrorRecord
from engine.journal.connection_events import ReadsBlocked
from engine.pipeline.command_queue import Waiting
from engine.pipeline.controls import Controls
from engine.pipeline.frozen_runner import FrozenRunner, UnseenRunner
from engine.pipeline.runner_record import FailingHelper, OpenCommand, SinkProgress, SourceComparison, SourceOutage
from engine.pipeline.saved_lists import Standby
from engine.pipeline.table_verdict import VerificationState as VerdictState
from engine.pipeline.verification_records import LastAudit
from engine.pipeline.write_outage import WriteOutage
from engine.spec.sink_settings import Merging
from engine.watch.watch_status import WatchStatus


@dataclass(frozen=True)
class ParkedChunk:
    """A parked chunk: it failed too often."""

    chunk: int
    lower: str | None
    upper: str | None
    error: str
    message: str
    hint: str
    attempts: int
    since: str


@dataclass(frozen=True)
class LongestReading:
    """The longest-running read of a table."""

    chunks: list[int]
    since: str
    seconds: float
    rows: int
    """Rows read so far of the table's chunks that are being read."""


@dataclass(frozen=True)
class TableVerification:
    """Whether a table is as its source, as far as known."""

    state: VerdictState
    """verified, stale, diverged or unverifiable."""
    why: str
    at: str | None
    """When the part was compared whose comparison is the oldest."""
    position: str | None
    version: int | None
    differences: int
    readable: bool
    """False if its mirror, or a part of it, cannot be read, as far as known."""


@dataclass(frozen=True)
class TableStatus:
    """A captured or removed table."""

    table: str
    state: str
    chunks_done: int
    chunks_total: int
    """An estimate until the table is completely split."""
    rows_read: int
    changes_applied: int
    dates_nulled: Mapping[str, int]
    error: str | None
    """Why the table stopped."""
    hint: str | None
    destination: str | None
    """Of a removed table: kept, dropping or dropped."""
    parked: tuple[ParkedChunk, ...]
    reading: LongestReading | None
    mirror: Merging | None
    """How changes are merged into its mirror; None without a mirror."""
    verification: TableVerification | None
    """None for a removed table."""
    lacks_since: str | None
    """Since when its destination has lacked committed changes, if that is longer than half a minute."""
    due: str | None
    """Why it will be resnapshotted, if that was decided and has not begun yet."""


@dataclass(frozen=True)
class BinlogStatus:
    """Facts about the binlog."""

    unknown_events: int
    """Events skipped since the pipeline began, because this version does not know them. It should be 0."""
    unknown: Mapping[str, int]
    largest_transaction: Mapping[str, Any] | None
    lag_percentiles_s: Mapping[str, float] | None
    log_freshness_s: Mapping[str, float] | None
    """Percentiles of the time from a commit on the source until its changes could be read in the change log, over ten
    minutes."""
    mirror_freshness_s: Mapping[str, float] | None
    """The same in the mirror."""
    changes_per_s: Mapping[str, float] | None
    """By kind, over the last minute; None without changes."""
    changes_per_s_by_table: Mapping[str, float] | None


@dataclass(frozen=True)
class DiskStatus:
    """The disk that fills, as last measured in this run."""

    measured: str
    folder: str
    """On it: the destination, or the pipeline's folder if the destination is in a bucket."""
    free_bytes: int
    total_bytes: int
    growth_per_day: float | None
    """Bytes a day, by the last day; None before an hour was measured."""
    full_in_s: float | None
    """When the disk is full at this growth; None if it does not grow."""


@dataclass(frozen=True)
class AlertOwner:
    """Who takes care of an alert."""

    actor: str
    at: str
    note: str


@dataclass(frozen=True)
class AlertSilence:
    """Who has silenced an alert."""

    id: str
    actor: str
    reason: str
    until: str


@dataclass(frozen=True)
class AlertStatus:
    """An active alert: the fields of `alert.raised`, and when it was last announced."""

    kind: str = ""
    table: str | None = None
    value: float | None = None
    threshold: float | None = None
    message: str = ""
    hint: str = ""
    since: str = ""
    announced: str = ""
    repeat: int = 0
    acknowledged: AlertOwner | None = None
    """None if nobody takes care of it."""
    silenced: AlertSilence | None = None


@dataclass(frozen=True)
class FileSizes:
    """Bytes of the pipeline's own files."""

    ledger: int
    journal: int
    maintenance: int
    runner_log: int


@dataclass(frozen=True)
class Status:
    """The output of `status --json` (docs/command-line.md).

    Facts that only a live runner knows are None without one.
    """

    pipeline: str
    state: str
    phase: str
    position: str | None
    """The committed position: `file:offset`."""
    lag_s: float | None
    lag_at_most_s: float | None
    """What the lag cannot exceed, without a current measurement; None with one, or if there never was one."""
    lag_position: str | None
    """The committed position that `lag_s` and `lag_bytes` are about: an epoch may have been committed since."""
    lag_bytes: int | None
    runway_s: float | None
    """Seconds until the source purges the committed position."""
    mirror_age_s: float | None
    """For how long the oldest change that a mirror lacks has been in the change log."""
    mirror_oldest: str | None
    """The table of that mirror."""
    measured: str | None
    """When the lag was measured."""
    epoch: int | None
    heartbeat_age_s: float | None
    frozen: FrozenRunner | None
    """The process of a runner that lives, but sends no heartbeats; None if it sends them, or is gone."""
    unseen: UnseenRunner | None
    """The process of a lost runner, if it cannot be seen from here whether it has ended."""
    error: ErrorRecord | None
    disk_full: str | None
    """Why it waits for a disk."""
    write_outage: WriteOutage | None
    """Why it writes nothing: a disk, or the store of the destination."""
    helpers: tuple[FailingHelper, ...]
    sinks: tuple[SinkProgress, ...]
    """The further sinks."""
    waiting_for: str | None
    away: SourceOutage | None
    source: SourceComparison | None
    blocked: tuple[ReadsBlocked, ...]
    """The reads that wait for a lock on the source, by table."""
    controls: Controls | None
    commands: tuple[OpenCommand, ...]
    alerts: tuple[AlertStatus, ...]
    silences: tuple[Silence, ...]
    """Those in force."""
    disk: DiskStatus | None
    queue: tuple[Waiting, ...]
    """The commands that wait while no runner is alive."""
    watch: WatchStatus | None
    """What the watchdog does about a runner that is gone; None if nothing."""
    term: int | None
    standby: tuple[Standby, ...]
    log: BinlogStatus
    last_audit: LastAudit | None
    """The runner's last audit of a random part of the change logs (`verify.audit`)."""
    sizes: FileSizes
    tables: tuple[TableStatus, ...]
    spec_fault: str | None = None
    """Why the spec cannot be read now: the settings of the newest run stand in for it. None if it can be read."""

    def to_json(self) -> dict[str, Any]:
        """What `status --json` prints."""
        controls = self.controls.as_dict() if self.controls is not None else None
        error = None if self.error is None else self.error.to_json()
        return {**asdict(self), "controls": controls, "error": error}

"""What `runner.json` says of a runner: the frozen form of the heartbeat that `run.commands.heartbeat` writes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from engine.base.errors import ErrorRecord
from engine.base.json_records import record_from, records_from
from engine.base.wording import ages, utc_time
from engine.journal.connection_events import ReadsBlocked
from engine.journal.event_lines import event_from
from engine.journal.outage_causes import Cause, cause_of
from engine.pipeline.controls import Controls
from engine.pipeline.frozen_runner import FrozenRunner, UnseenRunner
from engine.pipeline.write_outage import WriteOutage


@dataclass(frozen=True)
class SourceOutage:
    """An outage of the source. Times are UTC text."""

    since: str
    attempt: int
    """0 while the first question is still unanswered."""
    next_try: str
    error: str
    """The message of the last attempt."""
    gives_up_at: str | None
    """None if the run never gives up."""
    refused: bool = False
    """Whether the source answers, but refuses the account."""
    hint: str = ""
    cause: Cause = "unreachable"

    @classmethod
    def from_json(cls, value: object) -> Self | None:
        """The outage in `runner.json`; None if there is none, or if this version cannot read it."""
        if not isinstance(value, Mapping):
            return None
        cause = cause_of(value.get("cause"), refused=bool(value.get("refused")))
        return record_from(cls, {**value, "cause": cause})


@dataclass(frozen=True)
class FailingHelper:
    """A helper that fails (`pipeline.helpers`)."""

    helper: str
    error: str = ""
    message: str = ""
    since: str = ""
    """When it began to fail: UTC text."""
    errors: int = 1
    """Errors since then."""
    hint: str = ""
    """What to do; empty if only trying again helps."""


@dataclass(frozen=True)
class SourceChange:
    """A difference of the source to the beginning of the run."""

    what: str
    """version, setting, grant or certificate."""
    name: str
    before: str
    after: str
    seen: str
    """UTC text."""


@dataclass(frozen=True)
class SourceComparison:
    """When the source was last compared with the run's beginning, and what has changed since."""

    compared: str
    """UTC text."""
    facts: int
    changes: tuple[SourceChange, ...]

    @classmethod
    def from_json(cls, value: object) -> Self | None:
        """The comparison in `runner.json`; None if there is none, or if this version cannot read it."""
        if not isinstance(value, Mapping):
            return None
        return record_from(cls, {**value, "changes": records_from(SourceChange, value.get("changes"))})


@dataclass(frozen=True)
class SinkProgress:
    """How far a further sink is (`destination.further_sink`)."""

    sink: str
    """Its name."""
    type: str
    path: str
    state: str
    """starting, publishing, paused, retrying, stopped; or waiting, while no runner is alive."""
    through_epoch: int | None = None
    """It has everything through this epoch; None if only a runner knows."""
    lacks_since: str | None = None
    """When the oldest epoch that it lacks was committed: UTC text; None if it lacks nothing, as far as known."""
    kept_bytes: int = 0
    """The bytes of the files that are kept for it."""
    max_kept_bytes: int | None = None
    error: str | None = None
    position: str | None = None
    """Where the last epoch ends that it has got in this run: `file:offset`."""
    rows_per_s: float | None = None
    """How many rows it has written, by the last minute."""
    freshness_s: Mapping[str, float] | None = None
    """Percentiles of how soon changes could be read there (`destination.freshness`); None without any lately."""

    @classmethod
    def waiting(cls, name: str, kind: str, path: str, error: str | None) -> Self:
        """A sink while no runner is alive. error: why the ledger gives it nothing any more."""
        return cls(name, kind, path, "waiting" if error is None else "stopped", error=error)

    @property
    def words(self) -> str:
        """Its progress as a clause."""
        applies = self.through_epoch is not None and self.through_epoch >= 0
        through = f", through epoch {self.through_epoch}" if applies else ""
        since = f", lacks epochs since {utc_time(self.lacks_since)}" if self.lacks_since else ""
        bound = f" of {self.max_kept_bytes:,}" if self.max_kept_bytes else ""
        size = f", {self.kept_bytes:,}{bound} bytes kept for it" if self.kept_bytes else ""
        fresh = self.freshness_s
        read = f", changes can be read after {ages(fresh)}" if fresh else ""
        return f"{self.state}{through}{since}{size}{read}{f': {self.error}' if self.error else ''}"


@dataclass(frozen=True)
class OpenCommand:
    """A command that the run has accepted and not answered yet."""

    id: str
    verb: str


@dataclass(frozen=True)
class StartupStep:
    """A step of a start."""

    step: str
    since: str
    """UTC text."""
    seconds: float | None
    """How long it took; None until it is done."""


@dataclass(frozen=True)
class TableReading:
    """The longest-running read of a table."""

    chunks: list[int]
    since: str
    """UTC text."""
    rows: int = 0
    """Rows read so far of the table's chunks that are being read."""


@dataclass(frozen=True)
class RunnerRecord:
    """The newest run of a pipeline, by its last heartbeat."""

    state: str
    run: str = ""
    pid: int | None = None
    host: str | None = None
    alive: bool = False
    """Whether its process lives, or its heartbeat is recent (`pipeline.runner_file`)."""
    frozen: FrozenRunner | None = None
    """Its process, if that lives but its heartbeat is old; None if it responds."""
    unseen: UnseenRunner | None = None
    """Its process, if its heartbeat is old and nobody here can know whether the process has ended."""
    heartbeat: str = ""
    """UTC text."""
    beat: int | None = None
    """The number of the heartbeat."""
    heartbeat_age_s: float | None = None
    process: Mapping[str, Any] = field(default_factory=dict)
    """What `base.processes` knows of its process."""
    phase: str | None = None
    startup: tuple[StartupStep, ...] = ()
    started: str | None = None
    """UTC text, like `continued`."""
    continued: str | None = None
    """When it last began or continued to read."""
    spark_ui: str | None = None
    reason: str = ""
    """Who paused it, and why."""
    stop: bool = False
    """Whether it was asked to stop."""
    waiting_for: str = ""
    away: SourceOutage | None = None
    reading: Mapping[str, TableReading] = field(default_factory=dict)
    planning: tuple[str, ...] = ()
    """The tables that join and are being planned: neither the journal nor the ledger has them yet."""
    blocked: tuple[ReadsBlocked, ...] = ()
    source: SourceComparison | None = None
    loads: Mapping[str, float] = field(default_factory=dict)
    write_outage: WriteOutage | None = None
    """Why it writes nothing; None if it can."""
    helpers: tuple[FailingHelper, ...] = ()
    sinks: tuple[SinkProgress, ...] = ()
    """The further sinks."""
    controls: Controls | None = None
    commands: tuple[OpenCommand, ...] = ()
    error: ErrorRecord | None = None

    @property
    def responds(self) -> bool:
        """Whether it is alive and its heartbeat is recent: what it says of itself is current."""
        return self.alive and self.frozen is None

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """The record in `runner.json`, also one of an earlier version. Raises TypeError if it has no state."""
        reading = record.get("reading")
        reads = reading.items() if isinstance(reading, Mapping) else ()
        nested = {
            "process": record.get("process") or {},
            "startup": records_from(StartupStep, record.get("startup")),
            "waiting_for": record.get("waiting_for") or "",
            "away": SourceOutage.from_json(record.get("away")),
            "reading": {name: one for name, value in reads if (one := record_from(TableReading, value))},
            "planning": _names(record.get("planning")),
            "blocked": _blocked(record.get("blocked")),
            "source": SourceComparison.from_json(record.get("source")),
            "loads": record.get("loads") or {},
            "write_outage": WriteOutage.from_json(record),
            "helpers": records_from(FailingHelper, record.get("helpers")),
            "sinks": records_from(SinkProgress, record.get("sinks")),
            "controls": record_from(Controls, record.get("controls")),
            "commands": records_from(OpenCommand, record.get("commands")),
            "error": ErrorRecord.from_json(record.get("error")),
        }
        runner = record_from(cls, {**record, **nested})
        if runner is None:
            raise TypeError("the record of a runner has no state")
        return runner


def _names(values: object) -> tuple[str, ...]:
    return tuple(one for one in values if isinstance(one, str)) if isinstance(values, list) else ()


def _blocked(values: object) -> tuple[ReadsBlocked, ...]:
    records = [one for one in values if isinstance(one, Mapping)] if isinstance(values, list) else []
    events = (event_from(ReadsBlocked.NAME, one) for one in records)
    return tuple(one for one in events if isinstance(one, ReadsBlocked))

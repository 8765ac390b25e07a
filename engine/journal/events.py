"""The journal's events: one frozen dataclass each.

Those of the destination, of verification and of the connections to the source have modules beside this one.
`engine.journal` writes them, one JSON object a line.

A line has `run` (the run's id), `seq` (1, 2, 3 … within the run), `ts` (UTC text of `clock.utc_text`), `event` (the
class's `NAME`) and the fields of the class, always all of them; `null` where a value is unknown. Positions are written
`file:offset`. Durations are in seconds, sizes in bytes, times of day in UTC text. The console, `status` and DuckDB's
history read nothing else. A field is added with a default, for journals of earlier versions. None is removed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any, ClassVar, Self

from engine.base.errors import ErrorRecord, TidemarkError
from engine.base.json_records import record_from
from engine.journal.event_fields import Backfill, SourceFacts, SparkFacts
from engine.journal.outage_causes import Cause

EVENTS: dict[str, type["Event"]] = {}
"""The classes by their `NAME`; complete once `engine.journal` is imported."""
Bounds = Sequence[str | None]
"""Lower and upper bound of a chunk as text; null where it is open."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Any event."""

    NAME: ClassVar[str] = ""

    def __init_subclass__(cls, name: str) -> None:
        cls.NAME = name
        EVENTS[name] = cls

    def to_json(self) -> dict[str, Any]:
        """The fields of the line, apart from `run`, `seq`, `ts` and `event`."""
        values = {name: getattr(self, name) for name in fields_of(self.NAME)}
        return {
            name: asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
            for name, value in values.items()
        }

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`. Raises TypeError if the line has other fields."""
        return cls(**line)


@dataclass(frozen=True, kw_only=True)
class RunStarted(Event, name="run.started"):
    """A runner has taken the pipeline."""

    pipeline: str
    host: str
    pid: int
    version: str
    until: str | None
    spec: Mapping[str, Any]
    format: int
    """The journal's version (`engine.pipeline.formats`)."""


@dataclass(frozen=True, kw_only=True)
class RunConnected(Event, name="run.connected"):
    """The run has reached its source and its Spark session."""

    source: SourceFacts
    spark: SparkFacts

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        source, spark = record_from(SourceFacts, line["source"]), record_from(SparkFacts, line["spark"])
        return cls(source=source or SourceFacts(), spark=spark or SparkFacts())


@dataclass(frozen=True, kw_only=True)
class RunState(Event, name="run.state"):
    """The run's state has changed (`pipeline.state_machines`)."""

    state: str
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunEnded(Event, name="run.ended"):
    """The runner ends.

    `outcome`: done, failed or stopped, by an operator; then an error only says that tables are stopped.
    """

    outcome: str
    exit_code: int | None = None
    error: ErrorRecord | None = None

    def to_json(self) -> dict[str, Any]:
        """The line's fields, with the error as an object."""
        return {**super().to_json(), "error": None if self.error is None else self.error.to_json()}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`; earlier versions wrote a sentence as the error."""
        return cls(**{**line, "error": ErrorRecord.from_json(line.get("error"))})


@dataclass(frozen=True, kw_only=True)
class RunControls(Event, name="run.controls"):
    """What operators have set (`pipeline.controls`)."""

    throttle: Mapping[str, Any]
    snapshot: bool
    tables: Sequence[str]
    until: str = ""
    """When the throttle settings become `later` again; empty: they stay."""
    later: Mapping[str, Any] = field(default_factory=dict)
    sinks: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class ErrorReported(Event, name="error"):
    """An error that does not end the run."""

    error: str
    message: str
    detail: str | None = None
    hint: str | None = None
    attempt: int | None = None
    retry_in_s: float | None = None
    helper: str | None = None
    """The helper thread that met it; null for the pipeline itself."""
    table: str | None = None
    """The only table that it concerns; null for several, and in journals of earlier versions."""

    @classmethod
    def of(
        cls,
        error: TidemarkError,
        *,
        attempt: int,
        retry_in_s: float | None = None,
        helper: str | None = None,
        table: str | None = None,
    ) -> "ErrorReported":
        """The event of an error."""
        parts = replace(error.to_record(), resnapshots=()).to_json()
        return cls(**parts, attempt=attempt, retry_in_s=retry_in_s, helper=helper, table=table)


@dataclass(frozen=True, kw_only=True)
class HelperRecovered(Event, name="helper.recovered"):
    """A helper thread that reported errors works again."""

    helper: str
    errors: int
    duration_s: float


@dataclass(frozen=True, kw_only=True)
class DiskFreed(Event, name="disk.freed"):
    """A disk that took no files (`error`: DiskFullError) takes them again."""

    attempts: int
    """Failures meanwhile."""
    duration_s: float


@dataclass(frozen=True, kw_only=True)
class TablePlanned(Event, name="table.planned"):
    """A table has a plan for its snapshot."""

    table: str
    approx_rows: int | None = None
    chunk_key: Sequence[str] = ()
    min: str | None = None
    max: str | None = None
    distribution_factor: float | None = None
    strategy: str | None = None
    reason: str = ""
    chunks: Sequence[Bounds] = ()
    """All chunks of a table that is split evenly into at most 10 000; else empty, and they follow in
    `chunk.planned`."""
    chunk_rows: int | None = None
    """Planned rows per chunk."""
    estimated_chunks: int | None = None
    """Expected chunks, from the server's statistics."""


@dataclass(frozen=True, kw_only=True)
class ChunkPlanned(Event, name="chunk.planned"):
    """Chunks were split off.

    A known number gets these bounds instead: the chunk was larger than planned, and was split.
    """

    table: str
    chunks: Sequence[Sequence[Any]]
    """[[number, lower, upper], …]"""
    complete: bool
    """Whether no chunks of the table follow, apart from splits of large ones."""
    parent: int | None = None
    """The chunk whose rest became these; null if they are no rest of a chunk."""


@dataclass(frozen=True, kw_only=True)
class TableResumed(Event, name="table.resumed"):
    """A run has found chunks that earlier runs committed."""

    table: str
    chunks: Sequence[Sequence[int]]
    """Their numbers, as closed ranges [[first, last], …]."""


@dataclass(frozen=True, kw_only=True)
class TableStateChanged(Event, name="table.state"):
    """`state`: copying, streaming, stopped or removed. `resnapshots_itself`: a stop that ends without an operator."""

    table: str
    state: str
    reason: str | None = None
    hint: str | None = None
    resnapshots_itself: bool = False


@dataclass(frozen=True, kw_only=True)
class TableNulled(Event, name="table.nulled"):
    """An epoch published dates that do not exist as NULL (`source.invalid_dates`)."""

    table: str
    columns: Mapping[str, int]
    """Values by column."""


@dataclass(frozen=True, kw_only=True)
class ChunkAssigned(Event, name="chunk.assigned"):
    """One task reads these chunks. The chunks of several tables in one task have the same `group`."""

    table: str
    chunks: Sequence[int]
    group: int


@dataclass(frozen=True, kw_only=True)
class ChunkFinished(Event, name="chunk.finished"):
    """A chunk was read and backfilled. The next epoch commits it."""

    table: str
    chunk: int
    lower: str | None
    upper: str | None
    low: str
    """The low watermark."""
    high: str
    """The high watermark."""
    gap_bytes: int | None
    """Bytes of binlog between the watermarks; null if they lie in two files."""
    rows: int
    backfill: Backfill
    file: str | None
    bytes: int
    timings: Mapping[str, float]
    """Seconds of `low`, `read`, `high`, `backfill` and `write`; a throttled `read` includes its pauses."""
    started: str
    ended: str
    """`started` and `ended` are by the reader's clock."""
    reader: str
    host: str
    pid: int
    attempt: int
    group: int

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(**{**line, "backfill": record_from(Backfill, line.get("backfill")) or Backfill()})


@dataclass(frozen=True, kw_only=True)
class ChunkFailed(Event, name="chunk.failed"):
    """Chunks could not be read. `retry_in_s` is null if they are not retried."""

    table: str
    chunks: Sequence[int]
    group: int
    error: str
    message: str
    attempt: int
    retry_in_s: float | None


@dataclass(frozen=True, kw_only=True)
class ChunkParked(Event, name="chunk.parked"):
    """A chunk failed `attempts` times in a row on its own. This run does not retry it unless its table is resumed."""

    table: str
    chunk: int
    lower: str | None
    upper: str | None
    error: str
    message: str
    hint: str
    attempts: int
    since: str
    parked: int
    """Parked chunks of the table, this one included."""


@dataclass(frozen=True, kw_only=True)
class ChunkUnparked(Event, name="chunk.unparked"):
    """A parked chunk was read, or is no chunk any more because the table was split again (`reason`)."""

    table: str
    chunk: int
    reason: str
    parked: int
    """Chunks of the table that are still parked."""


@dataclass(frozen=True, kw_only=True)
class EpochCommitted(Event, name="epoch.committed"):
    """The ledger has an epoch."""

    epoch: int
    from_position: str
    to_position: str
    changes: int
    kinds: Mapping[str, int]
    """Changes by kind: `+I`, `-U`, `+U`, `-D`."""
    tables: Mapping[str, int]
    """Changes by table."""
    table_kinds: Mapping[str, Sequence[int]]
    """Changes of +I, -U, +U and -D by table."""
    redumped: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """How many of these come from redumps and not from the source's binlog, by table that has some."""
    transactions: int
    bytes: int
    chunks: int
    """Chunks that the epoch publishes."""
    timings: Mapping[str, float]
    """Seconds of `read` and `commit`."""
    reader: str | None = None
    events: Mapping[str, int] = field(default_factory=dict)
    """Binlog events by type, those of all tables."""
    unknown: Mapping[str, int] = field(default_factory=dict)
    """Skipped events by type, of types that this version does not know."""
    damaged: int = 0
    """How often an event arrived damaged and was read again."""
    largest: Mapping[str, Any] | None = None
    """The largest transaction: gtid, position, bytes, events."""
    next_seq: int = 0
    """The `_tm_seq` of the next change: those of the epoch are less. 0 if unknown."""


@dataclass(frozen=True, kw_only=True)
class LagMeasured(Event, name="source.lag"):
    """Written every two seconds while the run is connected."""

    position: str
    source_position: str
    lag_s: float | None = None
    lag_bytes: int | None = None
    runway_s: float | None = None
    """Retention left; null if unknown or endless."""
    percentiles: Mapping[str, float] | None = None
    """p50, p95, p99 and max of `lag_s` in the last ten minutes."""
    mirror_age_s: float = 0.0
    """For how long the oldest change that a mirror lacks has been in the change log."""
    mirror_oldest: str | None = None
    """The table of that mirror; null if mirrors lack nothing."""
    log_freshness: Mapping[str, float] | None = None
    """p50, p95, p99 and max of the seconds from a commit on the source until a change could be read in the change log,
    in the last ten minutes; null without any."""
    mirror_freshness: Mapping[str, float] | None = None
    """The same in the mirror."""
    sink_freshness: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The same in each further sink that got changes, by its name."""


@dataclass(frozen=True, kw_only=True)
class SourceAway(Event, name="source.away"):
    """A try to reach the source failed, or it refused the account: `hint` says what to do.

    gives_up_at: null for no limit.
    """

    since: str
    attempt: int
    retry_in_s: float
    message: str
    gives_up_at: str | None = None
    refused: bool = False
    hint: str = ""
    cause: Cause = "unreachable"


@dataclass(frozen=True, kw_only=True)
class SourceBack(Event, name="source.back"):
    """The source answers again."""

    since: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class TableChanged(Event, name="source.event"):
    """A table was altered, or is resnapshotted. `kind`: evolved, resnapshotted or stopped.

    `position` and `statement`: of the statement that is the cause; null if there is none, as on command.
    """

    kind: str
    table: str
    position: str | None = None
    statement: str | None = None
    reason: str | None = None
    within_hour: int | None = None
    """The number of automatic resnapshots of the table within an hour, this one included; null for other events."""


@dataclass(frozen=True, kw_only=True)
class FailedOver(Event, name="source.failover"):
    """The run continues on another server, at the same place in that server's binlog."""

    from_identity: str
    to_identity: str
    from_position: str
    to_position: str
    gtids: str | None = None
    """All transactions before that place."""


@dataclass(frozen=True, kw_only=True)
class CommandAccepted(Event, name="command.accepted"):
    """The runner has accepted a command from the inbox."""

    id: str
    verb: str | None
    actor: str | None = None
    reason: str | None = None
    what: str | None = None
    """What a command that takes longer is about, in words."""
    range: list[Any] | None = None
    """The bounds of a redump, as it was requested."""
    keys: list[Any] | None = None
    """The first keys of a redump, as it was requested."""


@dataclass(frozen=True, kw_only=True)
class CommandRefused(Event, name="command.refused"):
    """The runner does not execute a command."""

    id: str
    verb: str | None
    actor: str | None = None
    reason: str | None = None
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class CommandDone(Event, name="command.done"):
    """A command is finished."""

    id: str
    verb: str | None
    duration_s: float
    result: Mapping[str, Any] | None = None
    """Of a redump: `rows` and `ghosts`; with keys also `missing` and `missing_keys`. `begun`: tables whose resnapshot
    has begun."""


@dataclass(frozen=True, kw_only=True)
class ChunkRedumped(Event, name="redump.chunk"):
    """A part of a table was redumped for a command."""

    id: str
    """The command's id."""
    table: str
    chunk: int
    """Numbers the parts of the redump."""
    lower: str | None = None
    upper: str | None = None
    rows: int = 0
    ghosts: int = 0
    """Rows that only the mirror had."""
    reader: str | None = None


@cache
def fields_of(name: str) -> tuple[str, ...]:
    """The fields of an event, in the order of its line."""
    return tuple(one.name for one in fields(EVENTS[name]))

"""Counts the events of a run's journal for its metrics. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from engine.base import clock
from engine.base.errors import DiskFullError
from engine.base.write_causes import WriteCause
from engine.decode.schema import KINDS
from engine.journal import Entry
from engine.journal.alert_events import AlertCleared, AlertRaised
from engine.journal.destination_events import SinkApplied, SpaceMeasured
from engine.journal.event_fields import without_redumps
from engine.journal.events import (
    ChunkAssigned,
    ChunkFailed,
    ChunkFinished,
    DiskFreed,
    EpochCommitted,
    ErrorReported,
    Event,
    LagMeasured,
    RunConnected,
    RunState,
    SourceAway,
    SourceBack,
    TableChanged,
    TableStateChanged,
)
from engine.journal.store_events import StoreAway, StoreBack, StoreRequests
from engine.journal.verification_events import TableVerified


@dataclass
class Timed:
    """The count and total duration of an operation."""

    count: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds


@dataclass
class Seen:
    """The counts of a run's journal; `hear` takes each line. Used by one thread at a time."""

    state: str = "starting"
    slots: int = 0
    source: dict[str, str] = field(default_factory=dict)
    lag: LagMeasured | None = None
    measured_s: float | None = None
    """When `lag` was measured, Unix time."""
    now_s: float = 0.0
    """The time of the line that is being counted, Unix time."""
    epochs: Timed = field(default_factory=Timed)
    totals: Counter[str] = field(default_factory=Counter)
    """Transactions and bytes of all epochs."""
    events: Counter[str] = field(default_factory=Counter)
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)
    changed_s: float | None = None
    """Unix time of the last epoch with changes."""
    rows: Counter[str] = field(default_factory=Counter)
    chunks: defaultdict[str, Timed] = field(default_factory=lambda: defaultdict(Timed))
    failures: Counter[str] = field(default_factory=Counter)
    groups: dict[int, set[str]] = field(default_factory=dict)
    """Running groups of chunks, with their tables."""
    errors: int = 0
    away: bool = False
    """Whether the run waits for the source."""
    tries: int = 0
    """Tries to connect during all outages."""
    unwritten: WriteCause | None = None
    """Why the run writes nothing."""
    store_tries: int = 0
    """Tries to reach the destination's store during all outages."""
    sink_epoch: dict[tuple[str, str], int] = field(default_factory=dict)
    sink_rows: Counter[tuple[str, str]] = field(default_factory=Counter)
    sink: defaultdict[str, Timed] = field(default_factory=lambda: defaultdict(Timed))
    requests: Counter[str] = field(default_factory=Counter)
    """Requests to buckets, by kind."""
    space: SpaceMeasured | None = None
    verifications: dict[str, TableVerified] = field(default_factory=dict)
    """The newest verification of each table in this run."""
    alerts: set[tuple[str, str]] = field(default_factory=set)

    def hear(self, entry: Entry) -> None:
        """Count a line of the journal."""
        if (handler := _HANDLERS.get(type(entry.event))) is not None:
            self.now_s = clock.parse_utc(entry.ts).timestamp()
            handler(self, entry.event)

    def connected(self, event: RunConnected) -> None:
        self.slots, source = event.spark.slots, event.source
        self.source = {
            "flavor": source.flavor,
            "version": source.version,
            "watermark_class": source.watermark_class,
        }

    def run_state(self, event: RunState) -> None:
        self.state = event.state

    def measured(self, event: LagMeasured) -> None:
        self.lag = event
        self.measured_s = self.now_s

    def disk(self, event: SpaceMeasured) -> None:
        self.space = event

    def committed(self, event: EpochCommitted) -> None:
        self.epochs.add(sum(event.timings.values()))
        self.totals.update(transactions=event.transactions, bytes=event.bytes)
        self.events.update(event.events)
        own = without_redumps(event.table_kinds, event.redumped)
        for table, counts in own.items():
            self.changes.update({(table, kind): n for kind, n in zip(KINDS, counts, strict=True)})
        if any(map(sum, own.values())):
            self.changed_s = self.now_s

    def assigned(self, event: ChunkAssigned) -> None:
        # Group numbers ascend. They restart after a failover, when the earlier groups are gone.
        self.groups = {group: tables for group, tables in self.groups.items() if group <= event.group}
        self.groups.setdefault(event.group, set()).add(event.table)

    def finished(self, event: ChunkFinished) -> None:
        self.groups.pop(event.group, None)  # a group reports only once all of it is read
        self.rows[event.table] += event.rows
        self.chunks[event.table].add(sum(event.timings.values()))

    def failed(self, event: ChunkFailed) -> None:
        self.groups.pop(event.group, None)
        self.failures[event.table] += 1

    def table_restarted(self, event: TableChanged | TableStateChanged) -> None:
        """Forget the groups of a table that stopped or is resnapshotted."""
        for tables in self.groups.values():
            tables.discard(event.table)
        self.groups = {group: tables for group, tables in self.groups.items() if tables}

    def table_state(self, event: TableStateChanged) -> None:
        if event.state == "stopped":
            self.table_restarted(event)
        elif event.state == "removed":
            self.verifications.pop(event.table, None)

    def applied(self, event: SinkApplied) -> None:
        name = (event.table, event.kind)
        self.sink_epoch[name] = event.through_epoch
        self.sink_rows[name] += event.rows
        self.sink[event.kind].add(event.duration_s)

    def source_outage(self, event: SourceAway | SourceBack) -> None:
        self.away = isinstance(event, SourceAway)
        self.tries += self.away

    def verified(self, event: TableVerified) -> None:
        self.verifications[event.table] = event

    def store_away(self, event: StoreAway) -> None:
        self.unwritten = event.cause
        self.store_tries += 1

    def writes_again(self, _: StoreBack | DiskFreed) -> None:
        self.unwritten = None

    def error(self, event: ErrorReported) -> None:
        self.errors += 1
        if event.error == DiskFullError.__name__:
            self.unwritten = "disk"

    def raised(self, event: AlertRaised) -> None:
        self.alerts.add((event.kind, event.table or ""))

    def cleared(self, event: AlertCleared) -> None:
        self.alerts.discard((event.kind, event.table or ""))


def _requested(seen: Seen, event: StoreRequests) -> None:
    for one in event.requests:
        seen.requests.update(put=one.puts, list=one.lists, get=one.gets, delete=one.deletes)


_HANDLERS: dict[type[Event], Callable[[Seen, Any], None]] = {
    RunConnected: Seen.connected,
    RunState: Seen.run_state,
    LagMeasured: Seen.measured,
    SpaceMeasured: Seen.disk,
    EpochCommitted: Seen.committed,
    ChunkAssigned: Seen.assigned,
    ChunkFinished: Seen.finished,
    ChunkFailed: Seen.failed,
    TableChanged: Seen.table_restarted,
    TableStateChanged: Seen.table_state,
    SinkApplied: Seen.applied,
    SourceAway: Seen.source_outage,
    SourceBack: Seen.source_outage,
    StoreAway: Seen.store_away,
    StoreRequests: _requested,
    StoreBack: Seen.writes_again,
    DiskFreed: Seen.writes_again,
    TableVerified: Seen.verified,
    ErrorReported: Seen.error,
    AlertRaised: Seen.raised,
    AlertCleared: Seen.cleared,
}

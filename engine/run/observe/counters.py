"""Counts the events of a run's journal for its metrics. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine import clock
from engine.decode.images import KINDS

Line = Mapping[str, Any]


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
    lag: Line = field(default_factory=dict)
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
    sink_epoch: dict[tuple[str, str], int] = field(default_factory=dict)
    sink_rows: Counter[tuple[str, str]] = field(default_factory=Counter)
    sink: defaultdict[str, Timed] = field(default_factory=lambda: defaultdict(Timed))
    alerts: set[tuple[str, str]] = field(default_factory=set)

    def hear(self, line: Line) -> None:
        """Count a line of the journal."""
        if (handler := _HANDLERS.get(line["event"])) is not None:
            handler(self, line)

    def connected(self, line: Line) -> None:
        self.slots, source = line["spark"]["slots"], line["source"]
        self.source = {name: str(source[name]) for name in ("flavor", "version", "watermark_class")}

    def run_state(self, line: Line) -> None:
        self.state = line["state"]

    def measured(self, line: Line) -> None:
        self.lag = line

    def committed(self, line: Line) -> None:
        self.epochs.add(sum(line["timings"].values()))
        self.totals.update(transactions=line["transactions"], bytes=line["bytes"])
        self.events.update(line["events"])
        for table, counts in line["table_kinds"].items():
            self.changes.update({(table, kind): n for kind, n in zip(KINDS, counts, strict=True)})
        if line["changes"]:
            self.changed_s = clock.parse_utc(line["ts"]).timestamp()

    def assigned(self, line: Line) -> None:
        # Group numbers ascend. They restart after a failover, when the earlier groups are gone.
        self.groups = {group: tables for group, tables in self.groups.items() if group <= line["group"]}
        self.groups.setdefault(line["group"], set()).add(line["table"])

    def finished(self, line: Line) -> None:
        self.groups.pop(line["group"], None)  # a group reports only once all of it is read
        self.rows[line["table"]] += line["rows"]
        self.chunks[line["table"]].add(sum(line["timings"].values()))

    def failed(self, line: Line) -> None:
        self.groups.pop(line["group"], None)
        self.failures[line["table"]] += 1

    def table_restarted(self, line: Line) -> None:
        """Stop showing running reads of a table that stopped or is being resnapshotted."""
        for tables in self.groups.values():
            tables.discard(line["table"])
        self.groups = {group: tables for group, tables in self.groups.items() if tables}

    def table_state(self, line: Line) -> None:
        if line["state"] == "stopped":
            self.table_restarted(line)

    def applied(self, line: Line) -> None:
        name = (line["table"], line["kind"])
        self.sink_epoch[name] = line["through_epoch"]
        self.sink_rows[name] += line["rows"]
        self.sink[line["kind"]].add(line["duration_s"])

    def source_away(self, _: Line) -> None:
        self.away, self.tries = True, self.tries + 1

    def source_back(self, _: Line) -> None:
        self.away = False

    def error(self, _: Line) -> None:
        self.errors += 1

    def raised(self, line: Line) -> None:
        self.alerts.add((line["kind"], line["table"] or ""))

    def cleared(self, line: Line) -> None:
        self.alerts.discard((line["kind"], line["table"] or ""))


_HANDLERS: dict[str, Callable[[Seen, Line], None]] = {
    "run.connected": Seen.connected,
    "run.state": Seen.run_state,
    "source.lag": Seen.measured,
    "epoch.committed": Seen.committed,
    "chunk.assigned": Seen.assigned,
    "chunk.finished": Seen.finished,
    "chunk.failed": Seen.failed,
    "source.event": Seen.table_restarted,
    "table.state": Seen.table_state,
    "sink.applied": Seen.applied,
    "source.away": Seen.source_away,
    "source.back": Seen.source_back,
    "error": Seen.error,
    "alert.raised": Seen.raised,
    "alert.cleared": Seen.cleared,
}

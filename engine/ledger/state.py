"""The committed state of a pipeline, and how an epoch changes it. Pure, except for the time of a new record.

`ledger.records` defines the records and their fields.

A removed table no longer belongs to the pipeline (`State.tables`), but is remembered (`State.removed`): it may be added
again, and the spec's globs do not bring it back.

The state after epoch k is the records 0…k applied in order; a full state is only a shortcut to that.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from engine.base import clock
from engine.base.errors import LedgerError
from engine.ledger.records import Description, Due, EpochRecord, ErrorRecord, SinkRecord, Switch, TableChange
from engine.plan.chunks import plan_from_dict
from engine.plan.coverage import EMPTY, Coverage, coverage_from_dict, split_from_dict, unsplit_table

_HOUR = timedelta(hours=1)
KNOWN_TERMS = 100
"""The ledger remembers this many of the newest terms."""


@dataclass(frozen=True)
class Owner:
    """How the transaction identifiers of a destination name the pipeline."""

    ledger: str
    """The ledger's identifier, stored with its tables."""
    lineage: str = ""
    """The name of the count of epochs. Empty unless a restored ledger took over the destination and counts
    from there."""
    floor: int = -1
    """The last epoch before the lineage. The destination has all epochs up to it, or will never get them."""

    @property
    def application(self) -> str:
        """The application name in the destination's transaction identifiers."""
        return f"{self.ledger}.{self.lineage}" if self.lineage else self.ledger

    def transaction(self, kind: str) -> str:
        """The identifier of the transactions that record the last epoch of a kind: chunks, changes or merge."""
        return f"tidemark-{self.application}-{kind}"


@dataclass(frozen=True)
class TableState:
    """One table: how far it has been split and read, and its counters."""

    table: Description
    """As `decode.schema.Table.as_dict`."""
    plan: Description
    """As `plan.chunks.Plan.as_dict`."""
    coverage: Coverage = field(default_factory=Coverage)
    rows_read: int = 0
    changes_applied: int = 0
    nulled: Mapping[str, int] = field(default_factory=dict)
    """Invalid dates that became NULL, by column; each image of a change counts."""
    stopped: ErrorRecord | None = None
    """The error that stopped the table."""
    generation: int = 0
    """How many resnapshots have been started."""
    projection: Description | None = None
    """The published part of the table (`capture.projection.table_projection`); None for all of it."""
    names: tuple[str, ...] = ()
    """The names of all columns that it ever had."""
    since: Description | None = None
    """The position from which it is streamed without a snapshot, if that is after the committed position."""
    by: str | None = None
    """The command that added the table; None if there was none."""
    removed: Description | None = None
    """{"by", "drop", "dropped"} of a removed table."""
    applied: Mapping[str, int] = field(default_factory=dict)
    """By kind, the last epoch that the destination is known to have; it may have more."""
    due: Due | None = None
    """A resnapshot that was decided and has not begun yet."""
    resnapshots: tuple[str, ...] = ()
    """When the latest automatic resnapshots began: UTC texts of at most an hour, none from before an operator's
    resnapshot."""

    @property
    def chunks(self) -> int:
        """The number of chunks; an estimate while some ranges are not split yet."""
        return self.coverage.total(self.plan["estimated_chunks"])

    @property
    def copied(self) -> bool:
        """Whether all chunks are finished."""
        return self.coverage.copied

    @property
    def begun(self) -> bool:
        """Whether it has, or will have, a place in the destination. Not if it was refused from the start."""
        return not self.stopped or bool(self.coverage.done or self.changes_applied or self.generation)

    @property
    def state(self) -> str:
        """copying, streaming, stopped or removed."""
        if self.removed:
            return "removed"
        return "stopped" if self.stopped else "streaming" if self.copied else "copying"


@dataclass(frozen=True)
class State:
    """The state after `epoch`."""

    epoch: int
    ledger: str
    identity: str
    position: Description
    """The committed position (`source.positions`)."""
    next_seq: int
    """The `_tm_seq` of the next change."""
    tables: Mapping[str, TableState] = field(default_factory=dict)
    """Captured tables."""
    unknown: Mapping[str, int] = field(default_factory=dict)
    """Events of the binlog that were skipped as unknown, by type."""
    largest: Description | None = None
    """The largest transaction read ("gtid", "position", "bytes", "events")."""
    removed: Mapping[str, TableState] = field(default_factory=dict)
    """Tables that were captured and then removed."""
    terms: tuple[tuple[int, str], ...] = ()
    """The newest terms, each a number and the run that took it. The last one owns the pipeline."""
    lineage: str = ""
    floor: int = -1
    binlog_off: Mapping[str, str] = field(default_factory=dict)
    """By identity, the servers that wrote no binlog for a while, and when, as UTC text; until a resnapshot from that
    server."""

    sinks: Mapping[str, SinkRecord] = field(default_factory=dict)
    """The further sinks, by name."""
    sink_places: Mapping[str, int] = field(default_factory=dict)
    """How often a further sink has joined, by its place."""

    @property
    def owner(self) -> Owner:
        """How the destination identifies the ledger."""
        return Owner(self.ledger, self.lineage, self.floor)

    @property
    def term(self) -> int:
        """The number of the newest term; 0 before the first."""
        return self.terms[-1][0] if self.terms else 0

    def known(self, name: str) -> TableState | None:
        """A table that is or was captured; None for others."""
        return self.tables.get(name) or self.removed.get(name)

    @property
    def copied(self) -> bool:
        """Whether no chunk of a captured table is pending."""
        return all(table.copied or table.stopped for table in self.tables.values())


def following(state: State, run: str, tables: Mapping[str, TableChange], **facts: Any) -> EpochRecord:
    """The record of the epoch after `state`. Position and sequence numbers stay unchanged unless `facts` set them."""
    record: EpochRecord = {
        "epoch": state.epoch + 1,
        "run": run,
        "ts": clock.utc_text(),
        "from": state.position,
        "to": state.position,
        "next_seq": state.next_seq,
        "tables": dict(tables),
    }
    record.update(facts)  # type: ignore[typeddict-item]  # each caller names fields of the record
    return record


def apply(state: State | None, record: EpochRecord) -> State:
    """The state after one more epoch. Raises LedgerError if the record does not follow it."""
    expected = 0 if state is None else state.epoch + 1
    if record["epoch"] != expected:
        raise LedgerError(
            f"The ledger has epoch {record['epoch']} where {expected} must follow.",
            detail="An epoch file is missing, or was put there by hand. "
            "Tidemark publishes nothing on an unproved state.",
            hint="Restore the file from a backup, or start a new pipeline with a new destination.",
        )
    if state is None:
        state = State(0, record["ledger"], record["identity"], record["to"], 0)
    tables = dict(state.tables)
    if record.get("identity", state.identity) != state.identity:
        tables = {
            name: replace(table, since=None) for name, table in tables.items()
        }  # positions of the previous server
    removed = dict(state.removed)
    lineage, floor, sinks = state.lineage, state.floor, state.sinks
    if "lineage" in record:
        lineage, floor = record["lineage"], record["epoch"] - 1
        begun = SinkRecord(id=lineage, joined=floor, generations={}, applied={})
        sinks = {name: SinkRecord(**{**sink, **begun}) for name, sink in sinks.items()}
        tables, removed = ({name: replace(t, applied={}) for name, t in held.items()} for held in (tables, removed))
    for name, change in record["tables"].items():
        table = _apply_table(tables.get(name) or removed.get(name), change)
        here, there = (removed, tables) if table.removed else (tables, removed)
        here[name] = table
        there.pop(name, None)
    for name, applied in record.get("applied", {}).items():
        for held in (tables, removed):
            if name in held:
                held[name] = replace(held[name], applied={**held[name].applied, **applied})
    terms = state.terms
    if "term" in record:
        terms = (*terms, (record["term"]["number"], record["term"]["run"]))[-KNOWN_TERMS:]
    return replace(
        state,
        epoch=record["epoch"],
        identity=record.get("identity", state.identity),
        position=record["to"],
        next_seq=record["next_seq"],
        tables=tables,
        removed=removed,
        unknown=dict(Counter(state.unknown) + Counter(record.get("unknown", {}))),
        largest=record.get("largest", state.largest),
        terms=terms,
        lineage=lineage,
        floor=floor,
        binlog_off=record.get("binlog_off", state.binlog_off),
        sinks=_without(_sinks(sinks, record.get("sinks", {})), record["tables"]),
        sink_places=_places(state.sink_places, record),
    )


def sink_place(sink: SinkRecord) -> str:
    """Where a further sink is."""
    return f"{sink['type']}:{sink['path']}"


def _places(places: Mapping[str, int], record: EpochRecord) -> Mapping[str, int]:
    joined = [sink_place(sink) for sink in record.get("sinks", {}).values() if sink is not None and "type" in sink]
    return {**places, **record.get("sink_places", {}), **{place: places.get(place, 0) + 1 for place in joined}}


def _without(sinks: Mapping[str, SinkRecord], changes: Mapping[str, TableChange]) -> Mapping[str, SinkRecord]:
    """The sinks without what they have of tables that join, or are dropped."""
    gone = {name for name, part in changes.items() if "planned" in part or part.get("removed", {}).get("drop")}
    if not gone:
        return sinks
    found = {}
    for name, sink in sinks.items():
        kept = SinkRecord(**sink)
        kept["applied"] = {table: one for table, one in sink.get("applied", {}).items() if table not in gone}
        kept["generations"] = {table: one for table, one in sink["generations"].items() if table not in gone}
        found[name] = kept
    return found


def _sinks(sinks: Mapping[str, SinkRecord], changes: Mapping[str, SinkRecord | None]) -> Mapping[str, SinkRecord]:
    """The further sinks after an epoch. A record that names a type joins."""
    found = dict(sinks)
    for name, change in changes.items():
        if change is None:
            found.pop(name, None)
        elif "type" in change:
            found[name] = change
        elif name in found:
            applied = {**found[name].get("applied", {}), **change.get("applied", {})}
            found[name] = {**found[name], **change, "applied": applied}
    return found


def _apply_table(table: TableState | None, change: TableChange) -> TableState:
    if "planned" in change:
        planned = change["planned"]
        if "estimated_chunks" not in planned["plan"]:
            raise _older()
        coverage = unsplit_table(plan_from_dict(planned["plan"]))
        names, projection = _names(planned["table"]), planned.get("projection")
        table = TableState(
            planned["table"], planned["plan"], coverage, projection=projection, names=names, by=planned.get("by")
        )
    if table is None:
        raise LedgerError(
            "The ledger has an epoch for a table that was never planned.", hint="Restore the ledger from a backup."
        )
    if "removed" in change:
        return replace(table, removed={**change["removed"], "dropped": False}, due=None)
    if "dropped" in change:
        return replace(table, removed={**(table.removed or {}), "dropped": True})
    chunks = change.get("chunks", [])
    coverage = split_from_dict(table.coverage, change["split"]) if "split" in change else table.coverage
    table = replace(
        table,
        coverage=coverage.finish(chunk["chunk"] for chunk in chunks),
        rows_read=table.rows_read + sum(chunk["rows"] for chunk in chunks),
        changes_applied=table.changes_applied + sum(change.get("changes", {}).get("kinds", [])),
        nulled=dict(Counter(table.nulled) + nulled(change)),
        stopped=change.get("stopped", table.stopped),
        due=change.get("due", table.due),
    )
    if "resnapshot" in change:
        described, plan = change["resnapshot"]["table"], change["resnapshot"]["plan"]
        return replace(
            table,
            table=described,
            plan=plan,
            coverage=EMPTY if change["resnapshot"].get("since") else unsplit_table(plan_from_dict(plan)),
            names=_names(described, table.names),
            since=change["resnapshot"].get("since"),
            rows_read=0,
            stopped=None,
            generation=table.generation + 1,
            projection=change["resnapshot"].get("projection"),
            by=change["resnapshot"].get("by", table.by),
            removed=None,
            due=None,
            resnapshots=_resnapshots(table, change["resnapshot"]),
        )
    if "altered" in change:
        altered = change["altered"]
        names = _names(altered["table"], table.names)
        return replace(
            table, table=altered["table"], plan=altered["plan"], projection=altered.get("projection"), names=names
        )
    return table


def _resnapshots(table: TableState, switch: Switch) -> tuple[str, ...]:
    if "automatic" not in switch:
        return ()
    return (*latest_resnapshots(table, switch["automatic"]), switch["automatic"])


def latest_resnapshots(table: TableState, now: str) -> tuple[str, ...]:
    """When the automatic resnapshots of the last hour began. now: UTC text."""
    since = clock.utc_text(clock.parse_utc(now) - _HOUR)
    return tuple(at for at in table.resnapshots if at > since)


def _names(table: Description, before: Sequence[str] = ()) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*before, *(column["name"] for column in table.get("columns", ()))]))


def nulled(change: TableChange) -> Counter[str]:
    """The dates that an epoch's change of one table publishes as NULL, by column."""
    parts = [*change.get("chunks", []), change.get("changes", {})]
    return sum((Counter(part.get("nulled", {})) for part in parts), Counter[str]())


def _older() -> LedgerError:
    return LedgerError(
        "The ledger was written by an earlier version, which planned chunks differently.",
        detail="Its finished chunks cannot be continued. Nothing was started and nothing was changed.",
        hint="Continue with the version that began this pipeline, or start a new pipeline with a new destination.",
    )


_SCALARS = (
    *("epoch", "ledger", "identity", "position", "next_seq", "unknown", "largest", "terms", "lineage", "floor"),
    "binlog_off",
)


def state_to_dict(state: State) -> Description:
    """The JSON of a full state file."""
    own = {name: getattr(state, name) for name in _SCALARS}
    own |= {"sinks": dict(state.sinks)} if state.sinks else {}
    own |= {"sink_places": dict(state.sink_places)} if state.sink_places else {}
    return {**own, "tables": _tables_to_dict(state.tables), "removed": _tables_to_dict(state.removed)}


def _tables_to_dict(tables: Mapping[str, TableState]) -> Description:
    return {
        name: {
            "table": t.table,
            "plan": t.plan,
            "coverage": t.coverage.as_dict(),
            "rows_read": t.rows_read,
            "changes_applied": t.changes_applied,
            "nulled": t.nulled,
            "stopped": t.stopped,
            "generation": t.generation,
            "names": list(t.names),
            "since": t.since,
            "projection": t.projection,
            "by": t.by,
            "removed": t.removed,
            "applied": dict(t.applied),
            "due": t.due,
            "resnapshots": list(t.resnapshots),
        }
        for name, t in tables.items()
    }


def state_from_dict(record: Description) -> State:
    """The inverse of `state_to_dict`."""
    tables = {kind: _tables_from_dict(record.get(kind, {})) for kind in ("tables", "removed")}
    terms = tuple((int(number), str(run)) for number, run in record.get("terms", ()))
    return State(**{**record, **tables, "terms": terms, "binlog_off": record.get("binlog_off", {})})


def _tables_from_dict(record: Description) -> dict[str, TableState]:
    tables = {}
    for name, table in record.items():
        if "coverage" not in table:
            raise _older()
        tables[name] = TableState(
            **{
                **table,
                "coverage": coverage_from_dict(table["coverage"]),
                "names": tuple(table.get("names", ())),
                "resnapshots": tuple(table.get("resnapshots", ())),
            }
        )
    return tables

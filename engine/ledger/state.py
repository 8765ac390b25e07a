"""The committed state of a pipeline, and how an epoch changes it. Pure, except for the time of a new record.

A removed table no longer belongs to the pipeline (`State.tables`), but is remembered (`State.removed`): it may be added
again, and the spec's globs do not bring it back.

The state after epoch k is the records 0…k applied in order; a full state is only a shortcut to that.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from engine.base import clock
from engine.base.errors import ErrorRecord, LedgerError
from engine.ledger.records import (
    Description,
    Due,
    EpochRecord,
    Planned,
    Removal,
    SinkNews,
    SinkRecord,
    Switch,
    TableChange,
)
from engine.pipeline.state_words import RemovedFiles
from engine.plan.chunks import plan_from_dict
from engine.plan.coverage import EMPTY, Coverage, split_from_dict, unsplit_table
from engine.source.positions import Position

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
    since: Position | None = None
    """The position from which it is streamed without a snapshot, if that is after the committed position."""
    by: str | None = None
    """The command that added the table; None if there was none."""
    removed: Removal | None = None
    """How it left the pipeline; None for a captured table."""
    dropped: bool = False
    """Whether its published data was deleted."""
    given_up: int = 0
    """The epoch of the newest resnapshot for which what the destination had was given up; 0 if there is none."""
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

    @property
    def removed_files(self) -> RemovedFiles | None:
        """What becomes of its published data, if it was removed; None for other tables."""
        if not self.removed:
            return None
        return "kept" if not self.removed.drop else "dropped" if self.dropped else "dropping"


@dataclass(frozen=True)
class State:
    """The state after `epoch`."""

    epoch: int
    ledger: str
    identity: str
    position: Position
    """The committed position."""
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


def following(state: State, run: str, tables: Mapping[str, TableChange]) -> EpochRecord:
    """The record of the epoch after `state`, with its position and sequence number."""
    at = state.position
    return EpochRecord(state.epoch + 1, run, clock.utc_text(), at, at, state.next_seq, dict(tables))


def apply(state: State | None, record: EpochRecord) -> State:
    """The state after one more epoch. Raises LedgerError if the record does not follow it."""
    expected = 0 if state is None else state.epoch + 1
    if record.epoch != expected:
        raise LedgerError(
            f"The ledger has epoch {record.epoch} where {expected} must follow.",
            detail="An epoch file is missing, or was put there by hand. "
            "Tidemark publishes nothing on an unproved state.",
            hint="Restore the file from a backup, or start a new pipeline with a new destination.",
        )
    if state is None:
        state = _begun(record)
    if record.identity not in (None, state.identity):
        tables = {name: replace(table, since=None) for name, table in state.tables.items()}
        state = replace(state, identity=record.identity, tables=tables)  # positions of the previous server
    if record.lineage is not None:
        state = _with_lineage(state, record.lineage, record.epoch - 1)
    tables, removed = _tables(state, record)
    return replace(
        state,
        epoch=record.epoch,
        position=record.to_position,
        next_seq=record.next_seq,
        tables=tables,
        removed=removed,
        unknown=dict(Counter(state.unknown) + Counter(record.unknown)),
        largest=record.largest or state.largest,
        terms=_terms(state, record),
        binlog_off=state.binlog_off if record.binlog_off is None else record.binlog_off,
        sinks=_without(_sinks(state.sinks, record.sinks), record.tables),
        sink_places=_places(state.sink_places, record),
    )


def _begun(record: EpochRecord) -> State:
    assert record.ledger is not None
    assert record.identity is not None
    return State(0, record.ledger, record.identity, record.to_position, 0)


def _with_lineage(state: State, lineage: str, floor: int) -> State:
    """The state in which no destination has anything of the new lineage."""
    sinks = {
        name: replace(sink, id=lineage, joined=floor, generations={}, copied=frozenset(), applied={})
        for name, sink in state.sinks.items()
    }
    tables, removed = (
        {name: replace(table, applied={}) for name, table in table_states.items()}
        for table_states in (state.tables, state.removed)
    )
    return replace(state, lineage=lineage, floor=floor, sinks=sinks, tables=tables, removed=removed)


def _tables(state: State, record: EpochRecord) -> tuple[dict[str, TableState], dict[str, TableState]]:
    """The captured and the removed tables after an epoch."""
    tables, removed = dict(state.tables), dict(state.removed)
    for name, change in record.tables.items():
        table = _apply_table(tables.get(name) or removed.get(name), change, record.epoch)
        here, there = (removed, tables) if table.removed else (tables, removed)
        here[name] = table
        there.pop(name, None)
    for name, applied in record.applied.items():
        for table_states in (tables, removed):
            if name in table_states:
                table_states[name] = replace(table_states[name], applied={**table_states[name].applied, **applied})
    return tables, removed


def _terms(state: State, record: EpochRecord) -> tuple[tuple[int, str], ...]:
    if record.term is None:
        return state.terms
    return (*state.terms, (record.term.number, record.term.run))[-KNOWN_TERMS:]


def sink_place(type_: str, path: str) -> str:
    """Where a further sink is."""
    return f"{type_}:{path}"


def _places(places: Mapping[str, int], record: EpochRecord) -> Mapping[str, int]:
    joined = [sink_place(sink.type, sink.path) for sink in record.sinks.values() if isinstance(sink, SinkRecord)]
    return {**places, **record.sink_places, **{place: places.get(place, 0) + 1 for place in joined}}


def _without(sinks: Mapping[str, SinkRecord], changes: Mapping[str, TableChange]) -> Mapping[str, SinkRecord]:
    """The sinks without what they have of tables that join, or are dropped."""
    gone = {name for name, part in changes.items() if part.planned or (part.removed and part.removed.drop)}
    if not gone:
        return sinks
    return {
        name: replace(
            sink,
            applied={table: one for table, one in sink.applied.items() if table not in gone},
            generations={table: one for table, one in sink.generations.items() if table not in gone},
            copied=sink.copied - gone,
        )
        for name, sink in sinks.items()
    }


def _sinks(
    sinks: Mapping[str, SinkRecord], changes: Mapping[str, SinkRecord | SinkNews | None]
) -> Mapping[str, SinkRecord]:
    """The further sinks after an epoch."""
    records = dict(sinks)
    for name, change in changes.items():
        if change is None:
            records.pop(name, None)
        elif isinstance(change, SinkRecord):
            records[name] = change
        elif name in records:
            record = records[name]
            applied = {**record.applied, **change.applied}
            copied = record.copied | (change.copied & record.generations.keys())
            stopped = change.stopped or record.stopped
            records[name] = replace(record, applied=applied, copied=copied, stopped=stopped)
    return records


def _apply_table(table: TableState | None, change: TableChange, epoch: int) -> TableState:
    if change.planned is not None:
        table = _joined(change.planned)
    if table is None:
        raise LedgerError(
            "The ledger has an epoch for a table that was never planned.", hint="Restore the ledger from a backup."
        )
    if change.removed is not None:
        return replace(table, removed=change.removed, dropped=False, due=None)
    if change.dropped:
        return replace(table, dropped=True)
    coverage = table.coverage if change.split is None else split_from_dict(table.coverage, change.split)
    table = replace(
        table,
        coverage=coverage.finish(chunk.chunk for chunk in change.chunks),
        rows_read=table.rows_read + sum(chunk.rows for chunk in change.chunks),
        changes_applied=table.changes_applied + (sum(change.changes.kinds) if change.changes else 0),
        nulled=dict(Counter(table.nulled) + nulled(change)),
        stopped=change.stopped or table.stopped,
        due=None if change.not_due else change.due or table.due,
    )
    if change.resnapshot is not None:
        return _resnapshotted(table, change.resnapshot, epoch)
    if change.altered is not None:
        altered = change.altered
        names = _names(altered.table, table.names)
        return replace(table, table=altered.table, plan=altered.plan, projection=altered.projection, names=names)
    return table


def _joined(planned: Planned) -> TableState:
    if "estimated_chunks" not in planned.plan:
        raise older_ledger()
    return TableState(
        planned.table,
        planned.plan,
        unsplit_table(plan_from_dict(planned.plan)),
        projection=planned.projection,
        names=_names(planned.table),
        by=planned.by,
    )


_KEY = "key"
"""Of a table's description: its columns."""


def _resnapshotted(table: TableState, switch: Switch, epoch: int) -> TableState:
    has_other_places = bool(switch.table.get(_KEY)) != bool(table.table.get(_KEY))
    # A table without a key has its chunks in the change log: a new mirror has none of them.
    applied = {kind: epoch for kind, epoch in table.applied.items() if kind == "changes" or not has_other_places}
    return replace(
        table,
        applied=applied,
        given_up=epoch if switch.is_given_up else table.given_up,
        table=switch.table,
        plan=switch.plan,
        coverage=EMPTY if switch.since else unsplit_table(plan_from_dict(switch.plan)),
        names=_names(switch.table, table.names),
        since=switch.since,
        rows_read=0,
        stopped=None,
        generation=table.generation + 1,
        projection=switch.projection,
        by=switch.by if switch.joins else table.by,
        removed=None,
        dropped=False,
        due=None,
        resnapshots=_resnapshots(table, switch),
    )


def _resnapshots(table: TableState, switch: Switch) -> tuple[str, ...]:
    if switch.automatic is None:
        return ()
    return (*latest_resnapshots(table, switch.automatic), switch.automatic)


def latest_resnapshots(table: TableState, now: str) -> tuple[str, ...]:
    """When the automatic resnapshots of the last hour began. now: UTC text."""
    since = clock.utc_text(clock.parse_utc(now) - _HOUR)
    return tuple(at for at in table.resnapshots if at > since)


def _names(table: Description, before: Sequence[str] = ()) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*before, *(column["name"] for column in table.get("columns", ()))]))


def nulled(change: TableChange) -> Counter[str]:
    """The dates that an epoch's change of one table publishes as NULL, by column."""
    return sum((Counter(part.nulled) for part in change.written), Counter[str]())


def older_ledger() -> LedgerError:
    """The error about a ledger whose chunks this version cannot continue."""
    return LedgerError(
        "The ledger was written by an earlier version, which planned chunks differently.",
        detail="Its finished chunks cannot be continued. Nothing was started and nothing was changed.",
        hint="Continue with the version that began this pipeline, or start a new pipeline with a new destination.",
    )

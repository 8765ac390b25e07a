"""The JSON of the ledger's files, read and written here alone. The order of the fields is that of the files.

An optional field is written only if it carries information. Of what a destination never had, a table that was refused,
only the table and the plan are written; who added a table is not written in epoch 0, as nobody did.
"""

from collections.abc import Mapping
from typing import Any

from engine.base.errors import ErrorRecord
from engine.ledger.records import (
    ChangesRecord,
    ChunkRecord,
    Due,
    EpochRecord,
    Planned,
    Removal,
    SinkNews,
    SinkRecord,
    Switch,
    TableChange,
    TermRecord,
)
from engine.ledger.state import State, TableState, older_ledger
from engine.plan.coverage import coverage_from_dict
from engine.source.positions import Position, position_from_dict

Json = Mapping[str, Any]


def epoch_from_json(record: Json) -> EpochRecord:
    """An epoch. Raises KeyError if it lacks a field."""
    term, only = record.get("term"), record.get("only")
    return EpochRecord(
        epoch=record["epoch"],
        run=record["run"],
        ts=record["ts"],
        from_position=position_from_dict(record["from"]),
        to_position=position_from_dict(record["to"]),
        next_seq=record["next_seq"],
        tables={name: change_from_json(change) for name, change in record["tables"].items()},
        ledger=record.get("ledger"),
        identity=record.get("identity"),
        unknown=record.get("unknown", {}),
        largest=record.get("largest"),
        binlog_off=record.get("binlog_off"),
        lineage=record.get("lineage"),
        term=TermRecord(term["number"], term["run"]) if term else None,
        applied=record.get("applied", {}),
        sinks={name: _sink_change(sink) for name, sink in record.get("sinks", {}).items()},
        sink_places=record.get("sink_places", {}),
        only=None if only is None else tuple(only),
    )


def epoch_to_json(record: EpochRecord) -> dict[str, Any]:
    """The inverse of `epoch_from_json`."""
    first = record.ledger is not None
    identity = {} if record.identity is None else {"identity": record.identity}
    optional = {
        "unknown": dict(record.unknown) or None,
        "largest": record.largest,
        "binlog_off": None if record.binlog_off is None else dict(record.binlog_off),
        "lineage": record.lineage,
        "term": {"number": record.term.number, "run": record.term.run} if record.term is not None else None,
        "applied": _counts_by_table(record.applied) or None,
        "sinks": {name: _sink_json(sink) for name, sink in record.sinks.items()} or None,
        "sink_places": dict(record.sink_places) or None,
        "only": None if record.only is None else list(record.only),
    }
    return {
        "epoch": record.epoch,
        "run": record.run,
        "ts": record.ts,
        **({"ledger": record.ledger, **identity} if first else {}),
        "from": record.from_position.as_dict(),
        "to": record.to_position.as_dict(),
        "next_seq": record.next_seq,
        "tables": {name: change_to_json(change, first=record.epoch == 0) for name, change in record.tables.items()},
        **({} if first else identity),
        **_present(optional),
    }


def change_from_json(change: Json) -> TableChange:
    """The effect of an epoch on one table."""
    changes, planned, removed, due = (change.get(name) for name in ("changes", "planned", "removed", "due"))
    altered, resnapshot = change.get("altered"), change.get("resnapshot")
    return TableChange(
        split=change.get("split"),
        chunks=tuple(map(_chunk, change.get("chunks", ()))),
        changes=None if changes is None else _changes(changes),
        planned=None if planned is None else _planned(planned),
        altered=None if altered is None else _switch(altered),
        resnapshot=None if resnapshot is None else _switch(resnapshot),
        stopped=ErrorRecord.from_json(change.get("stopped")),
        due=None if due is None else _due(due),
        not_due="due" in change and due is None,
        copied=change.get("copied", False),
        removed=None if removed is None else Removal(removed["by"], removed["drop"]),
        dropped=change.get("dropped", False),
    )


def change_to_json(change: TableChange, *, first: bool = False) -> dict[str, Any]:
    """The inverse of `change_from_json`. first: of epoch 0."""
    due = {"due": None} if change.not_due else {"due": _due_json(change.due)} if change.due is not None else {}
    begin = {
        "split": change.split,
        "chunks": [_chunk_json(chunk) for chunk in change.chunks] or None,
        "changes": _changes_json(change.changes) if change.changes is not None else None,
        "planned": _planned_json(change.planned, change, first=first) if change.planned is not None else None,
        "altered": _switch_json(change.altered) if change.altered is not None else None,
        "resnapshot": _resnapshot_json(change.resnapshot) if change.resnapshot is not None else None,
        "stopped": _error_json(change.stopped),
    }
    end = {
        "copied": change.copied or None,
        "removed": _removal_json(change.removed) if change.removed is not None else None,
        "dropped": change.dropped or None,
    }
    return {**_present(begin), **due, **_present(end)}


def _present(fields: Json) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _counts_by_table(counts: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    return {name: dict(kinds) for name, kinds in counts.items()}


def _position(record: Json | None) -> Position | None:
    return None if record is None else position_from_dict(record)


def _position_json(position: Position | None) -> dict[str, Any] | None:
    return None if position is None else position.as_dict()


def _error_json(error: ErrorRecord | None) -> dict[str, Any] | None:
    return None if error is None else error.to_json()


def _chunk(record: Json) -> ChunkRecord:
    files = tuple(record["files"])
    return ChunkRecord(record["chunk"], _position(record.get("exact")), files, record["rows"], record.get("nulled", {}))


def _chunk_json(chunk: ChunkRecord) -> dict[str, Any]:
    counts = {"rows": chunk.rows, "nulled": dict(chunk.nulled)}
    return {"chunk": chunk.chunk, "exact": _position_json(chunk.exact), "files": list(chunk.files), **counts}


def _changes(record: Json) -> ChangesRecord:
    return ChangesRecord(tuple(record["files"]), tuple(record["kinds"]), record.get("nulled", {}))


def _changes_json(changes: ChangesRecord) -> dict[str, Any]:
    return {"files": list(changes.files), "kinds": list(changes.kinds), "nulled": dict(changes.nulled)}


def _planned(record: Json) -> Planned:
    return Planned(record["table"], record["plan"], record.get("projection"), record.get("by"))


def _planned_json(planned: Planned, change: TableChange, *, first: bool) -> dict[str, Any]:
    record: dict[str, Any] = {"table": planned.table, "plan": planned.plan}
    if change.stopped is None:
        record["projection"] = planned.projection
        record |= {} if first else {"by": planned.by}
    return record


def _switch(record: Json) -> Switch:
    return Switch(
        record["table"],
        record["plan"],
        record.get("before", {}),
        record.get("projection"),
        record.get("before_projection"),
        _position(record.get("since")),
        joins="by" in record,
        by=record.get("by"),
        automatic=record.get("automatic"),
        is_given_up="given_up" in record,
    )


def _switch_json(switch: Switch) -> dict[str, Any]:
    return {
        "table": switch.table,
        "plan": switch.plan,
        "projection": switch.projection,
        **({"by": switch.by} if switch.joins else {}),
        "before": switch.before,
        "before_projection": switch.before_projection,
    }


def _resnapshot_json(switch: Switch) -> dict[str, Any]:
    automatic = {} if switch.automatic is None else {"automatic": switch.automatic}
    given_up = {"given_up": True} if switch.is_given_up else {}
    return {**_switch_json(switch), **automatic, **given_up, "since": _position_json(switch.since)}


def _due(record: Json) -> Due:
    return Due(record["at"], record["by"], ErrorRecord.from_json(record["why"]))


def _due_json(due: Due) -> dict[str, Any]:
    return {"at": due.at, "by": due.by, "why": _error_json(due.why)}


def _removal_json(removal: Removal) -> dict[str, Any]:
    return {"by": removal.by, "drop": removal.drop}


def _sink_change(record: Json | None) -> SinkRecord | SinkNews | None:
    if record is None:
        return None
    return _sink(record) if "type" in record else _sink_news(record)


def _sink_news(record: Json) -> SinkNews:
    return SinkNews(**_news_fields(record))


def _news_fields(record: Json) -> dict[str, Any]:
    """Those that a sink's record and its news both have."""
    stopped = ErrorRecord.from_json(record.get("stopped"))
    return {"applied": record.get("applied", {}), "stopped": stopped, "copied": frozenset(record.get("copied", ()))}


def _sink(record: Json) -> SinkRecord:
    return SinkRecord(
        record["type"],
        record["path"],
        record["id"],
        record["joined"],
        record["generations"],
        **_news_fields(record),
    )


def _sink_json(sink: SinkRecord | SinkNews | None) -> dict[str, Any] | None:
    if sink is None:
        return None
    own: dict[str, Any] = {}
    if isinstance(sink, SinkRecord):
        own = {"type": sink.type, "path": sink.path, "id": sink.id, "joined": sink.joined}
        own["generations"] = dict(sink.generations)
    news = {"copied": sorted(sink.copied) or None, "applied": _counts_by_table(sink.applied) or None}
    return own | _present({**news, "stopped": _error_json(sink.stopped)})


def state_from_json(record: Json) -> State:
    """A full state. Raises LedgerError if an earlier version wrote it, KeyError if it lacks a field."""
    return State(
        epoch=record["epoch"],
        ledger=record["ledger"],
        identity=record["identity"],
        position=position_from_dict(record["position"]),
        next_seq=record["next_seq"],
        tables=_tables(record.get("tables", {})),
        unknown=record.get("unknown", {}),
        largest=record.get("largest"),
        removed=_tables(record.get("removed", {})),
        terms=tuple((int(number), str(run)) for number, run in record.get("terms", ())),
        lineage=record.get("lineage", ""),
        floor=record.get("floor", -1),
        binlog_off=record.get("binlog_off", {}),
        sinks={name: _sink(sink) for name, sink in record.get("sinks", {}).items()},
        sink_places=record.get("sink_places", {}),
    )


def state_to_json(state: State) -> dict[str, Any]:
    """The inverse of `state_from_json`."""
    sinks = {name: _sink_json(sink) for name, sink in state.sinks.items()}
    return {
        "epoch": state.epoch,
        "ledger": state.ledger,
        "identity": state.identity,
        "position": state.position.as_dict(),
        "next_seq": state.next_seq,
        "unknown": dict(state.unknown),
        "largest": state.largest,
        "terms": [list(term) for term in state.terms],
        "lineage": state.lineage,
        "floor": state.floor,
        "binlog_off": dict(state.binlog_off),
        **_present({"sinks": sinks or None, "sink_places": dict(state.sink_places) or None}),
        "tables": {name: _table_json(table) for name, table in state.tables.items()},
        "removed": {name: _table_json(table) for name, table in state.removed.items()},
    }


def _tables(records: Json) -> dict[str, TableState]:
    return {name: _table(record) for name, record in records.items()}


def _table(record: Json) -> TableState:
    if "coverage" not in record:
        raise older_ledger()
    due, removed = record.get("due"), record.get("removed")
    return TableState(
        table=record["table"],
        plan=record["plan"],
        coverage=coverage_from_dict(record["coverage"]),
        rows_read=record["rows_read"],
        changes_applied=record["changes_applied"],
        nulled=record.get("nulled", {}),
        stopped=ErrorRecord.from_json(record["stopped"]),
        generation=record.get("generation", 0),
        projection=record.get("projection"),
        names=tuple(record.get("names", ())),
        since=_position(record.get("since")),
        by=record.get("by"),
        removed=None if removed is None else Removal(removed["by"], removed["drop"]),
        dropped=removed is not None and removed["dropped"],
        given_up=record.get("given_up", 0),
        applied=record.get("applied", {}),
        due=None if due is None else _due(due),
        resnapshots=tuple(record.get("resnapshots", ())),
    )


def _table_json(table: TableState) -> dict[str, Any]:
    removed = {**_removal_json(table.removed), "dropped": table.dropped} if table.removed is not None else None
    return {
        "table": table.table,
        "plan": table.plan,
        "coverage": table.coverage.as_dict(),
        "rows_read": table.rows_read,
        "changes_applied": table.changes_applied,
        "nulled": dict(table.nulled),
        "stopped": _error_json(table.stopped),
        "generation": table.generation,
        "names": list(table.names),
        "since": _position_json(table.since),
        "projection": table.projection,
        "by": table.by,
        "removed": removed,
        **({"given_up": table.given_up} if table.given_up else {}),
        "applied": dict(table.applied),
        "due": _due_json(table.due) if table.due is not None else None,
        "resnapshots": list(table.resnapshots),
    }

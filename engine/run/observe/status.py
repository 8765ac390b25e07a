"""What a pipeline is doing, from its files alone: ledger, journal and `runner.json`; works without a runner."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from engine import clock, processes
from engine.directory import Directory, find_runner, read_alerts, read_parked, read_standbys
from engine.ledger.state import State, TableState
from engine.ledger.store import Ledger
from engine.tail import tail

_TAIL_BYTES = 1 << 20
_MINUTE = timedelta(minutes=1)
_FRESH = timedelta(seconds=10)
"""A lag that was measured longer ago is not shown as the present one."""


def status(directory: Directory, name: str) -> dict[str, Any]:
    """The fields of `status --json` (docs/command-line.md)."""
    state = Ledger(directory.ledger).state
    runner = find_runner(directory)
    now = _now(runner)
    lag = last_event(directory, "source.lag") or {}
    live = runner is not None and runner["alive"] and lag.get("ts", "") >= clock.utc_text(now - _FRESH)
    position = f"{state.position['file']}:{state.position['offset']}" if state else None
    return {
        "pipeline": name,
        "state": _state(runner),
        "phase": _phase(runner, state),
        "position": position,
        "lag_s": lag.get("lag_s") if live else None,
        "lag_bytes": lag.get("lag_bytes") if live else None,
        "runway_s": lag.get("runway_s") if live else None,
        "measured": lag.get("ts"),
        "epoch": state.epoch if state else None,
        "heartbeat_age_s": runner["heartbeat_age_s"] if runner else None,
        "error": runner["error"] if runner else None,
        "disk_full": runner.get("disk_full") if runner and runner["alive"] else None,
        "helpers": runner.get("helpers", []) if runner and runner["alive"] else [],
        "waiting_for": (runner.get("waiting_for") or None) if runner and runner["alive"] else None,
        "away": runner.get("away") if runner and runner["alive"] else None,
        "controls": runner.get("controls") if runner else None,
        "commands": runner.get("commands", []) if runner and runner["alive"] else [],
        "alerts": read_alerts(directory),
        "term": state.term if state else None,
        "standby": read_standbys(directory),
        "log": _log(directory, state, lag if live else {}, now),
        "tables": _tables(directory, state, runner if runner and runner["alive"] else {}, now),
    }


def _now(runner: dict[str, Any] | None) -> datetime:
    """The present instant by the clock of the runner's machine, which stamps the journal; by this one's without a runner."""
    if runner is None or not runner["alive"]:
        return clock.utc_now()
    same = processes.age_s(runner.get("process") or {})
    return clock.parse_utc(runner["heartbeat"]) + timedelta(seconds=same or 0.0)


def _log(directory: Directory, state: State | None, lag: dict[str, Any], now: datetime) -> dict[str, Any]:
    """What the log is like.

    unknown_events: passed over since the pipeline began, as this version does not know them; should be 0. changes_per_s: by kind
    and by table, over the last minute; None when there is nothing of it.
    """
    since, until = clock.utc_text(now - _MINUTE), clock.utc_text(now + _FRESH)
    epochs = [e for e in recent_events(directory, "epoch.committed") if since <= e["ts"] <= until]
    kinds, tables = Counter[str](), Counter[str]()
    for epoch in epochs:
        kinds.update(epoch["kinds"])
        tables.update(epoch["tables"])
    seconds = _MINUTE.total_seconds()
    return {
        "unknown_events": sum(state.unknown.values()) if state else 0,
        "unknown": dict(state.unknown) if state else {},
        "largest_transaction": state.largest if state else None,
        "lag_percentiles_s": lag.get("percentiles"),
        "changes_per_s": {kind: round(count / seconds, 1) for kind, count in kinds.items()} if epochs else None,
        "changes_per_s_by_table": {name: round(count / seconds, 1) for name, count in tables.items()}
        if epochs
        else None,
    }


def _state(runner: dict[str, Any] | None) -> str:
    if runner is None:
        return "never started"
    if runner["state"] == "ended":
        return "failed" if runner["error"] else "stopped"
    return str(runner["state"]) if runner["alive"] else "lost"


def _phase(runner: dict[str, Any] | None, state: State | None) -> str:
    if state is None:
        return str(runner["phase"]) if runner else "starting"
    return "streaming" if state.copied else "snapshot"


def _tables(directory: Directory, state: State | None, runner: dict[str, Any], now: datetime) -> list[dict[str, Any]]:
    """parked: chunks that failed too often. reading: what has been read for the longest time, and for how long."""
    reading = {
        name: {**reading, "seconds": _age_s(reading["since"], now)}
        for name, reading in runner.get("reading", {}).items()
    }
    return [
        {
            "table": name,
            "state": table.state,
            "chunks_done": table.coverage.done,
            "chunks_total": table.chunks,
            "rows_read": table.rows_read,
            "changes_applied": table.changes_applied,
            "dates_nulled": table.nulled,
            "error": table.stopped["message"] if table.stopped and not table.removed else None,
            "hint": table.stopped["hint"] if table.stopped and not table.removed else None,
            "destination": _destination(table),
            "parked": _parked(directory, name, table),
            "reading": reading.get(name),
        }
        for name, table in ((*state.tables.items(), *state.removed.items()) if state else ())
    ]


def _destination(table: TableState) -> str | None:
    """What becomes of what was published of a table that was removed: kept, dropping or dropped; None for others."""
    if not table.removed:
        return None
    return "kept" if not table.removed["drop"] else "dropped" if table.removed["dropped"] else "dropping"


def _parked(directory: Directory, name: str, table: TableState) -> list[dict[str, Any]]:
    """Those that are still to be read."""
    pending = {} if table.stopped else {n: limits.as_list() for n, limits in table.coverage.pending.items()}
    chunks = [p for p in read_parked(directory) if p["table"] == name and pending.get(p["chunk"]) == p["limits"]]
    names = ("chunk", "lower", "upper", "error", "message", "hint", "attempts", "since")
    return [{field: parked[field] for field in names} for parked in chunks]


def _age_s(since: str, now: datetime) -> float:
    return round(max((now - clock.parse_utc(since)).total_seconds(), 0.0), 1)


def last_event(directory: Directory, event: str) -> dict[str, Any] | None:
    """The latest event of a kind in the newest journal's last megabyte; None when there is none."""
    journals = sorted(directory.journals.glob("*.jsonl"))
    if not journals:
        return None
    return next(_parsed(reversed(tail(journals[-1], _TAIL_BYTES).splitlines()), event), None)


def recent_events(directory: Directory, event: str) -> list[dict[str, Any]]:
    """All events of a kind in the newest journal's last megabyte, oldest first."""
    journals = sorted(directory.journals.glob("*.jsonl"))
    return list(_parsed(tail(journals[-1], _TAIL_BYTES).splitlines(), event)) if journals else []


def _parsed(lines: Iterable[str], event: str) -> Iterator[dict[str, Any]]:
    for line in lines:
        if f'"event": "{event}"' in line:
            with suppress(ValueError):  # the line is being written, or cut
                yield json.loads(line)

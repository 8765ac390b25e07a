"""A pipeline's status from its files alone: ledger, journal and `runner.json`. Works without a runner."""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from engine.alerting.acknowledgements import acknowledgement_of
from engine.alerting.silences import silence_of, silences
from engine.base import clock, processes
from engine.base.errors import NewerFormatError
from engine.decode.images import KINDS
from engine.destination.unpublished import Lacking
from engine.explore.table_facts import facts_of, lacking_now
from engine.journal import entry_from
from engine.journal.event_fields import without_redumps
from engine.journal.events import EpochCommitted, Event, LagMeasured, SpaceMeasured
from engine.journal.parts import newest_lines
from engine.ledger.state import State, TableState
from engine.ledger.store import Ledger
from engine.pipeline.command_queue import waiting_commands
from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import find_runner
from engine.pipeline.saved_lists import read_alerts, read_parked, read_standbys
from engine.pipeline.table_verdict import State as VerdictState
from engine.pipeline.table_verdict import TableFacts, verdict_of
from engine.pipeline.verifications import LastAudit, read_audit
from engine.spec.sink_settings import Merging, Sink
from engine.spec.verify_settings import Verify
from engine.watch.watch_status import as_status

_TAIL_BYTES = 1 << 20
_MINUTE = timedelta(minutes=1)
E = TypeVar("E", bound=Event)
_FRESH = timedelta(seconds=10)
"""An older lag measurement is not shown as current."""


class ParkedChunk(TypedDict):
    """A parked chunk: it failed too often."""

    chunk: int
    lower: str | None
    upper: str | None
    error: str
    message: str
    hint: str
    attempts: int
    since: str


class Reading(TypedDict):
    """The longest-running read of a table."""

    chunks: list[int]
    since: str
    seconds: float
    rows: int
    """Rows read so far of the table's chunks that are being read."""


class TableVerification(TypedDict):
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


class TableStatus(TypedDict):
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
    parked: list[ParkedChunk]
    reading: Reading | None
    mirror: Merging | None
    """How changes are merged into its mirror; None without a mirror."""
    verification: TableVerification | None
    """None for a removed table."""
    lacks_since: str | None
    """Since when its destination has lacked committed changes, if that is longer than half a minute: UTC text."""
    due: str | None
    """Why it will be resnapshotted, if that was decided and has not begun yet."""


class BinlogStatus(TypedDict):
    """Facts about the binlog."""

    unknown_events: int
    """Events skipped since the pipeline began, because this version does not know them. It should be 0."""
    unknown: dict[str, int]
    largest_transaction: Mapping[str, Any] | None
    lag_percentiles_s: Mapping[str, float] | None
    changes_per_s: dict[str, float] | None
    """By kind, over the last minute; None without changes."""
    changes_per_s_by_table: dict[str, float] | None


class DiskStatus(TypedDict):
    """The destination's disk, as last measured in this run."""

    measured: str
    free_bytes: int
    total_bytes: int
    growth_per_day: float | None
    """Bytes a day, by the last day; None before an hour was measured."""
    full_in_s: float | None
    """When the disk is full at this growth; None if it does not grow."""


class Status(TypedDict):
    """The output of `status --json` (docs/command-line.md).

    Facts that only a live runner knows are None without one.
    """

    pipeline: str
    state: str
    phase: str
    position: str | None
    """The committed position: `file:offset`."""
    lag_s: float | None
    lag_bytes: int | None
    runway_s: float | None
    """Seconds until the source purges the committed position."""
    mirror_age_s: float | None
    """For how long the oldest change that a mirror lacks has been in the change log."""
    mirror_oldest: str | None
    """The table of that mirror."""
    measured: str | None
    """When the lag was measured: UTC text."""
    epoch: int | None
    heartbeat_age_s: float | None
    error: Mapping[str, Any] | None
    disk_full: str | None
    helpers: list[dict[str, Any]]
    waiting_for: str | None
    away: Mapping[str, Any] | None
    source: Mapping[str, Any] | None
    """When the source was last compared with the run's beginning, and what has changed since: `compared`, `facts`,
    `changes`."""
    blocked: list[dict[str, Any]]
    """The reads that wait for a lock on the source, by table: the fields of the event `source.blocked`."""
    controls: Mapping[str, Any] | None
    commands: list[dict[str, Any]]
    alerts: list[dict[str, Any]]
    """Each with `acknowledged` and `silenced`: who and why; null if nobody."""
    silences: list[dict[str, Any]]
    """Those in force (`engine.alerting.silences`)."""
    disk: DiskStatus | None
    queue: list[dict[str, Any]]
    """The commands that wait while no runner is alive (`engine.pipeline.command_queue`)."""
    watch: Mapping[str, Any] | None
    """What the watchdog does about a runner that is gone: `due`, `down` and `restarts_within_hour`; None if nothing."""
    term: int | None
    standby: list[dict[str, Any]]
    log: BinlogStatus
    last_audit: LastAudit | None
    """The runner's last audit of a random part of the change logs (`verify.audit`)."""
    sizes: dict[str, int]
    """Bytes of the pipeline's own files: `ledger`, `journal`, `maintenance`, `runner_log`."""
    tables: list[TableStatus]


def status(
    directory: Directory,
    name: str,
    verify: Verify = Verify(),  # noqa: B008 - immutable
    sink: Sink | None = None,
    *,
    copies: bool = True,
) -> Status:
    """The status of a pipeline, from its files.

    verify: how often its spec has it verified. sink: its destination. copies: whether it copies tables
    (`source.startup`).
    """
    ledger = Ledger(directory.ledger)
    state = ledger.state
    runner = find_runner(directory)
    now = _now(runner)
    lacks = lacking_now(ledger, sink, now)
    facts = facts_of(directory, state, lacks, copies=copies)
    measured, lag = last_event(directory, LagMeasured) or (None, None)
    live = runner is not None and runner["alive"] and (measured or "") >= clock.utc_text(now - _FRESH)
    current = lag if live else None
    position = f"{state.position['file']}:{state.position['offset']}" if state else None
    return {
        "pipeline": name,
        "state": _state(runner),
        "phase": _phase(runner, state),
        "position": position,
        "lag_s": current.lag_s if current else None,
        "lag_bytes": current.lag_bytes if current else None,
        "runway_s": current.runway_s if current else None,
        "mirror_age_s": current.mirror_age_s if current else None,
        "mirror_oldest": current.mirror_oldest if current else None,
        "measured": measured,
        "epoch": state.epoch if state else None,
        "heartbeat_age_s": runner["heartbeat_age_s"] if runner else None,
        "error": runner["error"] if runner else None,
        "disk_full": runner.get("disk_full") if runner and runner["alive"] else None,
        "helpers": runner.get("helpers", []) if runner and runner["alive"] else [],
        "waiting_for": (runner.get("waiting_for") or None) if runner and runner["alive"] else None,
        "away": runner.get("away") if runner and runner["alive"] else None,
        "source": runner.get("source") if runner and runner["alive"] else None,
        "blocked": runner.get("blocked", []) if runner and runner["alive"] else [],
        "controls": runner.get("controls") if runner else None,
        "commands": runner.get("commands", []) if runner and runner["alive"] else [],
        "alerts": [_alert(directory, alert) for alert in read_alerts(directory)],
        "silences": [asdict(one) for one in silences(directory)],
        "disk": _disk(directory),
        "queue": [] if runner and runner["alive"] else [asdict(one) for one in waiting_commands(directory)],
        "watch": as_status(directory, runner),
        "term": state.term if state else None,
        "standby": read_standbys(directory),
        "log": _log(directory, state, current, now),
        "last_audit": read_audit(directory),
        "sizes": _sizes(directory),
        "tables": _tables(
            directory, state, runner if runner and runner["alive"] else {}, now, verify.period_s, lacks, facts
        ),
    }


def _alert(directory: Directory, alert: Mapping[str, Any]) -> dict[str, Any]:
    """An active alert, with who takes care of it and who has silenced it."""
    silence = silence_of(directory, alert)
    silenced = (
        {"id": silence.id, "actor": silence.actor, "reason": silence.reason, "until": silence.until}
        if silence
        else None
    )
    own = {name: value for name, value in alert.items() if name not in ("held", "changed", "routes")}
    return {**own, "acknowledged": _acknowledged(directory, alert), "silenced": silenced}


def _acknowledged(directory: Directory, alert: Mapping[str, Any]) -> dict[str, str] | None:
    """Who takes care of an alert: actor, time and note; None if nobody has said so, or if that cannot be read."""
    try:
        found = acknowledgement_of(directory, alert)
    except NewerFormatError:
        return None
    return {"actor": found.actor, "at": found.at, "note": found.note} if found else None


def _disk(directory: Directory) -> DiskStatus | None:
    found = last_event(directory, SpaceMeasured)
    if found is None:
        return None
    measured, space = found
    return {
        "measured": measured,
        "free_bytes": space.free_bytes,
        "total_bytes": space.total_bytes,
        "growth_per_day": space.growth_per_day,
        "full_in_s": space.full_in_s,
    }


def _sizes(directory: Directory) -> dict[str, int]:
    """The bytes that the pipeline's own files hold, by kind."""
    parts = {"ledger": directory.ledger, "journal": directory.journals, "maintenance": directory.maintenance}
    sizes = {name: _bytes(folder) for name, folder in parts.items()}
    return {**sizes, "runner_log": _bytes(directory.root, directory.log.name)}


def _bytes(folder: Path, prefix: str | None = None) -> int:
    """The bytes of all files below a folder; or of those in it whose names begin with a prefix."""
    size = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # it was removed a moment ago
                if entry.is_dir(follow_symlinks=False):
                    size += 0 if prefix is not None else _bytes(Path(entry.path))
                elif prefix is None or entry.name.startswith(prefix):
                    size += entry.stat().st_size
    return size


def _now(runner: dict[str, Any] | None) -> datetime:
    """The current time by the clock that stamps the journal, the runner's; by the local clock without a runner."""
    if runner is None or not runner["alive"]:
        return clock.utc_now()
    same = processes.age_s(runner.get("process") or {})
    return clock.parse_utc(runner["heartbeat"]) + timedelta(seconds=same or 0.0)


def _log(directory: Directory, state: State | None, lag: LagMeasured | None, now: datetime) -> BinlogStatus:
    since, until = clock.utc_text(now - _MINUTE), clock.utc_text(now + _FRESH)
    epochs = [event for ts, event in recent_events(directory, EpochCommitted, since) if ts <= until]
    kinds, tables = Counter[str](), Counter[str]()
    for epoch in epochs:
        for name, counts in without_redumps(epoch.table_kinds, epoch.redumped).items():
            kinds.update(dict(zip(KINDS, counts, strict=True)))
            tables[name] += sum(counts)
    seconds = _MINUTE.total_seconds()
    return {
        "unknown_events": sum(state.unknown.values()) if state else 0,
        "unknown": dict(state.unknown) if state else {},
        "largest_transaction": state.largest if state else None,
        "lag_percentiles_s": lag.percentiles if lag else None,
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


def _tables(
    directory: Directory,
    state: State | None,
    runner: dict[str, Any],
    now: datetime,
    period_s: float,
    lacks: Mapping[str, Lacking],
    facts: Mapping[str, TableFacts],
) -> list[TableStatus]:
    reading: dict[str, Reading] = {
        name: {
            "chunks": one["chunks"],
            "since": one["since"],
            "seconds": _age_s(one["since"], now),
            "rows": one.get("rows", 0),
        }
        for name, one in runner.get("reading", {}).items()
    }
    parked = defaultdict[str, list[Mapping[str, Any]]](list)
    for chunk in read_parked(directory):
        parked[chunk["table"]].append(chunk)
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
            "parked": _parked(parked[name], table),
            "reading": reading.get(name),
            "mirror": table.plan.get("mirror"),
            "verification": None if table.removed else _verification(facts[name], period_s, now),
            "lacks_since": lacks[name].since if name in lacks else None,
            "due": _due(table),
        }
        for name, table in ((*state.tables.items(), *state.removed.items()) if state else ())
    ]


def _verification(facts: TableFacts, period_s: float, now: datetime) -> TableVerification:
    summary, verdict = facts.summary, verdict_of(facts, period_s, now.timestamp())
    return {
        "state": verdict.state,
        "why": f"{verdict.why} since {verdict.since[:19]}Z" if verdict.since else verdict.why,
        "at": (summary["at"] or None) if summary else None,
        "position": summary["position"] if summary else None,
        "version": summary["version"] if summary else None,
        "differences": verdict.differences,
        "readable": verdict.broken is None,
    }


def _due(table: TableState) -> str | None:
    """Why a table will be resnapshotted; None if it will not."""
    if table.due is None or table.removed:
        return None
    return table.due["why"]["message"] if table.due["why"] else "an operator asked for it"


def _destination(table: TableState) -> str | None:
    """The state of a removed table's destination: kept, dropping or dropped; None for other tables."""
    if not table.removed:
        return None
    return "kept" if not table.removed["drop"] else "dropped" if table.removed["dropped"] else "dropping"


def _parked(parked: Sequence[Mapping[str, Any]], table: TableState) -> list[ParkedChunk]:
    """The table's parked chunks that are still pending."""
    pending = {} if table.stopped else {n: limits.as_list() for n, limits in table.coverage.pending.items()}
    chunks = [p for p in parked if pending.get(p["chunk"]) == p["limits"]]
    return [
        {
            "chunk": p["chunk"],
            "lower": p["lower"],
            "upper": p["upper"],
            "error": p["error"],
            "message": p["message"],
            "hint": p["hint"],
            "attempts": p["attempts"],
            "since": p["since"],
        }
        for p in chunks
    ]


def _age_s(since: str, now: datetime) -> float:
    return round(max((now - clock.parse_utc(since)).total_seconds(), 0.0), 1)


def last_event(directory: Directory, kind: type[E]) -> tuple[str, E] | None:
    """The latest event of a kind in the newest journal's last megabyte, with its time; None without one."""
    return next(_parsed(reversed(newest_lines(directory.journals, _TAIL_BYTES)), kind), None)


def recent_events(directory: Directory, kind: type[E], since: str) -> list[tuple[str, E]]:
    """The events of a kind in the newest journal's last megabyte from this time on, with their times, newest first."""
    newest_first = _parsed(reversed(newest_lines(directory.journals, _TAIL_BYTES)), kind)
    return list(takewhile(lambda found: found[0] >= since, newest_first))


def _parsed(lines: Iterable[str], kind: type[E]) -> Iterator[tuple[str, E]]:
    for line in lines:
        if f'"event": "{kind.NAME}"' in line:
            with suppress(ValueError, KeyError, AttributeError):  # the line is incomplete
                entry = entry_from(json.loads(line))
                if entry and isinstance(entry.event, kind):
                    yield entry.ts, entry.event

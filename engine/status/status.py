"""A pipeline's status from its files alone: ledger, journal and `runner.json`. Works without a runner."""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

from engine.alerting.acknowledgements import acknowledgement_of
from engine.alerting.silences import silence_of, silences
from engine.base import clock, processes
from engine.base.errors import NewerFormatError
from engine.base.json_records import record_from, records_from
from engine.base.wording import utc_time
from engine.decode.schema import KINDS
from engine.destination.missing_epochs import MissingEpochs
from engine.explore.table_facts import facts_of, lacking_now, store_is_out
from engine.journal import entry_from
from engine.journal.destination_events import SpaceMeasured
from engine.journal.event_fields import without_redumps
from engine.journal.events import EpochCommitted, Event, LagMeasured
from engine.journal.parts import newest_lines, runs_in
from engine.ledger.state import State, TableState
from engine.ledger.store import Ledger
from engine.pipeline.active_alert import Alert, present_alerts
from engine.pipeline.command_queue import waiting_commands
from engine.pipeline.directory import Directory
from engine.pipeline.known_lag import is_current, known_lag
from engine.pipeline.runner_file import find_runner
from engine.pipeline.runner_record import RunnerRecord, SinkProgress
from engine.pipeline.saved_lists import ParkedRead, read_alerts, read_parked, read_standbys
from engine.pipeline.table_verdict import TableFacts, verdict_of
from engine.pipeline.verifications import read_audit
from engine.spec.sink_settings import Sink, is_read_back
from engine.spec.verify_settings import Verify
from engine.status.status_records import (
    AlertOwner,
    AlertSilence,
    AlertStatus,
    BinlogStatus,
    DiskStatus,
    FileSizes,
    LongestReading,
    ParkedChunk,
    Status,
    TableStatus,
    TableVerification,
)
from engine.watch.watch_status import as_status

_TAIL_BYTES = 1 << 20
_RUNS = 50
"""Runs whose journals are searched for the latest lag: most of a series of failed starts."""
_MINUTE = timedelta(minutes=1)
E = TypeVar("E", bound=Event)
_AHEAD = timedelta(seconds=10)
"""By which another host's clock may be ahead."""


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
    alive = runner if runner is not None and runner.responds else None
    unwritten = alive.write_outage if alive else None
    now = _now(runner)
    lacks = {} if store_is_out(runner) else lacking_now(ledger, sink, now)
    facts = facts_of(directory, state, lacks, copies=copies, mirrors=sink is None or is_read_back(sink))
    measured, lag = _last_lag(directory) or (None, None)
    followed, age_s = alive is not None and alive.away is None, _measured_ago_s(measured, now)
    current = lag if age_s is not None and is_current(age_s, followed=alive is not None) else None
    followed_lag = current if followed else None
    lag_now = known_lag(lag.lag_s if lag else None, age_s, followed=followed)
    return Status(
        pipeline=name,
        state=_state(runner),
        phase=_phase(runner, state),
        position=str(state.position) if state else None,
        lag_s=followed_lag.lag_s if followed_lag else None,
        lag_at_most_s=lag_now.seconds if lag_now.at_most else None,
        lag_position=followed_lag.position if followed_lag else None,
        lag_bytes=followed_lag.lag_bytes if followed_lag else None,
        runway_s=current.runway_s if current else None,
        mirror_age_s=current.mirror_age_s if current else None,
        mirror_oldest=current.mirror_oldest if current else None,
        measured=measured,
        epoch=state.epoch if state else None,
        heartbeat_age_s=runner.heartbeat_age_s if runner else None,
        frozen=runner.frozen if runner else None,
        unseen=runner.unseen if runner else None,
        error=runner.error if runner else None,
        disk_full=unwritten.reason if unwritten and unwritten.cause == "disk" else None,
        write_outage=unwritten,
        helpers=alive.helpers if alive else (),
        sinks=(alive.sinks if alive else ()) or _sinks(state),
        waiting_for=(alive.waiting_for or None) if alive else None,
        away=alive.away if alive else None,
        source=alive.source if alive else None,
        blocked=alive.blocked if alive else (),
        controls=runner.controls if runner else None,
        commands=runner.commands if runner else (),
        alerts=_alerts(directory, runner),
        silences=tuple(silences(directory)),
        disk=_disk(directory),
        queue=() if alive else tuple(waiting_commands(directory)),
        watch=as_status(directory, runner),
        term=state.term if state else None,
        standby=tuple(read_standbys(directory)),
        log=_log(directory, state, current, followed_lag, now),
        last_audit=read_audit(directory),
        sizes=_sizes(directory),
        tables=_tables(directory, state, alive, now, verify.period_s, lacks, facts),
    )


def _sinks(state: State | None) -> tuple[SinkProgress, ...]:
    """The further sinks, by the ledger."""
    return tuple(
        SinkProgress.waiting(name, sink.type, sink.path, sink.stopped.message if sink.stopped else None)
        for name, sink in (state.sinks if state else {}).items()
    )


def _alerts(directory: Directory, runner: RunnerRecord | None) -> tuple[AlertStatus, ...]:
    alive, frozen = (runner.alive, runner.frozen is not None) if runner else (False, False)
    alerts = present_alerts(read_alerts(directory), alive=alive, frozen=frozen)
    return tuple(_alert(directory, alert) for alert in alerts)


def _alert(directory: Directory, alert: Alert) -> AlertStatus:
    """An active alert, with who takes care of it and who has silenced it."""
    silence = silence_of(directory, alert)
    silenced = AlertSilence(silence.id, silence.actor, silence.reason, silence.until) if silence else None
    status = record_from(AlertStatus, alert.to_json()) or AlertStatus()
    return replace(status, acknowledged=_acknowledged(directory, alert), silenced=silenced)


def _acknowledged(directory: Directory, alert: Alert) -> AlertOwner | None:
    """Who takes care of an alert; None if nobody has said so, or if that cannot be read."""
    try:
        acknowledgement = acknowledgement_of(directory, alert)
    except NewerFormatError:
        return None
    return AlertOwner(acknowledgement.actor, acknowledgement.at, acknowledgement.note) if acknowledgement else None


def _disk(directory: Directory) -> DiskStatus | None:
    measurement = last_event(directory, SpaceMeasured)
    if measurement is None:
        return None
    measured, space = measurement
    return DiskStatus(
        measured, space.folder, space.free_bytes, space.total_bytes, space.growth_per_day, space.full_in_s
    )


def _sizes(directory: Directory) -> FileSizes:
    return FileSizes(
        ledger=_bytes(directory.ledger),
        journal=_bytes(directory.journals),
        maintenance=_bytes(directory.maintenance),
        runner_log=_bytes(directory.root, directory.log.name),
    )


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


def _now(runner: RunnerRecord | None) -> datetime:
    """The current time by the clock that stamps the journal, the runner's; by the local clock without a runner."""
    if runner is None or not runner.alive:
        return clock.utc_now()
    same = processes.age_s(runner.process)
    return clock.parse_utc(runner.heartbeat) + timedelta(seconds=same or 0.0)


def _measured_ago_s(measured: str | None, now: datetime) -> float | None:
    return None if measured is None else (now - clock.parse_utc(measured)).total_seconds()


def _log(
    directory: Directory, state: State | None, lag: LagMeasured | None, followed: LagMeasured | None, now: datetime
) -> BinlogStatus:
    """followed: the lag, if a run follows the source now."""
    since, until = clock.utc_text(now - _MINUTE), clock.utc_text(now + _AHEAD)
    epochs = [event for ts, event in recent_events(directory, EpochCommitted, since) if ts <= until]
    kinds, tables = Counter[str](), Counter[str]()
    for epoch in epochs:
        for name, counts in without_redumps(epoch.table_kinds, epoch.redumped).items():
            kinds.update(dict(zip(KINDS, counts, strict=True)))
            tables[name] += sum(counts)
    seconds = _MINUTE.total_seconds()
    return BinlogStatus(
        unknown_events=sum(state.unknown.values()) if state else 0,
        unknown=dict(state.unknown) if state else {},
        largest_transaction=state.largest if state else None,
        lag_percentiles_s=lag.percentiles if lag else None,
        log_freshness_s=followed.log_freshness if followed else None,
        mirror_freshness_s=followed.mirror_freshness if followed else None,
        changes_per_s={kind: round(count / seconds, 1) for kind, count in kinds.items()} if epochs else None,
        changes_per_s_by_table={name: round(count / seconds, 1) for name, count in tables.items()} if epochs else None,
    )


def _state(runner: RunnerRecord | None) -> str:
    if runner is None:
        return "never started"
    if runner.state == "ended":
        return "failed" if runner.error else "stopped"
    if runner.frozen is not None:
        return "frozen"
    return runner.state if runner.alive else "lost"


def _phase(runner: RunnerRecord | None, state: State | None) -> str:
    if state is None:
        return str(runner.phase) if runner else "starting"
    return "streaming" if state.copied else "snapshot"


def _tables(
    directory: Directory,
    state: State | None,
    alive: RunnerRecord | None,
    now: datetime,
    period_s: float,
    lacks: Mapping[str, MissingEpochs],
    facts: Mapping[str, TableFacts],
) -> tuple[TableStatus, ...]:
    reading = {
        name: LongestReading(one.chunks, one.since, _age_s(one.since, now), one.rows)
        for name, one in (alive.reading.items() if alive else ())
    }
    parked = defaultdict[str, list[ParkedRead]](list)
    for chunk in read_parked(directory):
        parked[chunk.table].append(chunk)
    return tuple(
        TableStatus(
            table=name,
            state=table.state,
            chunks_done=table.coverage.done,
            chunks_total=table.chunks,
            rows_read=table.rows_read,
            changes_applied=table.changes_applied,
            dates_nulled=table.nulled,
            error=table.stopped.message if table.stopped and not table.removed else None,
            hint=table.stopped.hint if table.stopped and not table.removed else None,
            destination=table.removed_files,
            parked=_parked(parked[name], table),
            reading=reading.get(name),
            mirror=table.plan.get("mirror"),
            verification=None if table.removed else _verification(facts[name], period_s, now),
            lacks_since=lacks[name].since if name in lacks else None,
            due=_due(table),
        )
        for name, table in ((*state.tables.items(), *state.removed.items()) if state else ())
    )


def _verification(facts: TableFacts, period_s: float, now: datetime) -> TableVerification:
    summary, verdict = facts.summary, verdict_of(facts, period_s, now.timestamp())
    return TableVerification(
        state=verdict.state,
        why=f"{verdict.why} since {utc_time(verdict.since)}" if verdict.since else verdict.why,
        at=(summary.at or None) if summary else None,
        position=summary.position if summary else None,
        version=summary.version if summary else None,
        differences=verdict.differences,
        readable=verdict.broken is None,
    )


def _due(table: TableState) -> str | None:
    """Why a table will be resnapshotted; None if it will not."""
    if table.due is None or table.removed:
        return None
    return table.due.why.message if table.due.why else "an operator asked for it"


def _parked(parked: Sequence[ParkedRead], table: TableState) -> tuple[ParkedChunk, ...]:
    """The table's parked chunks that are still pending."""
    pending = {} if table.stopped else {n: limits.as_list() for n, limits in table.coverage.pending.items()}
    return records_from(ParkedChunk, [asdict(p) for p in parked if pending.get(p.chunk) == p.limits])


def _age_s(since: str, now: datetime) -> float:
    return round(max((now - clock.parse_utc(since)).total_seconds(), 0.0), 1)


def _last_lag(directory: Directory) -> tuple[str, LagMeasured] | None:
    """The latest measurement, also one of an earlier run: a run that failed at its start has none."""
    for run in reversed(runs_in(directory.journals)[-_RUNS:]):
        lines = reversed(newest_lines(directory.journals, _TAIL_BYTES, run))
        if measurement := next(_parsed(lines, LagMeasured), None):
            return measurement
    return None


def last_event(directory: Directory, kind: type[E]) -> tuple[str, E] | None:
    """The latest event of a kind in the newest journal's last megabyte, with its time; None without one."""
    return next(_parsed(reversed(newest_lines(directory.journals, _TAIL_BYTES)), kind), None)


def recent_events(directory: Directory, kind: type[E], since: str) -> list[tuple[str, E]]:
    """The events of a kind in the newest journal's last megabyte from this time on, with their times, newest first."""
    newest_first = _parsed(reversed(newest_lines(directory.journals, _TAIL_BYTES)), kind)
    return list(takewhile(lambda entry: entry[0] >= since, newest_first))


def _parsed(lines: Iterable[str], kind: type[E]) -> Iterator[tuple[str, E]]:
    for line in lines:
        if f'"event": "{kind.NAME}"' in line:
            with suppress(ValueError, KeyError, AttributeError):  # the line is incomplete
                entry = entry_from(json.loads(line))
                if entry and isinstance(entry.event, kind):
                    yield entry.ts, entry.event

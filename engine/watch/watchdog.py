"""The watchdog announces runners that were lost or do not respond, and restarts lost ones if their spec asks for it.

The console has one, and so has `tidemark watch`. Several may look at one pipeline: `watch.record.alone` lets one of
them decide, and the record has what the others did. If two of them start a runner all the same, the second one meets
the pipeline's lock, and ends with exit code 5.
"""

import json
import socket
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from pathlib import Path

from engine.base import clock, processes
from engine.base.errors import PipelineHeldError, TidemarkError
from engine.base.redaction import redact
from engine.base.wording import utc_time
from engine.journal.parts import parts_in
from engine.journal.watch_events import RunnerRestarted, RunnerStaysDown
from engine.pipeline.active_alert import WATCHED_KINDS
from engine.pipeline.directory import Directory
from engine.pipeline.frozen_runner import FrozenRunner
from engine.pipeline.launch import launch
from engine.pipeline.remote_state.operator_copy import is_current
from engine.pipeline.runner_file import read_runner, surely_gone
from engine.pipeline.runner_record import RunnerRecord
from engine.pipeline.saved_lists import read_standbys
from engine.spec.settings import Spec, load
from engine.watch.announcing import Announcer
from engine.watch.own_alerts import OwnAlerts, Subject, WatchReport, journalled, unsent
from engine.watch.record import Restart, WatchRecord, WatchRecords, alone
from engine.watch.restart_rules import (
    HOUR_S,
    Death,
    after_code,
    asked_to_stop,
    death_of,
    delay_s,
    limit_reached,
    not_mendable,
)
from engine.watch.stop_requests import waiting_stop

_BACK, _ENDED = "The runner is alive: its heartbeat is back.", "The run was not lost: it has ended by itself."
_GONE = "The process that did not respond has ended."
_ENDING_S = 30.0
"""How long a run that has reported its end may take to end its process."""
_UNSEEN_S = 60.0
"""A launched runner whose process cannot be seen from here counts as failed after this long without a heartbeat."""
_HELD = PipelineHeldError.exit_code
_SURE_S = 2.5
"""How long a runner on another machine must look gone: only clocks and two looks at its heartbeat tell."""


@dataclass(frozen=True)
class _Case:
    """A run that needs the watchdog."""

    about: Subject
    death: Death
    since_s: float
    """When this watchdog first saw it, on the monotonic clock."""

    @property
    def where(self) -> Directory:
        return self.about.where

    @property
    def spec(self) -> Spec:
        return self.about.spec

    @property
    def name(self) -> str:
        return self.about.name


class Watchdog:
    """Looks at pipelines. Not thread-safe."""

    def __init__(self, pipelines: Callable[[], Iterable[Directory]], report: WatchReport) -> None:
        self._pipelines = pipelines
        self._report = report
        self._seen: dict[tuple[Path, str], float] = {}
        self._launched: dict[Path, subprocess.Popen[bytes]] = {}
        self._problems: dict[Path, str] = {}
        self._records = WatchRecords()
        self._announcer = Announcer(self._records)
        self._alerts = OwnAlerts(self._announcer, report)

    def look(self) -> None:
        """Look at every pipeline once. A problem with one is reported once, and does not concern the others."""
        for where in filter(is_current, self._pipelines()):  # of an old copy nothing can be said
            try:
                self._look_at(where)
                self._problems.pop(where.root, None)
            except Exception as problem:  # noqa: BLE001 - a pipeline that cannot be read must not hide the others
                text = redact(
                    problem.message if isinstance(problem, TidemarkError) else f"{type(problem).__name__}: {problem}"
                )
                if self._problems.get(where.root) != text:
                    self._report(where.root.name, f"cannot be watched: {text}")
                self._problems[where.root] = text

    def close(self) -> None:
        """Wait some seconds for alerts that are being posted. Runners live on."""
        self._announcer.close()

    def _look_at(self, where: Directory) -> None:
        runner = read_runner(where)
        death = death_of(runner)
        if runner is None or death is None:
            self._forget(where)
            if runner is not None:
                self._not_lost(where, runner)
            return
        since_s = self._seen.setdefault((where.root, death.run), clock.monotonic_s())
        elsewhere = processes.age_s(runner.process) is None
        if _ending(runner) and clock.monotonic_s() - since_s < _ENDING_S:
            return
        if death.lost and elsewhere and clock.monotonic_s() - since_s < _SURE_S:
            return
        spec = _spec_of(where.spec, where.spec.stat().st_mtime_ns)
        with alone(where) as decides:
            if not decides or read_runner_id(where) != death.run:
                return
            earlier = self._records.read(where)
            record = _of_run(earlier, death.run)
            case = _Case(Subject(where, spec, runner), death, since_s)
            after = self._announced(case, record)
            if surely_gone(runner):
                after = self._alerts.released(case.about, after)
            # Elsewhere, a watchdog of that host acts; or this one, when no standby runner waits any more.
            if not self._elsewhere(case):
                after = self._act(case, after)
            if after != earlier:
                self._records.write(where, after)
            if after.down:
                self._answered(case, after)
        self._announcer.post(where, spec)
        self._records.save_again(where)

    def _announce_frozen(self, where: Directory, runner: RunnerRecord, frozen: FrozenRunner) -> None:
        """Raise the alert about a process that does not respond. It holds the pipeline's lock: no other is started."""
        about = Subject(where, _spec_of(where.spec, where.spec.stat().st_mtime_ns), runner)
        with alone(where) as decides:
            if decides and runner.run == read_runner_id(where):
                earlier = self._records.read(where)
                record = _of_run(earlier, runner.run)
                after = self._alerts.raised(about, record, "runner_frozen", frozen.message, frozen.since)
                if after != earlier:
                    self._records.write(where, after)
        self._announcer.post(where, about.spec)

    def _not_lost(self, where: Directory, runner: RunnerRecord) -> None:
        """Clear what stands about a run that is alive after all, or has ended as asked: its heartbeat was only late.

        If its process does not respond, announce that instead.

        Messages that a route has not taken yet are posted, whichever run is alive.
        """
        if runner.frozen is not None:
            self._announce_frozen(where, runner, runner.frozen)
            return
        earlier = self._records.read(where)
        stands = earlier.run == runner.run and bool(earlier.alerts or earlier.due or earlier.down)
        owes_messages = not runner.alive and unsent(where)
        if _ending(runner) or not (stands or earlier.unposted or owes_messages):
            return
        about = Subject(where, _spec_of(where.spec, where.spec.stat().st_mtime_ns), runner)
        message = _BACK if runner.alive else _ENDED
        with alone(where) as decides:
            earlier = self._records.read(where)
            if decides and runner.run == read_runner_id(where):
                record = earlier
                if earlier.run == runner.run:
                    record = replace(self._alerts.cleared(about, earlier, WATCHED_KINDS, message), due="", down="")
                if owes_messages:
                    record = self._alerts.released(about, record)
                if record != earlier:
                    self._records.write(where, record)
        self._announcer.post(where, about.spec)

    def _forget(self, where: Directory) -> None:
        for key in [key for key in self._seen if key[0] == where.root]:
            del self._seen[key]
        child = self._launched.get(where.root)
        if child is not None and child.poll() is not None:  # else it would stay a zombie
            del self._launched[where.root]

    def _announced(self, case: _Case, record: WatchRecord) -> WatchRecord:
        """With the alert about a lost runner, or without it if the run has sent its end after all."""
        record = self._alerts.cleared(case.about, record, ("runner_frozen",), _GONE)
        if not case.death.lost:
            return self._alerts.cleared(case.about, record, ("runner_lost",), _ENDED)
        one, at = case.death, case.death.last_seen
        process = f"its process {one.pid} on {one.host} is gone"
        if not surely_gone(case.about.runner):
            process = f"it was process {one.pid} on {one.host}"
        message = f"The runner has sent no heartbeat since {utc_time(at)}: {process}."
        if (unseen := case.about.runner.unseen) is not None:
            message = unseen.message
        return self._alerts.raised(case.about, record, "runner_lost", message, at)

    def _act(self, case: _Case, record: WatchRecord) -> WatchRecord:
        """Restart the runner, or note when that will be, or why it stays down."""
        unwanted = case.spec.watch.restart == "never" or asked_to_stop(case.about.runner)
        if unwanted or record.down:
            return replace(record, due="", down="" if unwanted else record.down)
        attempt = next((one for one in reversed(record.restarts) if one.run == case.death.run), None)
        if attempt is not None:
            record, attempt = self._looked_after(case, record, attempt)
            if attempt.starting or (attempt.starting is None and attempt.age_s < _UNSEEN_S):
                return replace(record, due="")  # it obeys a stop by itself
        stop = waiting_stop(case.where, record, case.death.run)
        if why := not_mendable(case.death) or (stop.why if stop else ""):
            return self._left_down(case, record, why)
        if attempt is None:
            return self._once_due(case, record, case.since_s)
        if attempt.code is not None and (why := after_code(attempt.code)):
            return self._left_down(case, record, f"the runner ended at once with {why}", alert=attempt.code != _HELD)
        return self._once_due(case, record, max(case.since_s, clock.monotonic_s() - attempt.age_s))

    def _once_due(self, case: _Case, record: WatchRecord, since_s: float) -> WatchRecord:
        """Restart the runner if the pause since the last failure is over, and the limit allows it."""
        settings, within_hour = case.spec.watch, sum(one.age_s < HOUR_S for one in record.restarts)
        if why := limit_reached(settings, within_hour):
            return self._left_down(case, record, why, alert=True)
        left_s = since_s + delay_s(settings, within_hour) - clock.monotonic_s()
        if left_s > 0:
            return record if record.due else replace(record, due=_in(left_s))
        return self._restarted(case, record, within_hour)

    def _answered(self, case: _Case, record: WatchRecord) -> None:
        """Answer the stop that keeps the runner down; the record, which is saved, keeps who sent it."""
        if (stop := waiting_stop(case.where, record, case.death.run)) is not None:
            for event in stop.answers():
                journalled(case.about, event)
            stop.put_away()

    def _elsewhere(self, case: _Case) -> bool:
        """Whether this watchdog is not the one to restart the runner.

        The runner ran on another host, or a standby runner takes over.
        """
        return case.death.host != socket.gethostname() or bool(read_standbys(case.where))

    def _looked_after(self, case: _Case, record: WatchRecord, attempt: Restart) -> tuple[WatchRecord, Restart]:
        """With the exit code of a launched runner that has ended before its first heartbeat."""
        child = self._launched.get(case.where.root)
        if child is None or child.pid != attempt.pid or child.poll() is None or attempt.code is not None:
            return record, attempt
        ended = replace(attempt, code=child.returncode)
        self._report(case.name, f"the runner that was launched ended at once with exit code {child.returncode}")
        del self._launched[case.where.root]
        return replace(record, restarts=tuple(ended if one == attempt else one for one in record.restarts)), ended

    def _restarted(self, case: _Case, record: WatchRecord, within_hour: int) -> WatchRecord:
        try:
            child = launch(case.where.spec, case.where, until=_until(case))
        except OSError as problem:  # such as a full disk without room for the log: it counts, so that the pauses grow
            self._report(case.name, f"could not be launched: {problem.strerror}")
            unseen = Restart(case.death.run, clock.utc_text(), 0, processes.here() | {"ticks": None})
            return replace(record, due="", restarts=(*record.restarts, unseen))
        self._launched[case.where.root] = child
        made = Restart(case.death.run, clock.utc_text(), child.pid, processes.of(child.pid))
        event = RunnerRestarted(
            why=case.death.why,
            restart=within_hour + 1,
            most=case.spec.watch.max_restarts_per_hour,
            pid=child.pid,
            host=socket.gethostname(),
        )
        journalled(case.about, event)
        self._report(
            case.name, f"restarted as process {child.pid} ({event.restart} of {event.most} within an hour): {event.why}"
        )
        return replace(record, due="", restarts=(*record.restarts, made))

    def _left_down(self, case: _Case, record: WatchRecord, why: str, *, alert: bool = False) -> WatchRecord:
        journalled(case.about, RunnerStaysDown(why=redact(why)))
        self._report(case.name, f"not restarted: {why}")
        record = replace(record, due="", down=redact(why))
        if not alert:
            return record
        return self._alerts.raised(
            case.about, record, "not_restarted", f"The pipeline stays down: {why}.", clock.utc_text()
        )


@lru_cache(maxsize=1024)
def _spec_of(file: Path, _changed_ns: int) -> Spec:
    return load(file)


def _of_run(record: WatchRecord, run: str) -> WatchRecord:
    """The record, if it is about this run; else a new one."""
    if record.run == run:
        return record
    return WatchRecord(run=run, restarts=record.restarts, unposted=record.unposted, resolved=record.resolved)


def _ending(runner: RunnerRecord) -> bool:
    """Whether a run has reported its end, and its process still writes the last lines of its journal."""
    return runner.state == "ended" and processes.lives(runner.pid or 0, runner.process) is True


def read_runner_id(where: Directory) -> str:
    """The newest run; empty if there is none."""
    runner = read_runner(where)
    return runner.run if runner else ""


def _until(case: _Case) -> str | None:
    """The goal of the run, as it was started: the first line of its journal has it."""
    with suppress(OSError, ValueError, IndexError):
        with parts_in(case.where.journals, case.death.run)[0].open() as file:
            until = json.loads(file.readline()).get("until")
        return str(until) if until else None
    return None


def _in(seconds: float) -> str:
    return clock.utc_text(clock.utc_now() + timedelta(seconds=seconds))

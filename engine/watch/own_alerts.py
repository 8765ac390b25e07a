"""Raises and clears the watchdog's alerts: in the record, in the journal of a run that is gone, and through the routes.

Also announces what a run that is gone has left behind under a silence, such as `run_failed`, when the silence ends.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from engine.alerting.silences import silence_of
from engine.base import clock
from engine.base.durable import write_atomically
from engine.base.errors import TidemarkError
from engine.base.redaction import redact
from engine.journal.afterword import append_to
from engine.journal.alert_events import AlertCleared, AlertRaised
from engine.journal.alert_kinds import remedy
from engine.journal.events import Event
from engine.pipeline.active_alert import Alert
from engine.pipeline.directory import Directory
from engine.pipeline.frozen_runner import GONE_HINT
from engine.pipeline.runner_file import surely_gone
from engine.pipeline.runner_record import RunnerRecord
from engine.pipeline.saved_lists import list_text, read_runners_alerts
from engine.spec.settings import Spec
from engine.watch.announcing import Announcer
from engine.watch.record import ResolvedAlert, WatchRecord

WatchReport = Callable[[str, str], None]
"""Called with a pipeline's name and what the watchdog did about it."""


@dataclass(frozen=True)
class Subject:
    """A pipeline and its newest run."""

    where: Directory
    spec: Spec
    runner: RunnerRecord
    """`engine.pipeline.runner_file.read_runner`."""

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def run(self) -> str:
        return self.runner.run


class OwnAlerts:
    """Changes the alerts of a record; the caller saves it."""

    def __init__(self, announcer: Announcer, report: WatchReport) -> None:
        self._announcer = announcer
        self._report = report

    def raised(self, about: Subject, record: WatchRecord, kind: str, message: str, since: str) -> WatchRecord:
        """With an alert, which is announced now unless it stands already and needs no repetition.

        Its hint is that of the silent process, if there is one.
        """
        standing = next((one for one in record.alerts if one.kind == kind), None)
        silenced = silence_of(about.where, Alert(kind)) is not None
        if standing is not None and (silenced or not _must_send(standing, about.spec.alerts.repeat_s)):
            return record
        alert = Alert(
            kind,
            message=redact(message),
            hint=_hint(about.runner, kind),
            since=standing.since if standing else since,
            repeat=0 if standing is None else standing.repeat + (not standing.held),
            held=silenced,
        )
        event = alert.event(AlertRaised)
        ts = journalled(about, event)
        alerts = tuple(one for one in record.alerts if one.kind != kind)
        unposted = record.unposted
        if not silenced:
            unposted = self._announcer.queued(unposted, about.spec, event, ts, about.run)
        self._report(about.name, message)
        return replace(record, alerts=(*alerts, replace(alert, announced=ts)), unposted=unposted)

    def cleared(self, about: Subject, record: WatchRecord, kinds: Collection[str], message: str) -> WatchRecord:
        """Without the alerts of these kinds. The end of one that routes know is announced.

        The record keeps those that the journal cannot take, because the run is alive and writes it.
        """
        over = [one for one in record.alerts if one.kind in kinds]
        unposted, resolved = record.unposted, record.resolved
        for one in over:
            event = replace(one, message=redact(message), hint="").event(AlertCleared)
            ts = journalled(about, event)
            if not surely_gone(about.runner):
                resolved = (*resolved, _resolved(one, ts))
            if not one.held:
                unposted = self._announcer.queued(unposted, about.spec, event, ts, about.run)
        if over:
            self._report(about.name, message)
        alerts = tuple(one for one in record.alerts if one not in over)
        return replace(record, alerts=alerts, unposted=unposted, resolved=resolved)

    def released(self, about: Subject, record: WatchRecord) -> WatchRecord:
        """With messages about the run's own alerts that a silence held back, and holds back no more.

        The run must be gone.
        """
        alerts, watched = _left_by_run(about.where), {one.kind for one in record.alerts}
        news = [one for one in _unsent(about.where, alerts) if one.kind not in watched]
        if not news or any(one.run == about.run and one.starting for one in record.restarts):
            return record  # a runner that starts announces them itself
        at = clock.utc_text()
        alerts_after = [replace(one, held=False, changed=False, announced=at) if one in news else one for one in alerts]
        text = list_text("alerts", [one.to_json() for one in alerts_after])
        try:
            write_atomically(about.where.alerts, text)
        except OSError:  # a full disk: they are announced once there is room, not at each look
            return record
        unposted = record.unposted
        for one in news:
            event = one.event(AlertRaised)
            ts = journalled(about, event)
            unposted = self._announcer.queued(unposted, about.spec, event, ts, about.run)
            self._report(about.name, f"its silence has ended: {event.message}")
        return replace(record, unposted=unposted)


def _hint(runner: RunnerRecord, kind: str) -> str:
    """What to do, with the number of the process."""
    silent = {"runner_frozen": runner.frozen, "runner_lost": runner.unseen}.get(kind)
    if silent is None and kind == "runner_lost" and surely_gone(runner):
        return GONE_HINT
    return silent.hint if silent is not None else remedy(kind, pid=runner.pid)


def _resolved(one: Alert, cleared: str) -> ResolvedAlert:
    return ResolvedAlert(one.kind, one.table, one.value, one.threshold, one.message, one.since, cleared)


def unsent(where: Directory) -> bool:
    """Whether a run has left alerts that a silence held back, and holds back no more."""
    return bool(_unsent(where, _left_by_run(where)))


def _left_by_run(where: Directory) -> list[Alert]:
    """The alerts that the newest run left active; none if the file is damaged, which must not keep a runner down."""
    with suppress(OSError, ValueError, KeyError, TypeError, TidemarkError):
        return read_runners_alerts(where)
    return []


def _unsent(where: Directory, alerts: list[Alert]) -> list[Alert]:
    silenced = [one for one in alerts if one.held or one.changed]
    return [one for one in silenced if silence_of(where, one) is None]


def journalled(about: Subject, event: Event) -> str:
    """Write an event into the journal of the run, if its process is surely gone. Returns the time."""
    if surely_gone(about.runner):
        with suppress(OSError):  # a full disk: the record has it
            entry = append_to(about.where.journals, about.run, event)
            if entry is not None:
                return entry.ts
    return clock.utc_text()


def _must_send(standing: Alert, repeat_s: float) -> bool:
    """Whether an alert that no silence covers is announced again: a silence held it back, or it was long ago."""
    age = clock.utc_now() - clock.parse_utc(standing.announced)
    return standing.held or age >= timedelta(seconds=repeat_s)

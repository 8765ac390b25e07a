"""Announces alerts.

They go to the journal, to a file that outlives the run, through the spec's routes, and as JSON to stderr if asked for.

It listens to the journal, so the coordinator knows nothing of it. A journal writer pays for a few comparisons, and for
a file of a few hundred bytes when an alert is raised or cleared. Routes have threads of their own
(`engine.alerting.notify`).
"""

import json
import sys
import threading
from contextlib import suppress

from engine.alerting.alerts import ActiveAlerts, AlertNotice
from engine.alerting.notify.notice import Notice, notice_of
from engine.alerting.notify.routes import Routes, broken_routes
from engine.alerting.silences import silence_of
from engine.base import clock
from engine.base.durable import write_atomically
from engine.journal import Entry, Journal
from engine.journal.alert_events import AlertRaised
from engine.journal.events import ErrorReported, HelperRecovered
from engine.pipeline.active_alert import WATCHED_KINDS, Alert, AlertName
from engine.pipeline.directory import Directory
from engine.pipeline.saved_lists import list_text, read_alerts
from engine.spec.settings import Spec

PATIENCE_S = 5.0
"""Seconds that an ending run waits for undelivered alerts."""
_UNREACHABLE: AlertName = ("route_unreachable", None)
_FIRST_RETRY_S = 1.0
_ROUTE = "route "
"""Begins the names of routes in events, where names of helper threads stand too."""


class Notifier:
    """The alerts of one run."""

    def __init__(self, spec: Spec, directory: Directory, journal: Journal, *, stderr: bool = True) -> None:
        """stderr: whether alerts are announced there, as lines of JSON."""
        self._spec = spec
        self._directory = directory
        self._journal = journal
        standing, most = standing_before(directory), spec.source.max_resnapshots_per_hour
        self._alerts = ActiveAlerts(spec.alerts, standing, most, self._silenced)
        self._lock = threading.RLock()  # an announcement is a journal line, which comes back here
        self._routes: Routes | None = None
        self._stderr = stderr
        # The watchdog's record forgets them with the next run: one that is killed while it starts must leave them to a
        # later one.
        self._alerts.unsaved = any(kind in WATCHED_KINDS for kind, _ in self._alerts.standing)
        self._save_changes()
        journal.listeners.append(self.hear)

    def standing(self) -> list[AlertName]:
        """The names of the active alerts."""
        return list(self._alerts.standing)

    def connect(self) -> None:
        """Use the routes from now on.

        Routes that an earlier run found unreachable get that alert again: whether they work now is shown by nothing
        else. So do routes whose secret is missing, which delays no other route and no run.
        """
        names = [f"{_ROUTE}{name}" for name in self._spec.alerts.all_routes()]
        with self._lock:
            cleared, at = self._alerts.begin_routes(names, clock.utc_text()), clock.utc_text()
            before = self._alerts.standing.get(_UNREACHABLE)
            failing = {name.removeprefix(_ROUTE) for name in before.routes} if before else set()
            broken = broken_routes(self._spec.alerts)
            failing |= broken.keys()
            self._routes = Routes(self._spec.alerts, self._undelivered, self._recovered, failing_routes=failing)
            for notice in cleared:
                self._announce(notice)
            for name, problem in broken.items():
                self._undelivered(name, problem, _FIRST_RETRY_S)
            if alert := self._alerts.standing.get(_UNREACHABLE):
                routes = failing if before else failing - self._taking(alert)
                self._routes.probe(routes, self._notice(alert.event(AlertRaised), at))
            self._save_changes()

    def _taking(self, alert: Alert) -> set[str]:
        """The routes that take an alert, and have it in their queues if no silence holds it back."""
        severity, routes = self._spec.alerts.severity_of(alert.kind), self._spec.alerts.all_routes().items()
        return set() if alert.held else {name for name, route in routes if severity in route.severities}

    def hear(self, entry: Entry) -> None:
        """Handle a line of the journal."""
        with self._lock:
            notices = self._alerts.hear(entry, clock.monotonic_s())
            for notice in notices:
                self._announce(notice)
            self._save_changes()

    def close(self) -> None:
        """Wait up to `PATIENCE_S` for undelivered alerts."""
        with self._lock:  # what another thread announces now is then in the queues
            routes = self._routes
        if routes is not None:
            routes.close(PATIENCE_S)

    def _silenced(self, alert: Alert) -> bool:
        with suppress(OSError):
            return silence_of(self._directory, alert) is not None
        return False

    def _notice(self, event: AlertRaised, at: str) -> Notice:
        return notice_of(self._spec.alerts, event, at, self._spec.name, self._journal.run)

    def _announce(self, notice: AlertNotice) -> None:
        kind, alert = notice
        event = alert.event(kind)
        posted = self._notice(event, self._journal.write(event).ts)
        with suppress(OSError, ValueError):  # stderr may be closed
            if self._stderr:
                print(json.dumps(posted.to_json(), ensure_ascii=False), file=sys.stderr, flush=True)  # noqa: T201
        if self._routes is None or alert.held:
            return
        self._routes.post(posted)
        if kind is AlertRaised and alert.repeat:  # a route may not take the severity of its own failure
            self._routes.probe([name.removeprefix(_ROUTE) for name in alert.routes], posted)

    def _save_changes(self) -> None:
        if not self._alerts.unsaved:
            return
        with suppress(OSError):  # a full disk: the alert is announced anyway, and saved when there is room
            if standing := self._alerts.as_list():
                write_atomically(self._directory.alerts, list_text("alerts", standing))
            else:
                self._directory.alerts.unlink(missing_ok=True)
            self._alerts.unsaved = False

    def _undelivered(self, route: str, problem: str, retry_s: float | None) -> None:
        self._journal.write(
            ErrorReported(
                error="RouteError",
                message=f"An alert could not be sent through the route {route}: {problem}.",
                detail="The run continues; alerts are in the journal and in the output too. "
                "This is reported once until it works.",
                hint=f"Check the receiver, and the route {route} in [alerts] of the spec. A secret in a file is read "
                "again at each try; one in a variable, when a process starts.",
                attempt=1,
                retry_in_s=retry_s,
                helper=f"{_ROUTE}{route}",
            )
        )

    def _recovered(self, route: str, failures: int, seconds: float) -> None:
        self._journal.write(
            HelperRecovered(helper=f"{_ROUTE}{route}", errors=failures, duration_s=round(seconds, 3)),
        )


def standing_before(directory: Directory) -> list[Alert]:
    """The alerts that an earlier run left active; none if the file is invalid, or the time of one is not known."""
    with suppress(ValueError, OSError, TypeError, KeyError, AttributeError):
        alerts = read_alerts(directory)
        for alert in alerts:
            clock.parse_utc(alert.since)
            clock.parse_utc(alert.announced)
        return alerts
    return []

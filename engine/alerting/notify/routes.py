"""All routes of a pipeline, for a process that stays (`Routes`), and for one that posts a single notice (`announce`).

Neither needs a runner, a journal or Spark:

    Routes(spec.alerts, failed, recovered)    a thread for each route; `post` returns at once
    announce(spec, directory, event)          delivers once, waits, and returns the answers; respects silences
"""

from collections.abc import Callable, Collection
from functools import partial

from engine.alerting.notify.channels import deliver, secret_problem
from engine.alerting.notify.notice import RAISED, TEST, DeliveryResult, Notice, notice_of, test_of
from engine.alerting.notify.sender import Sender
from engine.alerting.silences import silence_of
from engine.base import clock
from engine.journal.alert_events import AlertRaised
from engine.pipeline.active_alert import Alert
from engine.pipeline.directory import Directory
from engine.spec.alert_settings import Alerts
from engine.spec.settings import Spec


class Routes:
    """The routes of a spec, each with a thread of its own: one that is down delays no other, and no caller.

    failed: the route's name, the problem, and the seconds until the next try, None if the notice is dropped; once until
    it works. recovered: the route's name, the number of failures, and for how many seconds it failed. failing_routes:
    routes that count as failing until they accept a notice. A route whose secret is missing fails alone: it is tried
    again until the secret is there.
    """

    def __init__(
        self,
        settings: Alerts,
        failed: Callable[[str, str, float | None], None],
        recovered: Callable[[str, int, float], None],
        *,
        failing_routes: Collection[str] = (),
    ) -> None:
        routes = settings.all_routes()
        self._severities = {name: route.severities for name, route in routes.items()}
        self._senders = {
            name: Sender(
                name,
                partial(deliver, name, route),
                partial(failed, name),
                partial(recovered, name),
                down=name in failing_routes,
            )
            for name, route in routes.items()
        }

    def post(self, notice: Notice) -> None:
        """Queue a notice for the routes that take its severity; returns at once."""
        for name, sender in self._senders.items():
            if notice.severity in self._severities[name]:
                sender.post(notice)

    def probe(self, names: Collection[str], notice: Notice) -> None:
        """Queue a notice for these routes, whatever its severity."""
        for name in self._senders.keys() & set(names):
            self._senders[name].post(notice)

    def close(self, patience_s: float) -> None:
        """Wait up to `patience_s` for the delivery of all notices; the rest is lost."""
        until_s = clock.monotonic_s() + patience_s
        for sender in self._senders.values():
            sender.finish()
        for sender in self._senders.values():
            sender.join(max(until_s - clock.monotonic_s(), 0.0))


def broken_routes(settings: Alerts) -> dict[str, str]:
    """The routes whose secret cannot be used by this process, by name, and why."""
    problems = {name: secret_problem(name, route) for name, route in settings.all_routes().items()}
    return {name: problem for name, problem in problems.items() if problem}


def announce(spec: Spec, directory: Directory, event: AlertRaised) -> dict[str, DeliveryResult]:
    """Deliver an alert once through each route that takes its severity, and return the answers by route.

    event: also `AlertCleared`. An alert that a silence covers is not delivered, its end is. Takes tens of seconds for a
    receiver that does not answer.
    """
    if event.NAME == RAISED and silence_of(directory, Alert(event.kind, event.table)) is not None:
        return {}
    notice = notice_of(spec.alerts, event, clock.utc_text(), spec.name, None)
    routes = spec.alerts.all_routes().items()
    return {name: deliver(name, one, notice) for name, one in routes if notice.severity in one.severities}


def send_test(settings: Alerts, route: str, pipeline: str, actor: str) -> DeliveryResult:
    """Deliver a notice of the event `alert.test` through one route, whatever its severities."""
    notice = test_of(settings, pipeline, clock.utc_text(), actor)
    assert notice.event == TEST
    return deliver(route, settings.all_routes()[route], notice)

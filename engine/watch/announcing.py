"""Posts the watchdog's alerts through the pipeline's routes, from threads of its own."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from engine.alerting.notify.channels import deliver
from engine.alerting.notify.notice import CLEARED, RAISED, DeliveryResult, Notice, notice_of
from engine.base import clock
from engine.journal.alert_events import AlertRaised
from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import read_runner
from engine.spec.alert_settings import Route
from engine.spec.settings import Spec
from engine.watch.record import Unposted, WatchRecords, alone

_PATIENCE_S, _FIRST_RETRY_S, _RETRY_S = 5.0, 1.0, 30.0
_MOST = 100
_RoutePlace = tuple[Path, str]
"""A pipeline's folder and the name of one of its routes."""


class Announcer:
    """Announces alerts for pipelines without a runner.

    Each message is sent until its route has accepted or rejected it.
    """

    def __init__(self, records: WatchRecords) -> None:
        self._records = records
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="watchdog-post")
        self._posting: dict[Path, Future[None]] = {}
        self._pause_s: dict[_RoutePlace, float] = {}  # of routes that fail: how long the pause is, and when it is over
        self._next_s: dict[_RoutePlace, float] = {}
        self._lock = threading.Lock()

    def queued(
        self,
        waiting: tuple[Unposted, ...],
        spec: Spec,
        event: AlertRaised,
        ts: str,
        run: str,
    ) -> tuple[Unposted, ...]:
        """The messages that wait, with one more for each route. event: also `AlertCleared`."""
        notice = notice_of(spec.alerts, event, ts, spec.name, run)
        routes = spec.alerts.all_routes().items()
        new = tuple(Unposted(name, notice) for name, one in routes if notice.severity in one.severities)
        return (*waiting, *new)[-_MOST:]

    def post(self, where: Directory, spec: Spec) -> None:
        """Post what waits, from another thread, unless that thread is busy or the routes have failed a moment ago."""
        busy = self._posting.get(where.root)
        if busy is not None and not busy.done():
            return
        if any(self._due(where, one.route) for one in self._records.read(where).unposted):
            self._posting[where.root] = self._pool.submit(self._deliver, where, spec)

    def close(self) -> None:
        """Wait some seconds for what is being posted."""
        wait(list(self._posting.values()), _PATIENCE_S)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _deliver(self, where: Directory, spec: Spec) -> None:
        """Take the messages from the record, so that no other watchdog posts them.

        Puts back those that did not arrive.
        """
        routes = spec.alerts.all_routes()
        failing = {name for name in routes if not self._due(where, name)}
        undelivered: tuple[Unposted, ...] = ()
        for one in self._change(where, ()):
            name = one.route
            if name not in routes:
                continue
            rest = (one.notice,) if name in failing else _undelivered(where, name, routes[name], one.notice)
            if name not in failing:
                self._answered((where.root, name), failed=bool(rest))
            if rest:
                failing.add(name)
                undelivered = (*undelivered, *(Unposted(name, notice) for notice in rest))
        if undelivered:
            self._change(where, undelivered)

    def _due(self, where: Directory, route: str) -> bool:
        return clock.monotonic_s() >= self._next_s.get((where.root, route), 0.0)

    def _answered(self, place: _RoutePlace, *, failed: bool) -> None:
        """Let a route that failed wait, longer each time."""
        if not failed:
            self._pause_s.pop(place, None)
            self._next_s.pop(place, None)
            return
        pause_s = min(2 * self._pause_s.get(place, _FIRST_RETRY_S / 2), _RETRY_S)
        self._pause_s[place], self._next_s[place] = pause_s, clock.monotonic_s() + pause_s

    def _change(self, where: Directory, messages: tuple[Unposted, ...]) -> tuple[Unposted, ...]:
        """Replace the messages of the record; those that came meanwhile stay. Returns those that were there."""
        for _ in range(100):
            with alone(where) as mine:
                if mine:
                    record = self._records.read(where)
                    unposted = (*messages, *record.unposted) if messages else ()
                    self._records.write(where, replace(record, unposted=unposted[-_MOST:]))
                    return record.unposted
            clock.sleep(0.05)
        return ()


def _undelivered(where: Directory, name: str, route: Route, notice: Notice) -> tuple[Notice, ...]:
    """Deliver a notice. Returns those that are to be delivered later: it, or the end of what is over already.

    A run that is alive by now has announced the end before: a receiver that gets the notice afterwards would keep it
    open.
    """
    answer = _delivered(name, route, notice)
    if answer.problem:
        return (notice,) if answer.retry else ()
    if notice.event != RAISED or not _over(where, str(notice.run)):
        return ()
    message = "A runner is alive, or has ended."
    end = replace(notice, event=CLEARED, ts=clock.utc_text(), message=message, hint="")
    answer = _delivered(name, route, end)
    return (end,) if answer.problem and answer.retry else ()


def _over(where: Directory, run: str) -> bool:
    """Whether a later run has cleared the alerts about a run that was lost."""
    with suppress(Exception):
        later = read_runner(where)
        if later is not None and later.run != run:
            return later.state == "ended" or bool(later.alive and later.state != "starting")
    return False


def _delivered(name: str, route: Route, notice: Notice) -> DeliveryResult:
    """Deliver a notice. An error of one route, such as a password that cannot be encoded, is its own alone."""
    try:
        return deliver(name, route, notice)
    except Exception as error:  # noqa: BLE001 - the notices of the other routes are in the same list
        return DeliveryResult(f"{type(error).__name__}: {error}", retry=False)

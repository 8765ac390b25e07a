"""Posts the watchdog's alerts through the pipeline's routes, from threads of its own."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine import clock
from engine.alert_settings import Route
from engine.directory import Directory
from engine.events import AlertRaised
from engine.notify.channels import deliver
from engine.notify.notice import Answer, message
from engine.settings import Spec
from engine.watch.record import alone, read_record, write_record

_PATIENCE_S, _RETRY_S = 5.0, 30.0
_MOST = 100


class Announcer:
    """Announces alerts for pipelines without a runner. Each message is sent until its route has accepted or rejected it."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="watchdog-post")
        self._posting: dict[Path, Future[None]] = {}
        self._next_s: dict[Path, float] = {}
        self._lock = threading.Lock()

    def queued(
        self,
        waiting: tuple[Mapping[str, Any], ...],
        spec: Spec,
        event: AlertRaised,
        ts: str,
        run: str,
    ) -> tuple[Mapping[str, Any], ...]:
        """The messages that wait, with one more for each route. event: also `AlertCleared`."""
        notice = message(spec.alerts, event.NAME, ts, spec.name, run, event.to_json())
        routes = spec.alerts.all_routes().items()
        new = tuple({"route": name, "notice": notice} for name, one in routes if notice["severity"] in one.severities)
        return (*waiting, *new)[-_MOST:]

    def post(self, where: Directory, spec: Spec) -> None:
        """Post what waits, from another thread, unless that thread is busy or the last failure is recent."""
        busy = self._posting.get(where.root)
        if (busy is not None and not busy.done()) or clock.monotonic_s() < self._next_s.get(where.root, 0.0):
            return
        if read_record(where).unposted:
            self._posting[where.root] = self._pool.submit(self._deliver, where, spec)

    def close(self) -> None:
        """Wait some seconds for what is being posted."""
        wait(list(self._posting.values()), _PATIENCE_S)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _deliver(self, where: Directory, spec: Spec) -> None:
        """Take the messages from the record, so that no other watchdog posts them, and put back those that did not arrive."""
        routes, failing = spec.alerts.all_routes(), set()
        left: tuple[Mapping[str, Any], ...] = ()
        for one in self._change(where, ()):
            name = one["route"]
            if name not in routes:
                continue
            answer = (
                Answer("it failed before", retry=True)
                if name in failing
                else _delivered(name, routes[name], one["notice"])
            )
            if answer.problem and answer.retry:
                failing.add(name)
                left = (*left, one)
        if left:
            self._next_s[where.root] = clock.monotonic_s() + _RETRY_S
            self._change(where, left)

    def _change(self, where: Directory, messages: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
        """Replace the messages of the record; those that came meanwhile stay. Returns those that were there."""
        for _ in range(100):
            with alone(where) as mine:
                if mine:
                    record = read_record(where)
                    kept = (*messages, *record.unposted) if messages else ()
                    write_record(where, replace(record, unposted=kept[-_MOST:]))
                    return record.unposted
            clock.sleep(0.05)
        return ()


def _delivered(name: str, route: Route, notice: Mapping[str, Any]) -> Answer:
    """Deliver a notice. An error of one route, such as a password that cannot be encoded, is its own alone."""
    try:
        return deliver(name, route, notice)
    except Exception as error:  # noqa: BLE001 - the notices of the other routes are in the same list
        return Answer(f"{type(error).__name__}: {error}", retry=False)

"""Notices that other formats of tables fall behind (`destination.capabilities.PublishesFormats`)."""

import threading
from collections.abc import Iterable, Iterator
from datetime import timedelta

from engine.base import clock
from engine.destination.capabilities import FormatState, PublishesFormats
from engine.destination.destination_protocol import Destination
from engine.journal import Journal
from engine.journal.verification_events import FormatBehind
from engine.pipeline.directory import Directory
from engine.pipeline.helpers import Helpers
from engine.pipeline.saved_lists import read_alerts

_INTERVAL_S = 2.0
FAILING_S, SLOW_S = 10.0, 60.0
"""For how long a format lacks a commit before that is told, if it cannot be written, and otherwise."""


class FormatMonitor:
    """Looks until it is closed."""

    def __init__(self, destination: Destination, directory: Directory, journal: Journal, helpers: Helpers) -> None:
        self._destination = destination
        self._journal = journal
        self._helpers = helpers
        self._failures = dict.fromkeys(_alerted(directory), "")
        """What was told of tables that are behind."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="formats-monitor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closing.set()
        self._thread.join(timeout=5)

    def _work(self) -> None:
        while not self._closing.wait(_INTERVAL_S):
            try:
                destination = self._destination
                states = destination.format_states() if isinstance(destination, PublishesFormats) else ()
                for event in format_news(self._failures, states):
                    self._journal.write(event)
            except Exception as error:  # noqa: BLE001 - a helper's error must not end it
                self._helpers.failed("formats", error)
            else:
                self._helpers.succeeded("formats")


def format_news(failures: dict[str, str], states: Iterable[FormatState]) -> Iterator[FormatBehind]:
    """Events about tables whose formats fall behind, and about those that lack nothing any more.

    failures: what was told of tables that are behind, by table; updated.
    """
    behind = dict[str, FormatState]()
    waiting_tables = set[str]()
    for one in states:
        if one.behind_s:
            waiting_tables.add(one.table)
        if one.behind_s >= (FAILING_S if one.failure else SLOW_S):
            behind.setdefault(one.table, one)
    for name in sorted(failures.keys() - behind.keys() - waiting_tables):
        del failures[name]
        yield FormatBehind(table=name)
    for name, one in behind.items():
        if failures.get(name) != one.failure or name not in failures:
            failures[name] = one.failure
            since = clock.utc_text(clock.utc_now() - timedelta(seconds=one.behind_s))
            yield FormatBehind(table=name, place=one.place, since=since, failure=one.failure, hint=one.hint)


def _alerted(directory: Directory) -> list[str]:
    """The tables whose alert an earlier run left active; none if the file is invalid."""
    try:
        return [alert.table for alert in read_alerts(directory) if alert.kind == "format_behind" and alert.table]
    except (ValueError, OSError, TypeError, KeyError):
        return []

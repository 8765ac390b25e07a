"""Notices that a destination takes nothing, by the ledger and the destination itself (`destination.missing_epochs`).

It also notices that other formats of its tables fall behind (`format_news`).
"""

import threading
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from engine.base import clock
from engine.destination.capabilities import PublishesFormats
from engine.destination.destination_protocol import Destination
from engine.destination.missing_epochs import MissingEpochs, find_missing_epochs
from engine.journal import Journal
from engine.journal.verification_events import MirrorBehind
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory
from engine.pipeline.helpers import Helpers
from engine.pipeline.saved_lists import read_alerts
from engine.run.monitors.format_news import format_news
from engine.spec.alert_settings import Alerts

INTERVAL_S = 15.0


class UnpublishedMonitor:
    """Looks until it is closed. settings: the age of a change that the mirror of a table may lack."""

    def __init__(
        self, destination: Destination, directory: Directory, journal: Journal, helpers: Helpers, settings: Alerts
    ) -> None:
        self._destination = destination
        self._directory = directory
        self._journal = journal
        self._helpers = helpers
        self._settings = settings
        self._interval_s = min(INTERVAL_S, max(settings.shortest_mirror_behind_s() / 2, 1.0))
        self._since_by_table = dict.fromkeys(_alerted(directory, "mirror_behind"), "")
        self._format_failures = dict.fromkeys(_alerted(directory, "format_behind"), "")
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="unpublished", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closing.set()
        self._thread.join(timeout=5)

    def _work(self) -> None:
        while not self._closing.wait(self._interval_s):
            try:
                self._look()
                self._look_at_formats()
            except Exception as error:  # noqa: BLE001 - a helper's error must not end it
                self._helpers.failed("unpublished", error)
            else:
                self._helpers.succeeded("unpublished")

    def _look_at_formats(self) -> None:
        destination = self._destination
        states = destination.format_states() if isinstance(destination, PublishesFormats) else ()
        for event in format_news(self._format_failures, states):
            self._journal.write(event)

    def _look(self) -> None:
        ledger = Ledger(self._directory.ledger)
        if ledger.state is None:
            return
        now, shortest_s = clock.utc_now(), self._settings.shortest_mirror_behind_s()
        before = clock.utc_text(now - timedelta(seconds=shortest_s))
        missing = find_missing_epochs(lambda: self._destination, ledger.state, list(ledger.kept_epochs()), before)
        for event in news(self._since_by_table, too_old(missing, self._settings, now)):
            self._journal.write(event)


def too_old(missing: Mapping[str, MissingEpochs], settings: Alerts, now: datetime) -> dict[str, MissingEpochs]:
    """Those that lack a change that is older than the threshold of their table."""
    return {
        name: one
        for name, one in missing.items()
        if one.since < clock.utc_text(now - timedelta(seconds=settings.mirror_behind_of(name)))
    }


def news(since_by_table: dict[str, str], missing: Mapping[str, MissingEpochs]) -> Iterator[MirrorBehind]:
    """Events about new gaps, and about tables that lack nothing any more.

    since_by_table: since when each table has lacked epochs; updated.
    """
    for name in sorted(since_by_table.keys() - missing.keys()):
        del since_by_table[name]
        yield MirrorBehind(table=name)
    for name, one in missing.items():
        if since_by_table.get(name) != one.since:
            since_by_table[name] = one.since
            yield MirrorBehind(table=name, since=one.since, epoch=one.epoch)


def _alerted(directory: Directory, kind: str) -> list[str]:
    """The tables whose alert of a kind an earlier run left active; none if the file is invalid."""
    try:
        return [alert.table for alert in read_alerts(directory) if alert.kind == kind and alert.table]
    except (ValueError, OSError, TypeError, KeyError):
        return []

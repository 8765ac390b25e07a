"""Alerts that are over: those of the journals, and those that only the watchdog's record has."""

from contextlib import suppress

from app.common import home
from engine.base import clock
from engine.base.errors import TidemarkError
from engine.history import alert_queries
from engine.history.alert_queries import Cleared
from engine.pipeline.directory import Directory
from engine.watch.record import read_record


def resolved_alerts(name: str | None) -> list[Cleared]:
    """The newest first. name: of one pipeline, or of all if None."""
    watched = [alert for where in home.directories() if name in (None, where.root.name) for alert in _watched(where)]
    return sorted([*watched, *home.ask(alert_queries.cleared, name)], key=lambda one: one.cleared, reverse=True)


def _watched(where: Directory) -> list[Cleared]:
    """Those of a runner that did not respond and came back: the watchdog cannot write its journal."""
    with suppress(TidemarkError, OSError, ValueError):
        return [
            Cleared(
                where.root.name,
                clock.parse_utc(one.cleared),
                one.table,
                one.kind,
                one.since,
                one.value,
                one.threshold,
                one.message,
            )
            for one in read_record(where).resolved
        ]
    return []

"""Specs with routes, and notices, for the tests of this folder."""

from pathlib import Path
from typing import Any

from engine.alerting.notify.notice import Notice, notice_of
from engine.journal.alert_events import AlertRaised
from engine.spec.settings import Spec, parse

SPEC = """
name = "shop"
[source]
host = "h"
user = "u"
tables = ["d.*"]
[sink]
path = "lake"
[alerts]
{alerts}
"""
AT = "2026-01-31T15:30:17.000000Z"


def spec_with(folder: Path, alerts: str) -> Spec:
    """A spec with these settings of alerts."""
    return parse(SPEC.format(alerts=alerts), folder / "shop.toml")


def alert(
    kind: str = "table_stopped",
    table: str | None = "d.orders",
    event: type[AlertRaised] = AlertRaised,
    **more: Any,
) -> AlertRaised:
    """The event of an alert."""
    fields = {"message": f"{table} stopped: <no> date & time.", "hint": "Do it.", "since": AT, **more}
    return event(kind=kind, table=table, **fields)


def notice(spec: Spec, event: type[AlertRaised] = AlertRaised, **more: Any) -> Notice:
    """A notice of an alert."""
    return notice_of(spec.alerts, alert(event=event, **more), AT, spec.name, "r")

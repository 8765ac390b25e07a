"""One notice of an alert, as a route gets it, and the answer of its receiver."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.base.wording import utc_time
from engine.journal.alert_texts import alert_title
from engine.spec.alert_settings import Alerts

RAISED, CLEARED, TEST = "alert.raised", "alert.cleared", "alert.test"
Notice = Mapping[str, Any]
"""`message` below."""


@dataclass(frozen=True)
class DeliveryResult:
    """What became of a notice."""

    problem: str = ""
    """Why it was not accepted, without secrets; empty if it was."""
    retry: bool = False
    """Whether another try makes sense."""
    status: int | None = None
    """The HTTP status of a receiver that accepted it."""


def message(
    settings: Alerts, event: str, ts: str, pipeline: str, run: str | None, alert: Mapping[str, Any]
) -> dict[str, Any]:
    """What a route of the type `webhook` posts. alert: the fields of `events.AlertRaised`. ts: UTC text."""
    severity = settings.severity_of(str(alert["kind"]))
    head = {"event": event, "ts": ts, "pipeline": pipeline, "run": run, "host": socket.gethostname()}
    return {**head, "severity": severity, **alert}


def test_of(settings: Alerts, pipeline: str, ts: str, actor: str) -> dict[str, Any]:
    """A notice of the event `alert.test`, with the fields of an alert. actor: who sends it."""
    alert = {
        "kind": "test",
        "table": None,
        "value": None,
        "threshold": None,
        "message": f"{actor or 'An operator'} tests a route of {pipeline}. Nothing is wrong.",
        "hint": "You need not do anything.",
        "since": ts,
        "repeat": 0,
    }
    return message(settings, TEST, ts, pipeline, None, alert)


def headline(notice: Notice) -> str:
    """`shop: Table stopped (shop.orders)`, `shop: cleared: Lag`; on one line."""
    name, table = str(notice["kind"]), notice.get("table")
    title = "Test" if notice["event"] == TEST else alert_title(name)
    cleared = "cleared: " if notice["event"] == CLEARED else ""
    text = f"{notice['pipeline']}: {cleared}{title}{f' ({table})' if table else ''}"
    return " ".join(text.split())


def footer(notice: Notice) -> str:
    """Severity, times and host."""
    repeat = f", repeated {notice['repeat']}×" if notice.get("repeat") else ""
    return f"{notice['severity']}{repeat}; since {utc_time(notice.get('since'))}; sent by {notice['host']}"

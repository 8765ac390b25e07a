"""One notice of an alert, as a route gets it, and the answer of its receiver."""

import socket
from dataclasses import dataclass, replace
from typing import Any

from engine.base.wording import utc_time
from engine.journal.alert_events import AlertCleared, AlertRaised
from engine.journal.alert_kinds import alert_title
from engine.spec.alert_settings import Alerts

RAISED, CLEARED, TEST = AlertRaised.NAME, AlertCleared.NAME, "alert.test"


@dataclass(frozen=True)
class Notice:
    """An alert, its end or a test. A route of the type `webhook` posts these fields as JSON."""

    event: str
    """`RAISED`, `CLEARED` or `TEST`."""
    ts: str
    """UTC text."""
    pipeline: str
    run: str | None
    host: str
    severity: str
    kind: str
    """This field and those below it are those of `alert_events.AlertRaised`."""
    table: str | None = None
    value: float | None = None
    threshold: float | None = None
    message: str = ""
    hint: str = ""
    since: str = ""
    repeat: int = 0

    def to_json(self) -> dict[str, Any]:
        """What is posted, and kept in `watchdog.json` until it is accepted."""
        return dict(vars(self))


@dataclass(frozen=True)
class DeliveryResult:
    """What became of a notice."""

    problem: str = ""
    """Why it was not accepted, without secrets; empty if it was."""
    retry: bool = False
    """Whether another try makes sense."""
    status: int | None = None
    """The HTTP status of a receiver that accepted it."""


def notice_of(settings: Alerts, event: AlertRaised, ts: str, pipeline: str, run: str | None) -> Notice:
    """The notice of an alert. event: also `AlertCleared`. ts: UTC text."""
    host, severity = socket.gethostname(), settings.severity_of(event.kind)
    return Notice(event.NAME, ts, pipeline, run, host, severity, **event.to_json())


def test_of(settings: Alerts, pipeline: str, ts: str, actor: str) -> Notice:
    """A notice of the event `alert.test`. actor: who sends it."""
    message = f"{actor or 'An operator'} tests a route of {pipeline}. Nothing is wrong."
    event = AlertRaised(kind="test", message=message, hint="You need not do anything.", since=ts)
    return replace(notice_of(settings, event, ts, pipeline, None), event=TEST)


def headline(notice: Notice) -> str:
    """`shop: Table stopped (shop.orders)`, `shop: cleared: Lag`; on one line."""
    title = "Test" if notice.event == TEST else alert_title(notice.kind)
    cleared = "cleared: " if notice.event == CLEARED else ""
    text = f"{notice.pipeline}: {cleared}{title}{f' ({notice.table})' if notice.table else ''}"
    return " ".join(text.split())


def footer(notice: Notice) -> str:
    """Severity, times and host."""
    repeat = f", repeated {notice.repeat}×" if notice.repeat else ""
    return f"{notice.severity}{repeat}; since {utc_time(notice.since)}; sent by {notice.host}"

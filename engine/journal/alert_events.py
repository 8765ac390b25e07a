"""The journal's events of alerts."""

from dataclasses import dataclass

from engine.journal.events import Event


@dataclass(frozen=True, kw_only=True)
class AlertRaised(Event, name="alert.raised"):
    """An alert was raised (`engine.alerting.alerts`), or repeated."""

    kind: str
    """As in `alerting.alerts`: lag, table_stopped, …"""
    table: str | None = None
    value: float | None = None
    """Seconds, bytes, or the exit code of a failed run."""
    threshold: float | None = None
    message: str = ""
    hint: str = ""
    since: str = ""
    """When its cause began."""
    repeat: int = 0
    """0 when it is raised, then how often it was repeated."""


@dataclass(frozen=True, kw_only=True)
class AlertCleared(AlertRaised, name="alert.cleared"):
    """The cause of an alert is gone."""

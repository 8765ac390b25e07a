"""An active alert, as the file of active alerts has it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from engine.base.json_records import record_from
from engine.journal.alert_events import AlertRaised
from engine.journal.events import fields_of

WATCHED_KINDS = ("runner_lost", "runner_frozen", "not_restarted")
"""The kinds of alerts that watchdogs raise, about a run that is gone or does not respond."""
AlertName = tuple[str, str | None]
"""An alert's kind and, if it concerns one, its table."""


@dataclass(frozen=True)
class Alert:
    """An active alert."""

    kind: str
    table: str | None = None
    value: float | None = None
    threshold: float | None = None
    message: str = ""
    hint: str = ""
    since: str = ""
    announced: str = ""
    """`since` is when its cause began, `announced` when it was last announced: UTC text; empty if that is not known."""
    repeat: int = 0
    """How often it was repeated."""
    held: bool = False
    """Whether no route knows it, because a silence covered it."""
    changed: bool = False
    """Whether routes know only an earlier state of it, because a silence covers the present one."""
    routes: Sequence[str] = ()
    """Of `route_unreachable`: the routes that fail."""

    @classmethod
    def from_json(cls, record: object) -> Self | None:
        """An alert of the file. None if it is damaged: no object, without a kind, or of no table."""
        if isinstance(record, Mapping) and "told" in record:  # as version 1 wrote it
            record = {**record, "announced": record["told"]}
        alert = record_from(cls, record)
        if alert is None or (type(alert.kind), type(alert.table)) not in ((str, str), (str, type(None))):
            return None
        return alert

    def to_json(self) -> dict[str, Any]:
        """For the file; `from_json` is the inverse."""
        return asdict(self)

    @property
    def name(self) -> AlertName:
        """The name that clears it."""
        return self.kind, self.table

    def event(self, kind: type[AlertRaised]) -> AlertRaised:
        """The event that the journal and the routes get. kind: `AlertRaised` or `AlertCleared`."""
        return kind(**{name: getattr(self, name) for name in fields_of(kind.NAME)})


def present_alerts(alerts: Iterable[Alert], *, alive: bool, frozen: bool) -> list[Alert]:
    """The alerts that `status` and the console show.

    A live runner is not lost. The alert about the run before clears only when this one works, not while it starts.

    alive, frozen: as of `engine.pipeline.runner_record.RunnerRecord`.
    """
    if not alive:
        return list(alerts)
    return [one for one in alerts if one.kind not in WATCHED_KINDS or (frozen and one.kind == "runner_frozen")]

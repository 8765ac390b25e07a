"""What has changed on the source since the run began: compares its facts (`source.source_facts`), and keeps since when.

`run.monitors.hidden_monitor` asks the source every minute. A required setting has an alert of its own
(`source_settings`), which this one does not repeat.
"""

from collections.abc import Collection, Iterable
from dataclasses import asdict

from engine.base import clock
from engine.journal.verification_events import HiddenChanges
from engine.run.commands.heartbeat import Activity
from engine.source.source_facts import Change, Facts, changes

KIND = "source_changed"


class SourceDrift:
    """The differences to the beginning of the run. alerted: whether an earlier run left the alert active."""

    def __init__(self, activity: Activity, *, alerted: bool) -> None:
        self._activity = activity
        self._beginning: Facts | None = None
        self._seen: dict[Change, str] = {}
        self._reported: object = None if alerted else ((), ())

    def begin(self, facts: Facts) -> None:
        """Take the facts of the run's beginning. Those of a later preflight, as after an outage, are no beginning."""
        if self._beginning is None:
            self._beginning = facts

    @property
    def differs(self) -> bool:
        """Whether the last look found a difference."""
        return bool(self._seen)

    def news(self, facts: Facts, required: Collection[str] = ()) -> list[HiddenChanges]:
        """The event of a look, if anything is new. required: settings that the alert leaves to `source_settings`."""
        self.begin(facts)
        assert self._beginning is not None
        now = clock.utc_text()
        self._seen = {one: self._seen.get(one, now) for one in changes(self._beginning, facts)}
        change_records = [{**asdict(one), "seen": seen} for one, seen in self._seen.items()]
        self._activity.source = {"compared": now, "facts": len(facts), "changes": change_records}
        names = tuple(_names(self._seen, required))
        key = (tuple(self._seen), names)
        if key == self._reported:
            return []
        self._reported = key
        return [HiddenChanges(kind=KIND, names=names, changes=change_records)]


def _names(changes: Iterable[Change], required: Collection[str]) -> Iterable[str]:
    for one in changes:
        if one.what != "setting" or one.name not in required:
            name = {"grant": f"grants on {one.name}", "certificate": "TLS certificate"}.get(one.what, one.name)
            yield f"{name} was {one.before}, is {one.after}"

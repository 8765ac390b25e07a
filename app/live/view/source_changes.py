"""What has changed on the source since the run began, as the runner reports it."""

from dataclasses import dataclass
from datetime import datetime

from engine.pipeline.runner_record import RunnerRecord, SourceChange

_WHAT = {"setting": "Setting", "grant": "Grants on", "certificate": "TLS certificate", "version": "Version"}
_HELPER = "hidden changes"
_OLD_S = 200.0
"""Three comparisons, which are a minute apart, and some time for them."""


@dataclass(frozen=True)
class LastComparison:
    """The last comparison. failing: why later ones fail; empty if they do not."""

    at: datetime
    facts: int
    changes: tuple[SourceChange, ...]
    failing: str

    def is_old(self, now: datetime) -> bool:
        """Whether later comparisons are missing, as while the source is away."""
        return (now - self.at).total_seconds() > _OLD_S


def compared(record: RunnerRecord | None) -> LastComparison | None:
    """The last comparison of a live runner, from `runner.json`; None without one."""
    if record is None or record.source is None:
        return None
    try:
        at = datetime.fromisoformat(record.source.compared)
    except ValueError:
        return None
    failing = next((one.message for one in record.helpers if one.helper == _HELPER), "")
    return LastComparison(at, record.source.facts, record.source.changes, failing)


def rows(comparison: LastComparison) -> list[dict[str, object]]:
    """The table of changes, the newest first."""
    newest = sorted(comparison.changes, key=lambda one: one.seen, reverse=True)
    return [
        {
            "Noticed": datetime.fromisoformat(one.seen),
            "What": _WHAT.get(one.what, one.what),
            "Name": "" if one.what in ("certificate", "version") else one.name,
            "Before": one.before,
            "Now": one.after,
        }
        for one in newest
    ]

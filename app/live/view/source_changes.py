"""What has changed on the source since the run began, as the runner reports it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

_WHAT = {"setting": "Setting", "grant": "Grants on", "certificate": "TLS certificate", "version": "Version"}
_HELPER = "hidden changes"
_OLD_S = 200.0
"""Three comparisons, which are a minute apart, and some time for them."""


@dataclass(frozen=True)
class Compared:
    """The last comparison. failing: why later ones fail; empty if they do not."""

    at: datetime
    facts: int
    changes: tuple[Mapping[str, Any], ...]
    failing: str

    def is_old(self, now: datetime) -> bool:
        """Whether later comparisons are missing, as while the source is away."""
        return (now - self.at).total_seconds() > _OLD_S


def compared(record: Mapping[str, Any]) -> Compared | None:
    """The last comparison of a live runner, from `runner.json`; None without one."""
    found = record.get("source")
    if not record.get("alive") or not isinstance(found, Mapping):
        return None
    try:
        at = datetime.fromisoformat(str(found.get("compared")))
    except ValueError:
        return None
    helpers = record.get("helpers")
    failing = [one for one in helpers if one.get("helper") == _HELPER] if isinstance(helpers, list) else []
    changes = tuple(one for one in found.get("changes") or () if isinstance(one, Mapping))
    return Compared(at, int(found.get("facts") or 0), changes, str(failing[0].get("message")) if failing else "")


def rows(found: Compared) -> list[dict[str, object]]:
    """The table of changes, the newest first."""
    newest = sorted(found.changes, key=lambda one: str(one.get("seen")), reverse=True)
    return [
        {
            "Noticed": datetime.fromisoformat(str(one.get("seen"))),
            "What": _WHAT.get(str(one.get("what")), str(one.get("what"))),
            "Name": "" if one.get("what") in ("certificate", "version") else str(one.get("name")),
            "Before": str(one.get("before")),
            "Now": str(one.get("after")),
        }
        for one in newest
    ]

"""Why a run does not get what it needs from its source, or cannot write: by cause, the words. Pure."""

from collections.abc import Mapping
from typing import Literal

from engine.base.write_causes import WriteCause

Cause = Literal["unreachable", "login", "privileges"]
ALERTS: Mapping[Cause, str] = {
    "unreachable": "source_away",
    "login": "login_refused",
    "privileges": "privileges_missing",
}
"""The kind of alert for each cause."""
_SENTENCES: Mapping[Cause, str] = {
    "unreachable": "The source is unreachable",
    "login": "The source refuses the login",
    "privileges": "The account lacks privileges on the source",
}
_ENDS: Mapping[Cause, str] = {
    "unreachable": "When the source answers",
    "login": "When the source accepts the login",
    "privileges": "When the account has the privileges",
}
_REPLACED: Mapping[Cause, str] = {
    "unreachable": "The source does not answer any more.",
    "login": "The source refuses the login now.",
    "privileges": "The account lacks privileges on the source now.",
}


_USUAL: WriteCause = "store_away"
_UNWRITTEN: Mapping[WriteCause, str] = {
    "disk": "A disk takes no files",
    "store_refused": "The store of the destination refuses the credentials",
    "store_away": "The store of the destination does not answer",
}


def cause_of(cause: object, *, refused: bool) -> Cause:
    """The cause in a `source.away`, or in `away` of `runner.json`. Older ones have only `refused`."""
    alert_cause: Cause = next((one for one in ALERTS if one == cause), "unreachable")
    return "login" if refused and alert_cause == "unreachable" else alert_cause


def outage(cause: Cause) -> str:
    """What keeps the run from its source: `The source is unreachable`."""
    return _SENTENCES[cause]


def over_when(cause: Cause) -> str:
    """What ends the outage, as a clause: `When the source answers`."""
    return _ENDS[cause]


def unwritten(cause: WriteCause) -> str:
    """What keeps the run from writing: `The store of the destination does not answer`, also for an unknown cause."""
    return _UNWRITTEN.get(cause, _UNWRITTEN[_USUAL])


def replaced_by(cause: Cause) -> str:
    """Why the alert for another cause ends."""
    return _REPLACED[cause]

"""Why a run does not get what it needs from its source: by cause, the words and the alert. Pure."""

from collections.abc import Mapping
from typing import Literal

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


def replaced_by(cause: Cause) -> str:
    """Why the alert for another cause ends."""
    return _REPLACED[cause]

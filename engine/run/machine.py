"""The states of a pipeline's runner, as a table of transitions.

starting ──► running ◄──► paused
    │           │            │
    └───────────┴──► stopping ──► ended
"""

from engine.errors import TidemarkError

TRANSITIONS: dict[str, dict[str, str]] = {
    "starting": {"started": "running", "stop": "stopping", "end": "ended"},
    "running": {"pause": "paused", "stop": "stopping", "end": "ended"},
    "paused": {"resume": "running", "stop": "stopping", "end": "ended"},
    "stopping": {"started": "stopping", "stop": "stopping", "end": "ended"},
    "ended": {},
}


class IllegalEventError(TidemarkError):
    """An event came that the state does not allow; the message names both."""


def after(state: str, event: str) -> str:
    """The state that follows. Raises IllegalEventError."""
    following = TRANSITIONS[state].get(event)
    if following is None:
        allowed = ", ".join(TRANSITIONS[state]) or "none"
        raise IllegalEventError(
            f"{event!r} is not possible while the pipeline is {state}.", hint=f"Possible now: {allowed}."
        )
    return following

"""What the console and `status` call the state of a pipeline and of its tables.

The words have one owner, so that both say the same.
"""

from collections.abc import Mapping
from typing import Literal

from engine.base.write_causes import WriteCause
from engine.journal.outage_causes import Cause

STORE_AWAY, STORE_REFUSED = "store_away", "store_refused"
STATES: Mapping[str, str] = {
    "new": "not started",
    "starting": "starting",
    "running": "running",
    "away": "source unreachable",
    "refused": "login refused",
    "privileges": "privileges missing",
    "full": "disk full",
    STORE_REFUSED: "credentials refused",
    STORE_AWAY: "store away",
    "table_stopped": "table stopped",
    "paused": "paused",
    "stopping": "stopping",
    "ended": "stopped",
    "failed": "failed",
    "lost": "runner lost",
}
"""By the state of a pipeline, as it is shown."""
AWAY_STATES: Mapping[Cause, str] = {"unreachable": "away", "login": "refused", "privileges": "privileges"}
"""The keys of `STATES` while a live runner does not get what it needs from its source."""
WRITE_STATES: Mapping[WriteCause, str] = {
    "disk": "full",
    "store_refused": STORE_REFUSED,
    "store_away": STORE_AWAY,
}
"""The keys of `STATES` while a live runner cannot write."""
RemovedFiles = Literal["kept", "dropping", "dropped"]
"""What becomes of the mirror and the change log of a removed table."""
_OWN = ("stopped", "removed")
"""States of a table that hold whatever its pipeline does."""
_NOT_RUNNING = "not running"
TABLE_STATES = ("waiting", "copying", "streaming", *_OWN, _NOT_RUNNING, *STATES.values())
"""Every state of a table, as it is shown."""


def shown_state(state: str, *, away: Cause | None, unwritten: WriteCause | None) -> str:
    """The key of `STATES` that is shown. state: of the runner.

    away: why a live runner does not get what it needs from its source. unwritten: why it cannot write.
    """
    if away is not None:
        return AWAY_STATES[away]
    return state if unwritten is None else WRITE_STATES[unwritten]


def table_state(state: str, shown: str) -> str:
    """The state of a table, as it is shown: that of its pipeline while nobody carries out its own.

    state: in the ledger or the journal. shown: the key of `STATES` of its pipeline.
    """
    if state in _OWN or shown in ("running", "table_stopped"):
        return state
    # A table that is "stopped" needs an operator, and one that "failed" would have failed itself.
    return _NOT_RUNNING if shown in ("ended", "failed") else STATES.get(shown, state)

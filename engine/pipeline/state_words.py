"""What the console and `status` call the state of a pipeline and of its tables.

The words have one owner, so that both say the same.
"""

from collections.abc import Mapping
from typing import Literal

from engine.base.write_causes import WriteFault
from engine.journal.outage_causes import Cause

STORE_AWAY: Literal["store_away"] = "store_away"
STORE_REFUSED: Literal["store_refused"] = "store_refused"
FROZEN: Literal["frozen"] = "frozen"
SILENT_SPARK: Literal["silent_spark"] = "silent_spark"
STATES: Mapping[str, str] = {
    "new": "not started",
    "starting": "starting",
    "running": "running",
    "away": "source unreachable",
    "refused": "login refused",
    "privileges": "privileges missing",
    "full": "disk full",
    "read_only": "file system read-only",
    "forbidden": "no permission to write",
    STORE_REFUSED: "credentials refused",
    STORE_AWAY: "store away",
    SILENT_SPARK: "Spark does not answer",
    "table_stopped": "table stopped",
    "paused": "paused",
    "stopping": "stopping",
    "ended": "stopped",
    "failed": "failed",
    "lost": "runner lost",
    FROZEN: "not responding",
}
"""By the state of a pipeline, as it is shown."""
AWAY_STATES: Mapping[Cause, str] = {"unreachable": "away", "login": "refused", "privileges": "privileges"}
"""The keys of `STATES` while a live runner does not get what it needs from its source."""
WRITE_ENDS: Mapping[WriteFault, str] = {
    "full": "there is room",
    "read_only": "the file system can be written",
    "forbidden": "the runner's user may write to the folder",
    STORE_REFUSED: "the store accepts the credentials",
    STORE_AWAY: "the store answers",
}
"""What ends an outage of writing, as the rest of a sentence. The keys are those of `STATES` meanwhile."""
WRITE_REASONS = tuple(STATES[fault] for fault in WRITE_ENDS)
"""How the reason of a run that cannot write begins."""
RemovedFiles = Literal["kept", "dropping", "dropped"]
"""What becomes of the mirror and the change log of a removed table."""
_OWN = ("stopped", "removed")
"""States of a table that hold whatever its pipeline does."""
_NOT_RUNNING = "not running"
TABLE_STATES = ("waiting", "copying", "streaming", *_OWN, _NOT_RUNNING, *STATES.values())
"""Every state of a table, as it is shown."""


def shown_state(state: str, *, away: Cause | None, unwritten: WriteFault | None, silent_spark: bool = False) -> str:
    """The key of `STATES` that is shown. state: of the runner.

    away: why a live runner does not get what it needs from its source. unwritten: why it cannot write. silent_spark:
    whether its Spark does not answer, so that it reads nothing.
    """
    if away is not None:
        return AWAY_STATES[away]
    return unwritten or (SILENT_SPARK if silent_spark and state in ("starting", "running") else state)


def table_state(state: str, pipeline_state: str) -> str:
    """The state of a table, as it is shown: that of its pipeline while nobody carries out its own.

    state: in the ledger or the journal. pipeline_state: the key of `STATES` of its pipeline.
    """
    if state in _OWN or pipeline_state in ("running", "table_stopped"):
        return state
    # A table that is "stopped" needs an operator, and one that "failed" would have failed itself.
    return _NOT_RUNNING if pipeline_state in ("ended", "failed") else STATES.get(pipeline_state, state)

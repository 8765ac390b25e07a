"""What the journal says of a run's progress: the phase, the states of tables, and what earlier runs had committed."""

from engine.events import TableResumed, TableStateChanged
from engine.journal import Journal
from engine.ledger.state import State
from engine.run.commands.heartbeat import Activity


class Progress:
    """Says what has changed since it was last asked."""

    def __init__(self, activity: Activity, journal: Journal) -> None:
        self._activity, self._journal = activity, journal
        self._shown: dict[str, str] = {}

    def resumed(self, state: State) -> None:
        """Say what earlier runs committed: one that was killed may not have written its last epoch to the journal."""
        for name, table in state.tables.items():
            if table.coverage.done and not table.copied:
                chunks = [list(ends) for ends in table.coverage.finished]
                self._journal.write(TableResumed(table=name, chunks=chunks))

    def show(self, state: State) -> None:
        """Say what changed: the phase, and the state of each table (`status` has the same words)."""
        self._activity.phase = "streaming" if state.copied else "snapshot"
        for name, table in (*state.tables.items(), *state.removed.items()):
            if self._shown.get(name) != table.state:
                self._shown[name] = table.state
                stopped = table.stopped if table.state == "stopped" else None
                reason, hint = (stopped["message"], stopped["hint"]) if stopped else (None, None)
                self._journal.write(TableStateChanged(table=name, state=table.state, reason=reason, hint=hint))

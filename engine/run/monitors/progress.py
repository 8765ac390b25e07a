"""Journals a run's progress: its phase, the states of tables, and the chunks that earlier runs committed."""

from collections.abc import Sequence

from engine.base.errors import DoubtfulRowsError
from engine.journal import Journal
from engine.journal.events import TableResumed, TableStateChanged
from engine.ledger.records import Due
from engine.ledger.state import State
from engine.run.commands.heartbeat import Activity


class ProgressEvents:
    """Journals changes since the last call."""

    def __init__(self, activity: Activity, journal: Journal) -> None:
        self._activity = activity
        self._journal = journal
        self._shown: dict[str, tuple[str, bool, str | None]] = {}

    def resumed(self, state: State) -> None:
        """Journal the chunks of earlier runs: a killed run may have committed an epoch without journaling it."""
        for name, table in state.tables.items():
            if table.coverage.done and not table.copied:
                chunks = [list(ends) for ends in table.coverage.finished]
                self._journal.write(TableResumed(table=name, chunks=chunks))

    def show_planning(self, tables: Sequence[str]) -> None:
        """Name the tables that are being planned to the heartbeat; none once their plans are committed."""
        self._activity.planning = tuple(tables)

    def show(self, state: State) -> None:
        """Journal changes of the phase, and of each table's state and the reason of its stop.

        `status` uses the same words.
        """
        self._activity.phase = "streaming" if state.copied else "snapshot"
        for name, table in (*state.tables.items(), *state.removed.items()):
            stopped = table.stopped if table.state == "stopped" else None
            resnapshots_itself = stopped is not None and table.due is not None and _is_doubt(table.due)
            reason, hint = (stopped.message, stopped.hint) if stopped else (None, None)
            news = (table.state, resnapshots_itself, reason)
            if self._shown.get(name) != news:
                self._shown[name] = news
                hint = "Nothing: Tidemark resnapshots it at once." if resnapshots_itself else hint
                self._journal.write(
                    TableStateChanged(
                        table=name, state=table.state, reason=reason, hint=hint, resnapshots_itself=resnapshots_itself
                    )
                )


def _is_doubt(due: Due) -> bool:
    """Whether a resnapshot was decided because rows of the binlog are in doubt."""
    return due.why is not None and due.why.error == DoubtfulRowsError.__name__

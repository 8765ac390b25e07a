"""What a run still has to do: for its goal, and for who waits for the next epoch."""

from collections.abc import Callable

from engine.ledger.state import State
from engine.run.commands.accepted_commands import AcceptedCommands
from engine.run.epochs.pending_chunks import PendingChunks
from engine.run.lifecycle.refused_tables import RefusedTables
from engine.run.redump.executor import RedumpExecutor
from engine.run.snapshot.parking import Parking
from engine.run.snapshot.scheduler import SnapshotScheduler
from engine.run.tables.membership import MembershipChanges


class PendingWork:
    """The pending work of one coordinator. state: the committed one."""

    def __init__(
        self,
        state: Callable[[], State],
        commands: AcceptedCommands,
        membership: MembershipChanges,
        snapshot: SnapshotScheduler,
        redumps: RedumpExecutor,
        chunks: PendingChunks,
        parking: Parking,
        refused: RefusedTables,
    ) -> None:
        self._state = state
        self._commands = commands
        self._membership = membership
        self._snapshot = snapshot
        self._redumps = redumps
        self._chunks = chunks
        self._parking = parking
        self._refused = refused

    @property
    def resnapshot_due(self) -> bool:
        """Whether a resnapshot was decided and can begin."""
        return any(table.due and not self._refused.waits(name) for name, table in self._state().tables.items())

    @property
    def is_asked(self) -> bool:
        """Whether a command or a decision waits for the next epochs."""
        return self._commands.pending or self._membership.waiting or self.resnapshot_due

    @property
    def is_waited_for(self) -> bool:
        """Whether a copy or a command waits for the next epochs."""
        return self.is_asked or self._redumps.waiting or not self._state().copied

    @property
    def _is_refused(self) -> bool:
        """Whether a resnapshot still waits for a privilege."""
        tables = self._state().tables.items()
        return any(
            table.due and self._refused.waits(name) and self._refused.is_temporary(name) for name, table in tables
        )

    @property
    def is_copied(self) -> bool:
        """Whether all tables are copied and committed, and no command waits; parked chunks do not count."""
        if self._is_refused:
            return False
        done = self._state().copied and self._snapshot.idle and not self._chunks.frozen and not self.is_asked
        return done or self._only_parked()

    def _only_parked(self) -> bool:
        """Whether only parked chunks remain, and no command waits for anything else."""
        busy = self._chunks.frozen or self._chunks.stopped or self.resnapshot_due or not self._snapshot.idle
        tables = self._state().tables
        waits = self._membership.waiting or not self._redumps.blocked(tables)
        return bool(self._parking.pending(tables)) and not busy and not waits

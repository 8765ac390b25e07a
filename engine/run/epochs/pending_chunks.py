"""The finished chunks and the stopped tables that wait for the commit of an epoch."""

from collections.abc import Callable, Sequence

from engine.base.errors import ErrorRecord, TidemarkError, stop_of
from engine.capture.captured_tables import CapturedTables
from engine.run.epochs.delivery import Delivery
from engine.run.epochs.epoch_reader import EpochReader
from engine.run.redump.executor import RedumpExecutor
from engine.run.snapshot.mutable_keys import ReplacedFiles
from engine.run.snapshot.retries import Batch
from engine.run.snapshot.scheduler import SnapshotScheduler
from engine.run.snapshot.table_copy import Finished
from engine.source.positions import Position


class PendingChunks:
    """Collects the chunks of the snapshot until an epoch publishes them. Used by one thread.

    frozen: the finished chunks. stopped: the errors of tables that stop with the next epoch. require_connections:
    raises the error of a batch whose reader was refused a connection, if the run does not save them yet.
    """

    def __init__(
        self,
        captured: CapturedTables,
        snapshot: SnapshotScheduler,
        redumps: RedumpExecutor,
        reader: EpochReader,
        delivery: Delivery,
        require_connections: Callable[[Batch], None],
    ) -> None:
        self._captured = captured
        self._snapshot = snapshot
        self._redumps = redumps
        self._reader = reader
        self._delivery = delivery
        self._require_connections = require_connections
        self._replaced: dict[tuple[str, int], ReplacedFiles] = {}
        self.frozen: list[Finished] = []
        self.stopped: dict[str, ErrorRecord] = {}

    @property
    def waiting(self) -> bool:
        """Whether anything waits for an epoch, redumped chunks included."""
        return bool(self.frozen or self.stopped or self._redumps.waiting)

    def gather(self) -> None:
        """Take what the snapshot's jobs have returned. Raises the errors that end the run."""
        batch = self._snapshot.collect()
        for finished in batch.finished:
            self._redumps.take(finished) if finished.redump else self.frozen.append(finished)
        for name, error in batch.failed.items():
            self._redumps.failed(name, error)
        for name, error in batch.stopped.items():
            self.stop(name, error)
        self._require_connections(batch)

    def stop(self, name: str, error: TidemarkError) -> None:
        """Stop reading a table; the next epoch commits that it stopped."""
        self.drop(name)
        self.stopped[name] = stop_of(error, name)

    def drop(self, name: str) -> None:
        """Discard the table's uncommitted chunks and the running reads of it."""
        self._snapshot.drop(name)
        self._redumps.drop(name)
        self.frozen = [f for f in self.frozen if f.table != name]

    def due(self, position: Position) -> list[Finished]:
        """The chunks that an epoch starting at `position` may publish."""
        forwarded = self._reader.fast_forward(self.frozen, position)
        self._replaced = forwarded.replaced
        for name, error in forwarded.stopped.items():
            self.stop(name, error)
        return [f for f in forwarded.chunks if f.table not in self.stopped]

    def with_files(self, frozen: Sequence[Finished]) -> list[Finished]:
        """The chunks whose files still exist. The others are read again, because someone deleted their files."""
        are_complete = self._delivery.have_files([(f.table, self._captured.chunks(f.table), f.files) for f in frozen])
        complete = list[Finished]()
        for finished, is_complete in zip(frozen, are_complete, strict=True):
            if is_complete:
                complete.append(finished)
            else:
                self.frozen.remove(finished)
                self._snapshot.lost(finished)
        return complete

    def published(self, frozen: Sequence[Finished]) -> None:
        """Record that an epoch has committed these chunks, and delete the files that theirs replace."""
        identities = {f.identity for f in frozen}
        self.frozen = [f for f in self.frozen if f.identity not in identities]
        for identity in identities:
            if (replaced := self._replaced.pop(identity, None)) is not None:
                replaced.folder.delete(replaced.names)

    def stops_committed(self) -> None:
        """Record that the ledger has all stops."""
        self.stopped = {}

    def forget_stop(self, name: str) -> None:
        """Do not stop a table that has joined or left meanwhile."""
        self.stopped.pop(name, None)

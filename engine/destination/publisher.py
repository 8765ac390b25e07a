"""The publisher: a thread that applies committed epochs to the destination, in order, while the coordinator continues.

It keeps no essential state. After a crash, the ledger has the epochs it did not apply, the destination's transaction
identifiers show those it did, and `recover` applies the difference.
"""

import math
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from engine.base import clock
from engine.base.errors import PipelineHeldError, TidemarkError
from engine.destination.capabilities import PublishesFormats
from engine.destination.change_log_looks import ChangeLogLooks
from engine.destination.destination_protocol import MERGE, Destination
from engine.destination.epoch_replay import EpochReplay
from engine.destination.epoch_retention import EpochRetention
from engine.destination.freshness import CommitTimes, FreshnessMeter
from engine.destination.further_sink import FurtherSink
from engine.destination.maintenance_schedule import Maintenance
from engine.destination.published_tables import PublishedTables, TableAction
from engine.destination.table_progress import needed_epochs
from engine.journal import Journal
from engine.journal.destination_events import SinkApplied
from engine.ledger.records import EpochRecord
from engine.ledger.store import Ledger
from engine.spec.sink_settings import Sink

_QUEUE_EPOCHS = 64
_SLACK_S = 2.0
_NO_CHANGES: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class _Marker:
    """Queued after epochs; `reached_event` is set once they are applied and merged."""

    reached_event: threading.Event
    last: bool
    """Whether the thread ends here."""


class Publisher:
    """Applies epochs. `submit` queues one; `finish` waits until all are applied and merged.

    The next call raises the thread's error.
    """

    def __init__(
        self,
        sink: Sink,
        destination: Destination,
        ledger: Ledger,
        journal: Journal,
        through_full_disk: Callable[[TableAction], None] = lambda step: step(),
        retention: EpochRetention | None = None,
        further: Sequence[FurtherSink] = (),
    ) -> None:
        self.destination = destination
        self.further = further
        self._retention = retention or EpochRetention(ledger, destination.landing)
        self.tables = PublishedTables(destination, ledger, journal, self._on_commit, through_full_disk)
        self._retention.keep(partial(needed_epochs, self.tables.targets))
        self._replay = EpochReplay(sink, self.tables, ledger, journal, self._retention.prune)
        self._looks = ChangeLogLooks(self.tables)
        self.maintenance = Maintenance(sink, journal, ledger.file_names)
        self._sink = sink
        self._ledger = ledger
        self._journal = journal
        self._queue: queue.Queue[EpochRecord | _Marker] = queue.Queue(_QUEUE_EPOCHS)
        self._error: BaseException | None = None
        self._copy_epochs: dict[str, int] = {}
        self._resnapshot_epochs: dict[str, int] = {}
        """By table, the epoch of the last submitted resnapshot."""
        self._submitted_epochs: list[tuple[float, int, str]] = []
        """When epochs with changes were submitted (`clock.monotonic_s`) that may not be applied yet, and one of their
        tables."""
        self.freshness = FreshnessMeter()
        self.append_s = 0.0
        """How long the last epochs took to append, in seconds."""
        self._appended_s = -math.inf
        self._slack_s = 0.0
        self._hurried_tables: dict[str, int] = {}
        """The tables to merge as soon as they have an epoch, and the epoch."""
        self._hurry_lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="publisher", daemon=True)

    @property
    def facts(self) -> tuple[int, Mapping[str, Mapping[str, int]]]:
        """The epoch up to which every sink has everything, and the last applied epochs of the first one.

        Those are by table and kind.
        """
        through, applied = self._replay.facts
        behind = (sink.through for sink in self.further)
        return min([through, *(epoch for epoch in behind if epoch is not None)]), applied

    def record_through(self, through: int) -> None:
        """Record that the ledger has the facts up to this epoch, so that it may prune epochs up to there."""
        self._retention.recorded_epoch = through

    def is_released(self, table: str) -> bool:
        """Whether a removed table is completely applied, so that nothing writes to its destination any more."""
        return table not in self.tables.leaving_tables and table not in self.tables.targets

    def has_copy(self, table: str) -> bool:
        """Whether a table's mirror has the last chunk of its newest copy, and nothing of an older copy."""
        return self._copy_epochs.get(table, -1) <= self._replay.applied_epoch

    def unrepaired_tables(self) -> dict[str, TidemarkError]:
        """The tables with a failed destination that nothing else takes care of, with the errors.

        A stop or a committed resnapshot would.
        """
        applied, failed = (
            self._replay.applied_epoch,
            self.tables.failed_tables(),
        )  # in this order: an epoch that was applied may have failed since
        return {name: error for name, error in failed.items() if self._resnapshot_epochs.get(name, -1) <= applied}

    def unmerged_files(self, table: str) -> list[str]:
        """The committed files of a table's change log that its mirror may lack, in order."""
        return self._replay.unmerged_files(table)

    def _on_commit(self, applied: SinkApplied | None) -> None:
        if applied is not None:
            self._journal.write(applied)
            self.maintenance.count_commit(applied.table, is_merge=applied.kind == "merge")
            if applied.kind != "append":
                self.freshness.merged(applied.table, applied.through_epoch)

    def recover(self) -> int:
        """Apply what earlier runs committed but did not apply, and start the thread.

        Returns the number of epochs checked.
        """
        epochs = self._replay.apply_kept(self.tables.state)
        self._thread.start()
        for sink in self.further:
            sink.start(self._replay.has_everything)
        return epochs

    def submit(
        self, record: EpochRecord, commits: CommitTimes | None = None, changes: Mapping[str, int] = _NO_CHANGES
    ) -> None:
        """Queue a committed epoch; blocks when the destination is far behind.

        commits: when its changes were committed on the source, if that is known. changes: their number, by table.
        """
        self.check()
        for name in [name for name, part in record.tables.items() if part.resnapshot or part.removed]:
            self.freshness.forget(name)
        if commits is not None and changes:
            self.freshness.committed(record.epoch, commits, changes, _mirrored_tables(self.tables, changes))
        self.tables.leaving_tables.update(name for name, part in record.tables.items() if part.removed)
        self._copy_epochs.update({name: record.epoch for name, part in record.tables.items() if part.copied})
        self._resnapshot_epochs.update({name: record.epoch for name, part in record.tables.items() if part.resnapshot})
        if changed_table := next((name for name, part in record.tables.items() if part.changes), None):
            later = [one for one in self._submitted_epochs if one[1] > self._replay.applied_epoch]
            self._submitted_epochs = [*later, (clock.monotonic_s(), record.epoch, changed_table)]
        self._put(record)
        for sink in self.further:
            sink.note_epoch(record, commits, changes)

    def merge_soon(self, tables: Iterable[str], epoch: int) -> None:
        """Merge tables as soon as this epoch is applied, whatever it costs; called by the coordinator's thread."""
        with self._hurry_lock:
            self._hurried_tables |= {name: max(epoch, self._hurried_tables.get(name, -1)) for name in tables}

    def can_be_read(self, tables: Iterable[str], epoch: int) -> bool:
        """Whether the mirrors have all changes of this epoch, or will never get them.

        The coordinator's thread calls it.
        """
        if self._replay.applied_epoch < epoch:
            return False
        targets = [target for name in tables if (target := self.tables.targets.get(name)) is not None]
        return all(target.error is not None or target.has_merged(epoch) for target in targets)

    def submit_after(self, epoch: int) -> None:
        """Queue all epochs that the ledger has after this one."""
        for number in range(epoch + 1, self.tables.state.epoch + 1):
            self.submit(self._ledger.epoch(number))

    def oldest_mirror(self) -> tuple[float, str | None]:
        """As in `PublishedTables`. Changes that wait in the queue count too: the destination may not answer at all."""
        now_s, applied, oldest = clock.monotonic_s(), self._replay.applied_epoch, self.tables.oldest_mirror()
        waiting_epochs = [(now_s - since_s, name) for since_s, epoch, name in self._submitted_epochs if epoch > applied]
        return max([oldest, *waiting_epochs], key=lambda one: one[0])

    def _put(self, item: EpochRecord | _Marker) -> None:
        while True:
            try:
                self._queue.put(item, timeout=0.5)
            except queue.Full:
                self.check()
            else:
                return

    def drain(self) -> None:
        """Wait until all queued epochs are applied and merged, or have failed (`missing_epochs`)."""
        self._put(marker := _Marker(threading.Event(), last=False))
        while not marker.reached_event.wait(0.5):
            self.check()

    def finish(self, *, drains: bool = False) -> None:
        """Wait until all queued epochs are applied and merged, or have failed; then end the thread.

        drains: further sinks apply all epochs too, unless they fail.
        """
        if self._thread.is_alive():
            self._put(_Marker(threading.Event(), last=True))
            self._thread.join()
        for sink in self.further:
            sink.finish(drains=drains)
        self.check()

    def check(self) -> None:
        """Raises the error that ended the thread, if any."""
        if isinstance(self._error, PipelineHeldError):
            raise self._error
        if self._error is not None:
            raise TidemarkError(
                f"Publishing to {self.destination.root} failed: {self._error}",
                detail="Everything committed is in the ledger and its files; "
                "the destination gets it when the pipeline runs again.",
                hint="Check the destination (space, permissions), then start the pipeline again.",
            ) from self._error

    def _work(self) -> None:
        has_maintenance = False
        try:
            while True:
                has_appended = False
                wait_s = min(max(self._due_in_s + self._slack_s, 0.05), 1.0) if self._replay.has_pending_work else 1.0
                try:
                    record = self._queue.get(timeout=0.0 if has_maintenance else wait_s)
                except queue.Empty:
                    pass
                else:
                    records, marker = self._take_queued(record)
                    began_s, has_appended = clock.monotonic_s(), True
                    self._slack_s = min(began_s - self._appended_s, _SLACK_S, self._sink.merge_interval_s) / 2
                    self._replay.append(records)
                    failed = {name for name, target in self.tables.targets.items() if target.error is not None}
                    self.freshness.appended(self._replay.applied_epoch, failed)
                    self._appended_s = clock.monotonic_s()
                    self.append_s = self._appended_s - began_s
                    if marker is not None:
                        self._replay.merge_all()
                        if marker.last and isinstance(self.destination, PublishesFormats):
                            self.destination.finish_formats()
                        marker.reached_event.set()
                        if marker.last:
                            return
                self._merge_hurried()
                # Right after an epoch, if one is near: else the mirror would be older by the time between two epochs.
                if self._replay.has_pending_work and self._due_in_s <= (
                    self._slack_s if has_appended else -self._slack_s
                ):
                    self._replay.merge_all(only_due=True)
                targets = self.tables.targets.items()
                self.freshness.merged_through({name: one.applied_epochs.get(MERGE, -1) for name, one in targets})
                self._looks.look()
                # Then look for epochs before the next step, but do not wait for one.
                has_maintenance = self.maintenance.run_one(self.tables.targets)
        except BaseException as error:  # noqa: BLE001 - raised again by `check` in the coordinator's thread
            self._error = error

    def _merge_hurried(self) -> None:
        """Merge the tables that were asked for and have the epoch."""
        with self._hurry_lock:
            names = [name for name, epoch in self._hurried_tables.items() if epoch <= self._replay.applied_epoch]
            self._hurried_tables = {name: epoch for name, epoch in self._hurried_tables.items() if name not in names}
        self.tables.merge_all(name for name in names if name in self.tables.targets)

    @property
    def _due_in_s(self) -> float:
        """Seconds until the next merge."""
        return self._replay.last_merge_s + self._sink.merge_interval_s - clock.monotonic_s()

    def _take_queued(self, first: EpochRecord | _Marker) -> tuple[list[EpochRecord], _Marker | None]:
        """Take the queued epochs from this one on, up to a marker.

        One commit for many epochs costs no more than for one.
        """
        records: list[EpochRecord] = []
        while not isinstance(first, _Marker):
            records.append(first)
            try:
                first = self._queue.get_nowait()
            except queue.Empty:
                return records, None
        return records, first


def _mirrored_tables(tables: PublishedTables, names: Iterable[str]) -> list[str]:
    """The tables among these whose mirrors have a complete copy, and get their changes by merges."""
    states, targets = tables.state.tables, tables.targets
    return [
        name
        for name in names
        if name in states and states[name].copied and name in targets and targets[name].destination.mirror
    ]

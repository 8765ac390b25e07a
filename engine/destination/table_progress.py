"""The publication state of one table: applied epochs, files waiting for a merge, and parts it lacks.

Only the publisher's thread uses it. Failed operations may be repeated: the destination knows what it has.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from engine.base import clock
from engine.base.errors import TidemarkError
from engine.capture.files import DataFile
from engine.decode.schema import Table
from engine.destination.capabilities import CompletesCopies, SeparatesEpochs, TableMaintenance
from engine.destination.destination_protocol import CHUNKS, Content, CopyStart, DestinationTable, MirrorStep
from engine.destination.merge_schedule import MergeSchedule
from engine.journal.destination_events import SinkApplied
from engine.ledger.records import TableChange
from engine.plan.chunks import Plan
from engine.spec.sink_settings import Sink

_MERGE_ROWS = 4_000_000
"""The approximate limit of changes per merge, whose keys are held in memory."""
EpochPart = tuple[int, TableChange]
"""An epoch's number and its record of one table."""
EpochFile = tuple[int, DataFile]
"""A file and its epoch."""


@dataclass
class Resnapshot:
    """A new copy that began with an epoch. The mirror keeps the old copy until the last chunk is finished."""

    epoch: int
    parts: list[EpochPart] = field(default_factory=list)
    changed_since_s: float | None = None
    """When the first change after it began came (`clock.monotonic_s`); None without one."""


@dataclass
class Target:
    """One table's destination."""

    destination: DestinationTable
    maintenance: TableMaintenance | None
    mutable_key: bool
    """Whether rows move between chunks; all changes are then merged before a chunk is added
    (`capture.chunk.fast_forward`)."""
    applied_epochs: dict[str, int]
    """The last epoch applied to it, by kind: chunks, changes, merge."""
    on_commit: Callable[[SinkApplied | None], None]
    """Called with the result of each commit."""
    table_bytes: int = 0
    """The source's estimate, as of the last plan."""
    waiting_files: list[EpochFile] = field(default_factory=list)
    """Change files that are not merged yet."""
    waiting_since_s: float | None = None
    """When the first of them began to wait; None if the mirror lacks nothing."""
    schedule: MergeSchedule = field(default_factory=MergeSchedule)
    resnapshot: Resnapshot | None = None
    error: TidemarkError | None = None
    """Why nothing more is written to it."""
    missing_parts: list[EpochPart] = field(default_factory=list)
    """Epochs committed since the error."""
    failed_since_s: float | None = None
    """Since when nothing has been written to it because of the error (`clock.monotonic_s`)."""

    @property
    def lacks_since_s(self) -> float | None:
        """Since when the mirror has lacked a change (`clock.monotonic_s`); None if it lacks none.

        One that takes nothing counts as lacking: nobody knows what it has.
        """
        waiting_s = self.resnapshot.changed_since_s if self.resnapshot else self.waiting_since_s
        return min((s for s in (waiting_s, self.failed_since_s) if s is not None), default=None)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the change files that wait for a merge."""
        return sum(file.bytes for _, file in self.waiting_files)

    def fail(self, error: TidemarkError, missing_parts: Sequence[EpochPart] = ()) -> None:
        """Write nothing more to it. missing_parts: the epochs that it did not take."""
        self.error = error
        self.missing_parts = [*self.missing_parts, *missing_parts]
        if self.failed_since_s is None:
            self.failed_since_s = clock.monotonic_s()

    def reopen(self) -> list[EpochPart]:
        """Write to it again, because a resnapshot follows. Returns the epochs that it lacks."""
        missing_parts = self.missing_parts
        self.missing_parts = []
        self.error = None
        self.waiting_files = []
        return missing_parts

    @property
    def needed_epochs(self) -> set[int]:
        """The epochs that the ledger must keep for it."""
        epochs = {epoch for epoch, _ in (*self.missing_parts, *self.waiting_files)}
        resnapshot = self.resnapshot
        return epochs | ({resnapshot.epoch, *(epoch for epoch, _ in resnapshot.parts)} if resnapshot else set())

    def apply(self, parts: Sequence[EpochPart]) -> None:
        """Apply the parts of some epochs. The last part may end a copy or remove the table."""
        epoch, last = parts[-1]
        if self.resnapshot is None:
            self._publish(parts)
        else:
            changes = files_of_parts(parts)[1]
            self.append("changes", changes)
            if changes and self.resnapshot.changed_since_s is None:
                self.resnapshot.changed_since_s = clock.monotonic_s()
            known_epochs = {epoch for epoch, _ in self.resnapshot.parts}
            self.resnapshot.parts += [part for part in parts if part[0] not in known_epochs]
            if last.copied:
                self._complete_resnapshot(self.resnapshot, epoch)
        if last.removed is not None and not last.removed.drop:
            self.merge()

    def merge(self) -> None:
        """Merge the waiting files in commits of bounded size. Each commit ends at the end of an epoch."""
        while self.waiting_files:
            rows, end = 0, len(self.waiting_files)
            for n, (epoch, file) in enumerate(self.waiting_files):
                if rows > _MERGE_ROWS and epoch != self.waiting_files[n - 1][0]:
                    end = n
                    break
                rows += file.rows
            files = self.waiting_files[:end]
            through = files[-1][0]
            began_s = clock.monotonic_s()
            applied = self._apply_to_mirror(Content([MirrorStep(changes=[file for _, file in files])], merge=through))
            ended_s = clock.monotonic_s()
            changed_bytes = sum(file.bytes for _, file in files)
            self.schedule.count_merge(
                ended_s, ended_s - began_s, applied.written_bytes if applied else 0, changed_bytes
            )
            self.on_commit(applied)
            self.applied_epochs["merge"], self.waiting_files = through, self.waiting_files[end:]
        self.waiting_since_s = None

    def has_merged(self, epoch: int) -> bool:
        """Whether the mirror has all changes up to this epoch.

        May be called by another thread, once the epoch is applied.
        """
        return self.resnapshot is None and not any(number <= epoch for number, _ in list(self.waiting_files))

    def merge_due(self, sink: Sink) -> bool:
        """Whether the waiting changes are worth a merge (`destination.merge_schedule`)."""
        return self.schedule.is_due(sink, self.waiting_bytes, clock.monotonic_s())

    def append(self, kind: str, files: Sequence[EpochFile]) -> None:
        """Add the files of chunks or changes that are not applied yet."""
        new_files = self._new_files(kind, files)
        is_separate = isinstance(self.destination, SeparatesEpochs)
        for epoch, some in groupby(new_files, lambda one: one[0] if is_separate else new_files[-1][0]):
            self.on_commit(self.destination.append(kind, epoch, [file for _, file in some]))
            self.applied_epochs[kind] = epoch

    def alter(self, table: Table, epoch: int) -> None:
        """Switch the table to new columns after this epoch."""
        self.destination.alter(table, epoch, copy_follows=self.resnapshot is not None)

    def begin_resnapshot(self, table: Table, plan: Plan, epoch: int, until: str, *, empties_mirror: bool) -> CopyStart:
        """Begin a resnapshot after this epoch.

        until: when the epoch was committed. empties_mirror: the pipeline copies nothing, so the mirror is emptied
        instead.
        """
        copy_start = self.destination.begin_copy(table, plan, epoch, until)
        self.applied_epochs["changes"] = max(self.applied_epochs["changes"], copy_start.generation)
        if self.destination.mirror is None:
            # Files of earlier copies are not for this one. Rows that are read back have the epoch itself.
            self.applied_epochs[CHUNKS] = max(self.applied_epochs[CHUNKS], copy_start.generation - 1)
            self._forget_waiting()
            if empties_mirror:  # nothing else says that this copy is complete
                complete_copy(self, epoch)
        elif empties_mirror:
            self._forget_waiting()
            if self.applied_epochs["chunks"] < epoch:
                self.on_commit(self._apply_to_mirror(Content([], chunks=epoch, merge=epoch, replaces=True)))
                self.applied_epochs["chunks"] = self.applied_epochs["merge"] = epoch
        return copy_start

    def _apply_to_mirror(self, content: Content) -> SinkApplied | None:
        mirror = self.destination.mirror
        assert mirror is not None
        return mirror.apply(content)

    def _publish(self, parts: Sequence[EpochPart]) -> None:
        (epoch, last), (chunks, changes) = parts[-1], files_of_parts(parts)
        if self.mutable_key and self._new_files("chunks", chunks):
            self.merge()
        if last.copied and self.destination.mirror is not None:
            if sum(file.rows for _, file in self.waiting_files) > _MERGE_ROWS:
                self.merge()
            self._complete_first(epoch, chunks, changes)
            return
        # With a mutable key, a row may have moved from one chunk to another by a change of an earlier epoch.
        for some in [[part] for part in parts] if self.destination.mirror is None and self.mutable_key else [parts]:
            own_chunks, own_changes = files_of_parts(some)
            self.append("chunks", own_chunks)
            if some[-1][1].copied:
                complete_copy(self, some[-1][0])
            self.append("changes", own_changes)
        if self.destination.mirror is not None:
            self.waiting_files += self._unmerged_files(changes)
            if self.waiting_files and self.waiting_since_s is None:
                self.waiting_since_s = clock.monotonic_s()

    def _complete_first(self, epoch: int, chunks: Sequence[EpochFile], changes: Sequence[EpochFile]) -> None:
        """Commit the last chunk of the first copy together with all changes.

        From then on the mirror equals the source.
        """
        self.append("changes", changes)
        merged_files = [*self.waiting_files, *self._unmerged_files(changes)]
        step = MirrorStep([file for _, file in self._new_files("chunks", chunks)], [file for _, file in merged_files])
        if epoch > min(self.applied_epochs["chunks"], self.applied_epochs["merge"]):
            self.on_commit(self._apply_to_mirror(Content([step], chunks=epoch, merge=epoch)))
        self.applied_epochs |= {kind: max(epoch, self.applied_epochs[kind]) for kind in ("chunks", "merge")}
        self.waiting_files = []
        self.waiting_since_s = None

    def _complete_resnapshot(self, resnapshot: Resnapshot, epoch: int) -> None:
        """Commit the last chunk of a new copy: all chunks and the changes since replace the mirror's content."""
        if self.applied_epochs["chunks"] < epoch:
            parts = list(_groups(resnapshot.parts, 0 if self.mutable_key else _MERGE_ROWS))
            content = Content(list(_steps(parts)), chunks=epoch, merge=epoch, replaces=True)
            self.on_commit(self._apply_to_mirror(content))
            self.applied_epochs["chunks"] = self.applied_epochs["merge"] = epoch
        self._forget_waiting()

    def _forget_waiting(self) -> None:
        """The mirror was replaced, and lacks nothing."""
        self.resnapshot = None
        self.waiting_files = []
        self.waiting_since_s = None
        self.failed_since_s = None

    def _unmerged_files(self, changes: Sequence[EpochFile]) -> list[EpochFile]:
        """The changes that are neither merged nor waiting for a merge."""
        waiting_epochs = {epoch for epoch, _ in self.waiting_files}
        return [one for one in self._new_files("merge", changes) if one[0] not in waiting_epochs]

    def _new_files(self, kind: str, files: Sequence[EpochFile]) -> list[EpochFile]:
        """The files of epochs that are not applied yet."""
        return [(epoch, file) for epoch, file in files if epoch > self.applied_epochs[kind]]


def needed_epochs(targets: Mapping[str, Target]) -> dict[str, set[int]]:
    """The epochs that the ledger must keep, by table; called by any thread."""
    return {name: target.needed_epochs for name, target in list(targets.items())}


def files_of_parts(parts: Sequence[EpochPart]) -> tuple[list[EpochFile], list[EpochFile]]:
    """The files of chunks and of changes, with their epochs."""
    chunks = [(epoch, f) for epoch, part in parts for chunk in part.chunks for f in chunk.files]
    changes = [(epoch, f) for epoch, part in parts for f in part.change_files]
    return [(epoch, DataFile(**f)) for epoch, f in chunks], [(epoch, DataFile(**f)) for epoch, f in changes]


def _groups(parts: Sequence[EpochPart], most_rows: int) -> Iterator[list[EpochPart]]:
    """Split the parts into groups of more than `most_rows` changes; 0: one part a group."""
    group, rows = list[EpochPart](), 0
    for part in parts:
        group.append(part)
        rows += sum(file.rows for _, file in files_of_parts([part])[1])
        if rows > most_rows or not most_rows:
            yield group
            group, rows = [], 0
    if group:
        yield group


def _steps(parts: Sequence[Sequence[EpochPart]]) -> Iterator[MirrorStep]:
    for group in parts:
        chunks, changes = files_of_parts(group)
        yield MirrorStep([file for _, file in chunks], [file for _, file in changes])


def complete_copy(target: Target, epoch: int) -> None:
    """Tell a destination that all rows of a copy are appended, if it has to know."""
    if isinstance(target.destination, CompletesCopies):
        target.on_commit(target.destination.complete_copy(epoch))

"""One captured table for a writer."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.base.errors import DestinationError, SpecError
from engine.base.wording import shell_word
from engine.capture.files import DataFile, check_files
from engine.capture.landing import Landing
from engine.decode.schema import TM_SEQ, Table
from engine.destination.destination_protocol import CHANGES, CHUNKS, MERGE, CopyStart, OpenedTable, StoredState
from engine.destination.staged_rows import rows_of
from engine.destination.writer.writes import Call, Writes
from engine.destination.writer.written_epochs import ProgressFile, WriterProgress, WrittenEpochs
from engine.journal.destination_events import SinkApplied
from engine.ledger.state import Owner
from engine.plan.chunks import Plan
from engine.store.folder import Folder


@dataclass(frozen=True)
class SharedWriter:
    """What the tables of one destination share. kind: `sink.type`. guard: the term of this runner."""

    kind: str
    root: Folder
    owner: Owner
    landing: Landing
    writes: Writes
    guard: Callable[[], int]


class WriterTable:
    """Gives the rows of files to the writer."""

    def __init__(self, shared: SharedWriter, table: Table) -> None:
        self._shared = shared
        self._file = ProgressFile(shared.root, table)
        self.table = table

    @property
    def mirror(self) -> None:
        """There is none."""

    @property
    def place(self) -> str:
        """The folder in which is noted what was written."""
        return self._shared.root.url

    @property
    def is_there(self) -> bool:
        """Whether this ledger's runner has opened it."""
        progress = self._read()
        return progress is not None and progress.ledger == self._shared.owner.ledger

    def last_epoch(self, kind: str) -> int:
        """By its file; without the lineage's floor."""
        try:
            progress = self._read()
        except DestinationError:
            return -1
        return -1 if progress is None else progress.of(self._shared.owner.application).epoch(kind)

    def read_state(self) -> StoredState:
        """By its file."""
        try:
            progress = self._read()
        except DestinationError as error:
            return StoredState(fault=error.message)
        if progress is None:
            return StoredState(fault=f"the note in {self.place} of what was written of {self.table.full_name} is gone")
        if progress.ledger != self._shared.owner.ledger:
            return StoredState(fault=f"{self.place} belongs to another ledger ({progress.ledger})")
        return StoredState(_epochs(self._shared.owner, progress), frozenset({progress.term} if progress.term else ()))

    def check(self, before: Table | None, after: Table) -> None:
        """Any columns will do. A table that joins needs a note of its own."""
        if before is None and self._read() is not None:
            raise SpecError(
                f"A note of what was written of {self.table.full_name} exists already in {self.place}.",
                detail="Nothing was written.",
                hint="If another pipeline has it, choose another path of the sink. Otherwise move that folder away.",
            )

    def open(self, *, must_exist: bool, copied_as: Table | None = None) -> OpenedTable:
        """Note that it begins, if nothing is noted. A copy of another count of epochs is another copy."""
        progress, count = self._read(), self._shared.owner.application
        if progress is not None and progress.ledger != self._shared.owner.ledger:
            raise SpecError(
                f"The folder {self.place} does not belong to this pipeline's ledger.",
                detail="Nothing was written.",
                hint="Choose another path of the sink, or move that folder away.",
            )
        if copied_as is not None:
            self.table = copied_as
        elif must_exist and progress is None:
            raise DestinationError(
                f"The note in {self.place} of what was written of {self.table.full_name} is gone.",
                detail="Nothing was written.",
                hint=f"Resnapshot the table: tidemark redump SPEC --table {shell_word(self.table.full_name)}",
            )
        if progress is None or count not in progress.epochs:
            begun = progress or self._nothing()
            self._store(replace(begun, copies=begun.copies + 1).with_epochs(count, WrittenEpochs()))
        return OpenedTable(_epochs(self._shared.owner, self._progress()), is_new=progress is None)

    def append(self, kind: str, epoch: int, files: Sequence[DataFile]) -> SinkApplied | None:
        """Give the rows to the writer, then note the epoch."""
        shared, began_s, progress = self._shared, time.monotonic(), self._progress()
        if not files or _epochs(self._shared.owner, progress)[kind] >= epoch:
            return None
        shared.guard()
        folder = shared.landing.chunks(self.table) if kind == CHUNKS else shared.landing.changes(self.table)
        check_files(folder, files)
        count = 0
        for number, rows in enumerate(rows_of(folder, files)):
            shared.writes.write(self.table, rows, Call(epoch, progress.copies, f"{kind}-{number}"))
            count += rows.num_rows
        epochs = progress.of(shared.owner.application).with_epoch(kind, epoch)
        largest = max(progress.largest_seq, *(file.high.get(TM_SEQ, 0) for file in files))
        self._store(replace(progress.with_epochs(shared.owner.application, epochs), largest_seq=largest))
        return SinkApplied(
            sink=shared.kind,
            table=self.table.full_name,
            kind="append",
            through_epoch=epoch,
            rows=count,
            files=len(files),
            duration_s=round(time.monotonic() - began_s, 6),
        )

    def alter(self, table: Table, epoch: int, *, copy_follows: bool) -> None:
        """Later rows have the new columns."""
        self.table = table

    def begin_copy(self, table: Table, plan: Plan, epoch: int, until: str) -> CopyStart:
        """The rows of the new copy follow; files of earlier ones are not written any more."""
        self.table = table
        progress, count = self._progress(), self._shared.owner.application
        epochs = progress.of(count)
        if epochs.begun < epoch:
            chunks, changes = max(epochs.chunks, epoch - 1), max(epochs.changes, epoch)
            after = progress.with_epochs(count, WrittenEpochs(chunks, changes, epoch))
            self._store(replace(after, copies=progress.copies + 1))
        return CopyStart(max(epochs.begun, epoch))

    def forget_rows(self) -> None:
        """The rows that come are another copy, if some of the newest one may be written already."""
        progress = self._progress()
        epochs = progress.of(self._shared.owner.application)
        if epochs.chunks < epochs.begun:
            self._store(replace(progress, copies=progress.copies + 1))

    def drop(self) -> None:
        """Forget what is noted, but for the number of copies. What the writer has made of the rows stays."""
        if self.is_there:
            self._store(replace(self._nothing(), is_dropped=True))

    @property
    def largest_seq(self) -> int:
        """The largest `_tm_seq` that was written."""
        progress = self._read()
        return 0 if progress is None else progress.largest_seq

    @property
    def separates_epochs(self) -> bool:
        """The rows name their epoch."""
        return True

    def _progress(self) -> WriterProgress:
        return self._read() or self._nothing()

    def _read(self) -> WriterProgress | None:
        """What is noted; None for nothing, or a table that was dropped."""
        progress = self._file.read()
        return None if progress is None or progress.is_dropped else progress

    def _nothing(self) -> WriterProgress:
        """What is noted of a table that begins. It may have been there before."""
        progress = self._file.read()
        return WriterProgress(self._shared.owner.ledger, copies=0 if progress is None else progress.copies)

    def _store(self, progress: WriterProgress) -> None:
        self._file.write(replace(progress, term=self._shared.guard()))


def _epochs(owner: Owner, progress: WriterProgress) -> dict[str, int]:
    """The last epochs by kind."""
    epochs = progress.of(owner.application)
    changes = max(epochs.changes, owner.floor)
    return {CHUNKS: max(epochs.chunks, owner.floor), CHANGES: changes, MERGE: changes}

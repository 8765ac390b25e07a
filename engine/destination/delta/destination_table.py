"""One captured table in a Delta destination: what the publisher calls to apply epochs to its mirror and its change log."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.capture.files import DataFile
from engine.decode.schema import Table
from engine.destination.delta.mirror_table import Content, Step
from engine.destination.delta.table_pair import TablePair
from engine.journal.events import SinkApplied


@dataclass(frozen=True)
class CopyBegun:
    """How a resnapshot began."""

    generation: int
    """The epoch with which the change log's generation began; -1 for the first one."""
    kept: Path | None
    """Where an earlier generation of the change log is kept, if one ended."""


class DeltaDestinationTable:
    """Applies epochs to a pair of Delta tables."""

    def __init__(self, pair: TablePair) -> None:
        self.pair = pair

    @property
    def table(self) -> Table:
        """The captured table as it is published."""
        return self.pair.table

    @table.setter
    def table(self, table: Table) -> None:
        self.pair.table = table

    def append(self, kind: str, epoch: int, files: Sequence[DataFile]) -> SinkApplied | None:
        """Add files to the mirror ("chunks") or the change log ("changes"); None if they were added before."""
        began_s = time.monotonic()
        if not self.pair.lake_of(kind).append(kind, epoch, files):
            return None
        return self._applied("append", epoch, sum(file.rows for file in files), len(files), began_s)

    def merge(self, epoch: int, files: Sequence[DataFile]) -> SinkApplied | None:
        """Merge the changes in `files`, in order, into the mirror, which then equals the source at the end of `epoch`.

        None if the mirror has this epoch already: a runner that lost the pipeline must not turn it back.
        """
        return self.apply(Content([Step(changes=files)], merge=epoch)) if files else None

    def replace(
        self, epoch: int, steps: Sequence[Step], through: int | None = None, since: int | None = None
    ) -> SinkApplied | None:
        """Replace everything in the mirror by these files; None if it has this epoch's chunks already.

        through: the epoch of the last changes in the steps. since: if there is none, the epoch after which merges continue.
        """
        merge = through if through is not None else since
        return self.apply(Content(steps, chunks=epoch, merge=merge, replaces=True))

    def apply(self, content: Content) -> SinkApplied | None:
        """Apply chunks and changes to the mirror in one commit; None if it has them."""
        began_s = time.monotonic()
        written = self.pair.mirror.apply(self.table, content)
        if written is None:
            return None
        number = content.merge if content.chunks is None else content.chunks
        assert number is not None
        kind = "merge" if content.chunks is None else "replace" if content.replaces else "append"
        taken = sum(len(step.chunks) + len(step.changes) for step in content.steps)
        applied = self._applied(kind, number, written.rows, taken, began_s)
        changed = sum(file.bytes for step in content.steps for file in step.changes)
        return replace(applied, changed_bytes=changed, written_bytes=written.bytes)

    def _applied(self, kind: str, epoch: int, rows: int, files: int, began_s: float) -> SinkApplied:
        return SinkApplied(
            sink="delta",
            table=self.table.full_name,
            kind=kind,
            through_epoch=epoch,
            rows=rows,
            files=files,
            duration_s=round(time.monotonic() - began_s, 6),
        )

    def check(self, before: Table, after: Table) -> None:
        """Raises IncompatibleColumnsError when the change log with the columns of `before` cannot get those of `after`."""
        self.pair.changes.check(before, after)

    def alter(self, table: Table, epoch: int, *, copying: bool) -> None:
        """Get the columns that the table has after an epoch. copying: a new copy follows, which alters the mirror."""
        self.pair.table = table
        self.pair.changes.evolve(table, epoch)
        if self.pair.changes.generation > epoch:
            return  # a later resnapshot has replaced the columns
        self.pair.create(expected=False)
        if table.key and not copying:
            self.pair.mirror.widen(table)

    def begin_copy(self, table: Table, epoch: int, until: str) -> CopyBegun:
        """Begin a resnapshot after this epoch. until: when the epoch was committed, UTC text."""
        self.pair.table = table
        kept = self.pair.changes.begin_generation(table, epoch, until)
        generation = self.pair.changes.generation
        if generation <= epoch:
            self.pair.create(expected=False)  # a table that got a key gets a mirror
        return CopyBegun(generation, kept)

    def drop_lost(self) -> list[str]:
        """Before a resnapshot: remove missing files from the change log. Returns their names, which are a gap in it.

        The mirror's files are not checked: the resnapshot replaces all of them.
        """
        self.pair.mirror.lake.forget_recent()
        return self.pair.changes.drop_lost()

    def check_recent(self) -> None:
        """Check again the files added since the last check. Raises MissingFilesError if any is missing."""
        for lake in (self.pair.mirror.lake, self.pair.changes.lake):
            lake.check_recent()

    def housekeeping_failures(self) -> list[str]:
        """What failed after commits since the last call."""
        logs = [lake.log for lake in (self.pair.mirror.lake, self.pair.changes.lake)]
        found = [log.failure for log in logs if log.failure]
        for log in logs:
            log.failure = ""
        return found

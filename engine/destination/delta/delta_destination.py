"""The Delta destination: writes the mirror and the change log of one captured table.

Readers write the Parquet files in place and a commit adds them, so nothing is copied twice.

Once its first copy is complete, every version of a mirror is the source between two transactions. Each change of the mirror is
one commit (`destination.delta.merge.mirror_files`) that takes it to the end of an epoch: the newest image of each key replaces or
deletes its row. A merge up to epoch k comes after the chunks of all epochs up to k. Chunks that are added later than some of its
epochs do no harm: by the rule of emission, none of those epochs has changes of these chunks.

A table without identity has no mirror: its chunk goes to the change log as inserts.

A resnapshotted table keeps its mirror until the last chunk is finished; one commit then replaces all of it with the chunks and the
changes since. Columns dropped at the source stay in the destination, with NULL in new rows.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from engine.base.durable import discarding
from engine.capture.binlog.row_changes import log_schema
from engine.capture.files import DataFile
from engine.decode.arrow_schema import arrow_schema
from engine.decode.schema import Table
from engine.destination.delta.generations import GENERATION, can_become, keep
from engine.destination.delta.log.delta_actions import (
    VECTORS_ENABLED,
    Actions,
    metadata_of,
    needed_features,
    protocol_of,
)
from engine.destination.delta.log.delta_log import DeltaLog
from engine.destination.delta.log.vector_log import FEATURE
from engine.destination.delta.maintenance.steps import MaintainedTables
from engine.destination.delta.merge.mirror_files import MirrorFiles
from engine.destination.delta.merge.rewritten_changes import restore, restored_path
from engine.destination.delta.schema_evolution import check_evolution, mirror_schema, schema_of, united, widened
from engine.destination.delta.table_pair import SEQ
from engine.destination.delta.table_properties import is_on_read, properties_of
from engine.journal.events import SinkApplied


@dataclass(frozen=True)
class Step:
    """Files that a commit applies to a mirror: first the chunks, then the changes, each in epoch order."""

    chunks: Sequence[DataFile] = ()
    changes: Sequence[DataFile] = ()


class DeltaTables(MaintainedTables):
    """The two Delta tables of one captured table (`destination.delta.table_pair`), with write access."""

    def append(self, kind: str, epoch: int, files: Sequence[DataFile]) -> SinkApplied | None:
        """Add files to the mirror ("chunks") or the change log ("changes"); None if they were added before."""
        began, folder = time.monotonic(), self._folder(kind)

        def actions() -> Actions | None:
            if not files or self._known(kind) >= epoch:
                return None
            return Actions("WRITE", {self._app(kind): epoch}, add=files)

        if not self._commit(folder, actions):
            return None
        rows = sum(file.rows for file in files)
        return self._applied("append", epoch, rows, len(files), began)

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

    def merge(self, epoch: int, files: Sequence[DataFile]) -> SinkApplied | None:
        """Merge the changes in `files`, in order, into the mirror, which then equals the source at the end of `epoch`.

        None if the mirror has this epoch already: a runner that lost the pipeline must not turn it back.
        """
        return self.apply("merge", [Step(changes=files)], merge=epoch) if files else None

    def replace(
        self, epoch: int, steps: Sequence[Step], through: int | None = None, since: int | None = None
    ) -> SinkApplied | None:
        """Replace everything in the mirror by these files; None if it has this epoch's chunks already.

        through: the epoch of the last changes in the steps. since: if there is none, the epoch after which merges continue.
        """
        return self.apply("replace", steps, chunks=epoch, merge=through if through is not None else since)

    def apply(
        self, kind: str, steps: Sequence[Step], *, chunks: int | None = None, merge: int | None = None
    ) -> SinkApplied | None:
        """Apply chunks and changes, step by step, to the mirror in one commit; None if it has them.

        kind: "merge", "append", or "replace" to clear the mirror first. chunks, merge: the epochs that the mirror has afterwards.
        """
        began, prepared_files = time.monotonic(), list[MirrorFiles]()
        count = 0

        def actions() -> Actions | None:
            nonlocal count
            delta = self._load(self.mirror)
            copies = chunks is not None and self._known("chunks") < chunks
            merges = merge is not None and self._known("merge") < merge
            if not copies and not merges:
                return None
            discard()
            replaced = copies and kind == "replace"
            schema = self._columns(delta, replaced=replaced)
            on_read = self.on_read if replaced else is_on_read(delta)
            files = MirrorFiles(
                self.mirror, schema, self.table, self._logs[self.mirror].files(delta), on_read, self.index
            )
            prepared_files.append(files)
            count = _apply_steps(files, self._steps(steps), clear=replaced, copies=copies, merges=merges)
            files.finish()
            properties = properties_of(self.table, mirror=True) if replaced else {}
            if on_read != is_on_read(delta):
                properties[VECTORS_ENABLED] = str(on_read).lower()
            known = properties.items() <= delta.metadata().configuration.items()
            transactions = self._transactions(steps, chunks if copies else None, merge if merges else None)
            if replaced:  # the new copy includes the whole change log, even changes missing there
                transactions[self._app(SEQ)] = self.largest_seq()
            return Actions(
                "MERGE" if kind == "merge" else "WRITE",
                transactions,
                files.added,
                files.removed,
                None if known and schema == schema_of(delta) else metadata_of(delta, schema, properties),
                protocol_of(delta, [*needed_features(schema), *([FEATURE] if on_read else [])]),
                mode="Overwrite" if replaced else "Append",
            )

        def discard() -> None:
            while prepared_files:
                prepared_files.pop().discard()

        with discarding(discard):
            if not self._commit(self.mirror, actions):
                return None
        prepared_files[-1].drop_unused()
        for file in (file for step in steps for file in step.changes):
            restored_path(self.changes, file).unlink(missing_ok=True)
        number = merge if chunks is None else chunks
        assert number is not None
        taken = sum(len(step.chunks) + len(step.changes) for step in steps)
        applied = self._applied(kind, number, count, taken, began)
        changed = sum(file.bytes for step in steps for file in step.changes)
        return replace(applied, changed_bytes=changed, written_bytes=prepared_files[-1].written_bytes)

    def _transactions(self, steps: Sequence[Step], chunks: int | None, merge: int | None) -> dict[str, int]:
        transactions = {} if chunks is None else {self._app("chunks"): chunks}
        if merge is not None:
            transactions[self._app("merge")] = merge
            if sequences := [file.high["_tm_seq"] for step in steps for file in step.changes if "_tm_seq" in file.high]:
                transactions[self._app(SEQ)] = max(sequences)
        return transactions

    def _steps(self, steps: Sequence[Step]) -> list[tuple[Sequence[DataFile], list[Path]]]:
        return [(step.chunks, [self._change_file(file) for file in step.changes]) for step in steps]

    def _change_file(self, file: DataFile) -> Path:
        """Where the changes of an epoch are; written again if another tool has moved them within the change log."""
        path, again = self.changes / file.name, restored_path(self.changes, file)
        if path.exists():
            return path
        if not again.exists():
            delta = self._load(self.changes)
            restore(self.changes, file, self._logs[self.changes].files(delta), schema_of(delta))
        return again if again.exists() else path

    def _columns(self, delta: DeltaTable, *, replaced: bool) -> pa.Schema:
        """The columns after the commit: only a new copy widens columns."""
        if not replaced:
            return schema_of(delta)
        wanted = mirror_schema(self.table)
        names = {name.casefold() for name in wanted.names}
        kept = [field for field in schema_of(delta) if field.name.casefold() not in names]
        return pa.schema([*wanted, *kept])

    def check(self, before: Table, after: Table) -> None:
        """Raises IncompatibleColumnsError when the change log with the columns of `before` cannot evolve to those of `after`."""
        if not self._logs[self.changes].there:
            return  # it will be created
        current = united(schema_of(self._load(self.changes)), log_schema(arrow_schema(before)))
        check_evolution(after.full_name, current, log_schema(arrow_schema(after)))

    def evolve(self, table: Table, epoch: int) -> None:
        """Set the table's columns after an epoch: add missing ones to the change log, and widen its types.

        A generation of the change log that began later has the columns of that time.
        """
        self.table = table
        if self.generation > epoch:
            return
        log = self._logs[self.changes]
        wanted = log_schema(arrow_schema(table))
        current = schema_of(self._load(self.changes))
        both = united(current, wanted)  # never narrower: an older epoch may be applied again
        if any(both.field(name).type != current.field(name).type for name in current.names):
            self._widen(log, both)
        else:
            self._add_columns(log, both)

    def begin_generation(self, table: Table, epoch: int, until: str) -> Path | None:
        """Give the change log the columns of a table that is resnapshotted after this epoch. until: UTC text.

        If it cannot get them, it begins again (`destination.delta.generations`). Returns where the earlier one is kept, if that is
        so.
        """
        self.table = table
        log, wanted = self._logs[self.changes], log_schema(arrow_schema(table))
        delta, begun = self._load(self.changes), self.generation >= epoch
        if begun or can_become(table.full_name, schema_of(delta), wanted):
            is_new = log.version == 0
            self.evolve(table, epoch)
            if is_new and not begun:  # it has nothing of earlier epochs, and gets nothing
                self._commit(self.changes, lambda: Actions("WRITE", self._generation(epoch)))
            return None
        kept = keep(self.changes, schema_of(delta), log.files(delta), self._description, until)

        def emptied() -> Actions:
            delta = self._load(self.changes)
            metadata = metadata_of(delta, wanted, self._properties(self.changes))
            protocol = protocol_of(delta, needed_features(wanted))
            return Actions("WRITE", self._generation(epoch), (), log.files(delta), metadata, protocol, mode="Overwrite")

        self._commit(self.changes, emptied)
        return kept

    def _generation(self, epoch: int) -> dict[str, int]:
        return {self._app(GENERATION): epoch, self._app("changes"): epoch}

    def widen_mirror(self) -> None:
        """Add the table's new columns to the mirror, leaving the types of its other columns."""
        if self.table.key:
            self._add_columns(self._logs[self.mirror], mirror_schema(self.table))

    def _widen(self, log: DeltaLog, schema: pa.Schema) -> None:
        """Rewrite a change log with wider types."""

        def actions() -> Actions:
            delta = self._load(log.folder)
            before, bounded = log.files(delta), (*self.table.key, "_tm_seq")
            after = [new for file in before for new in widened(log.folder, file, schema, bounded)]
            protocol = protocol_of(delta, needed_features(schema))
            return Actions("WRITE", {}, after, before, metadata_of(delta, schema), protocol)

        self._commit(log.folder, actions)


def _apply_steps(
    files: MirrorFiles,
    steps: Sequence[tuple[Sequence[DataFile], list[Path]]],
    *,
    clear: bool,
    copies: bool,
    merges: bool,
) -> int:
    """Apply the steps to a mirror's files. Returns the number of rows added and keys merged."""
    count = 0
    if clear:
        files.clear()
    for chunks, changes in steps:
        if copies:
            files.add(chunks)
            count += sum(file.rows for file in chunks)
        if merges and changes:
            count += files.merge(changes)
    return count

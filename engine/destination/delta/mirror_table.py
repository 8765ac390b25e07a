"""The mirror of one captured table: a Delta table that equals the source.

Once its first copy is complete, every version of a mirror is the source between two transactions. Each change of the
mirror is one commit (`destination.delta.merge.mirror_files`) that takes it to the end of an epoch: the newest image of
each key replaces or deletes its row. A merge up to epoch k comes after the chunks of all epochs up to k. Chunks that
are added later than some of its epochs do no harm: by the rule of emission, none of those epochs has changes of these
chunks.

A resnapshotted table keeps its mirror until the last chunk is finished; one commit then replaces all of it with the
chunks and the changes since. Columns dropped at the source stay in the mirror, with NULL in new rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable

from engine.base.durable import discarding
from engine.decode.schema import TM_SEQ, Table
from engine.destination.delta.change_log_table import ChangeLogTable
from engine.destination.delta.lake_table import LakeTable
from engine.destination.delta.log.delta_actions import (
    VECTORS_ENABLED,
    Actions,
    metadata_of,
    needed_features,
    protocol_of,
)
from engine.destination.delta.log.vector_log import FEATURE
from engine.destination.delta.merge.key_index import KeyIndex
from engine.destination.delta.merge.mirror_files import MirrorFiles
from engine.destination.delta.schema_evolution import mirror_schema, schema_of
from engine.destination.delta.table_properties import is_on_read, properties_of
from engine.destination.destination_protocol import CHUNKS, MERGE, MERGED_SEQ, Content, MirrorStep
from engine.store.folder import Folder


@dataclass(frozen=True)
class CommitSize:
    """The result of a commit to a mirror."""

    rows: int
    """Rows added and keys merged."""
    bytes: int
    """Bytes of the files that it wrote."""


class MirrorTable:
    """A mirror, with write access.

    changes: its change log. on_read: whether a mirror that is created, or replaced by a resnapshot, merges changes on
    read.
    """

    def __init__(self, lake: LakeTable, changes: ChangeLogTable, *, on_read: bool) -> None:
        self.lake = lake
        self._changes = changes
        self.on_read = on_read
        self.index: KeyIndex | None = None

    @property
    def folder(self) -> Folder:
        """The folder of the Delta table."""
        return self.lake.folder

    def create(self, table: Table, *, must_exist: bool) -> None:
        """Create it if it does not exist (`LakeTable.create`)."""
        properties = properties_of(table, mirror=True)
        self.lake.create(
            mirror_schema(table), properties, must_exist=must_exist, vectors=self.on_read, all_columns=False
        )

    def add_columns(self, table: Table) -> None:
        """Add the table's new columns, and leave the types of the others."""
        self.lake.add_columns(mirror_schema(table), properties_of(table, mirror=True))

    def merged_seq(self) -> int:
        """The `_tm_seq` up to which the change log is merged; -1 if unknown."""
        self.lake.refresh()
        seq = self.lake.newest(MERGED_SEQ)
        return -1 if seq is None else seq

    def files_at(self, delta: DeltaTable, table: Table) -> MirrorFiles:
        """The files of a version, to be rewritten without a change of rows."""
        return MirrorFiles(self.folder, schema_of(delta), table, self.lake.log.files(delta), is_on_read(delta))

    def apply(self, table: Table, content: Content) -> CommitSize | None:
        """Apply chunks and changes in one commit; None if the mirror has them."""
        prepared, rows = list[MirrorFiles](), 0

        def discard() -> None:
            while prepared:
                prepared.pop().discard()

        def actions() -> Actions | None:
            nonlocal rows
            delta = self.lake.load()
            copies = content.chunks is not None and self.lake.loaded_epoch(CHUNKS) < content.chunks
            merges = content.merge is not None and self.lake.loaded_epoch(MERGE) < content.merge
            if not copies and not merges:
                return None
            discard()
            replaced = copies and content.replaces
            schema = _replaced_columns(delta, table) if replaced else schema_of(delta)
            on_read = self.on_read if replaced else is_on_read(delta)
            stored = self.lake.log.files(delta)
            files = MirrorFiles(self.folder, schema, table, stored, on_read, self.index)
            prepared.append(files)
            if replaced:
                files.clear()
            rows = self._apply_steps(files, content.steps, copies=copies, merges=merges)
            files.finish()
            properties = properties_of(table, mirror=True) if replaced else {}
            if on_read != is_on_read(delta):
                properties[VECTORS_ENABLED] = str(on_read).lower()
            has_properties = properties.items() <= delta.metadata().configuration.items()
            transactions = self._transactions(content, copies=copies, merges=merges)
            if replaced:  # the new copy includes the whole change log, even changes missing there
                transactions[self.lake.app(MERGED_SEQ)] = self._changes.largest_seq()
            return Actions(
                "WRITE" if copies else "MERGE",
                transactions,
                files.added_files,
                files.removed_files,
                None if has_properties and schema == schema_of(delta) else metadata_of(delta, schema, properties),
                protocol_of(delta, [*needed_features(schema), *([FEATURE] if on_read else [])]),
                mode="Overwrite" if replaced else "Append",
            )

        with discarding(discard):
            if not self.lake.commit(actions):
                return None
        prepared[-1].drop_unused()
        self._changes.discard_copies()
        return CommitSize(rows, prepared[-1].written_bytes)

    def _apply_steps(self, files: MirrorFiles, steps: Sequence[MirrorStep], *, copies: bool, merges: bool) -> int:
        """Apply the steps to a mirror's files. Returns the number of rows added and keys merged."""
        count = 0
        for step in steps:
            if copies:
                files.add(step.chunks)
                count += sum(file.rows for file in step.chunks)
            if merges and step.changes:
                count += files.merge(self._changes.changes_of(step.changes))
        return count

    def _transactions(self, content: Content, *, copies: bool, merges: bool) -> dict[str, int]:
        transactions = dict[str, int]()
        if copies and content.chunks is not None:
            transactions[self.lake.app(CHUNKS)] = content.chunks
        if merges and content.merge is not None:
            transactions[self.lake.app(MERGE)] = content.merge
            changes = (file for step in content.steps for file in step.changes)
            if sequences := [file.high[TM_SEQ] for file in changes if TM_SEQ in file.high]:
                transactions[self.lake.app(MERGED_SEQ)] = max(sequences)
        return transactions


def _replaced_columns(delta: DeltaTable, table: Table) -> pa.Schema:
    """The columns of a new copy, which alone widens columns; those that the source has dropped stay."""
    wanted = mirror_schema(table)
    names = {name.casefold() for name in wanted.names}
    earlier_fields = [field for field in schema_of(delta) if field.name.casefold() not in names]
    return pa.schema([*wanted, *earlier_fields])

"""The change log of one captured table: a Delta table with every change, in binlog order.

Readers write the Parquet files in place and a commit adds them, so nothing is copied twice. A table without identity
has no mirror: its chunk goes to the change log as inserts. Columns dropped at the source stay, with NULL in new rows.
"""

from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa
from deltalake.exceptions import DeltaError

from engine.base.errors import MissingFilesError
from engine.base.wording import are_gone, shell_word
from engine.capture.binlog.row_changes import log_schema
from engine.capture.files import DataFile
from engine.decode.arrow_schema import arrow_schema
from engine.decode.schema import TM_SEQ, Table
from engine.destination.delta.folder_removal import drop
from engine.destination.delta.generations import can_become, keep, kept_generations
from engine.destination.delta.lake_table import COPY, GENERATION, LakeTable
from engine.destination.delta.log.delta_actions import Actions, metadata_of, needed_features, protocol_of
from engine.destination.delta.log.missing_files import missing_names
from engine.destination.delta.log.table_opening import open_table
from engine.destination.delta.merge.newest_images import ChangeFiles
from engine.destination.delta.merge.rewritten_changes import restore, restored_name
from engine.destination.delta.schema_evolution import check_evolution, rewrite_wider, schema_of, unite
from engine.destination.delta.table_properties import properties_of
from engine.destination.destination_protocol import CHANGES
from engine.store.folder import Folder


class ChangeLogTable:
    """A change log, with write access."""

    def __init__(self, lake: LakeTable) -> None:
        self.lake = lake
        self._copies = set[str]()
        """The files that `name_of` wrote, or found because a killed run had written them."""

    @property
    def folder(self) -> Folder:
        """The folder of the Delta table."""
        return self.lake.folder

    @property
    def generation(self) -> int:
        """The epoch with which its generation began; -1 for the first one."""
        self.lake.refresh()
        epoch = self.lake.newest(GENERATION)
        return -1 if epoch is None else epoch

    def largest_seq(self) -> int:
        """The largest `_tm_seq`, by the files' statistics; 0 for none."""
        return max((file.high.get(TM_SEQ, 0) for file in self.lake.files()), default=0)

    def create(self, table: Table, *, must_exist: bool) -> None:
        """Create it if it does not exist; else add what one of an earlier version lacks (`LakeTable.create`)."""
        properties = properties_of(table, mirror=False)
        schema = log_schema(arrow_schema(table))
        self.lake.create(schema, properties, must_exist=must_exist, vectors=False, all_columns=True)

    def drop(self) -> None:
        """Delete it and its earlier generations, as far as they belong to the ledger."""
        self.lake.drop()
        for generation in kept_generations(self.folder):
            with suppress(DeltaError, OSError):
                if self.lake.belongs(open_table(generation)):
                    drop(generation)

    def check(self, before: Table, after: Table) -> None:
        """Raises IncompatibleColumnsError when it cannot evolve from the columns of `before` to those of `after`."""
        if not self.lake.exists:
            return  # it will be created
        current = unite(schema_of(self.lake.load()), log_schema(arrow_schema(before)))
        check_evolution(after.full_name, current, log_schema(arrow_schema(after)))

    def evolve(self, table: Table, epoch: int) -> None:
        """Add the columns that a table has after an epoch, and widen types.

        A generation that began later has the columns of that time.
        """
        if self.generation > epoch:
            return
        current = schema_of(self.lake.load())
        both = unite(current, log_schema(arrow_schema(table)))  # never narrower: an older epoch may be applied again
        if any(both.field(name).type != current.field(name).type for name in current.names):
            self._widen(table, both)
        else:
            self.lake.add_columns(both, properties_of(table, mirror=False))

    def begin_generation(self, table: Table, epoch: int, until: str) -> Folder | None:
        """Get the columns of a table that is resnapshotted after this epoch. until: UTC text.

        If it cannot get them, it begins again (`destination.delta.generations`). Returns where the earlier generation
        is kept, if that is so. The ledger keeps the epoch, and each start comes here again, when the columns may be
        wider than those of that time: a resnapshot that has begun is not begun again.
        """
        log, wanted = self.lake.log, log_schema(arrow_schema(table))
        delta, generation = self.lake.load(), self.generation
        copy = self.lake.newest(COPY)
        begun = max(generation, -1 if copy is None else copy, self.lake.loaded_epoch(CHANGES) - 1) >= epoch
        if begun or can_become(table.full_name, schema_of(delta), wanted):
            is_new = log.version == 0
            self.evolve(table, epoch)
            if not begun:  # a new one has nothing of earlier epochs, and gets nothing
                transactions = self._begins(epoch) if is_new else {self.lake.app(COPY): epoch}
                self.lake.commit(lambda: Actions("WRITE", transactions))
            return None
        folder = keep(self.folder, schema_of(delta), log.files(delta), self.lake.description, until)

        def emptied() -> Actions:
            delta = self.lake.load()
            metadata = metadata_of(delta, wanted, properties_of(table, mirror=False))
            protocol = protocol_of(delta, needed_features(wanted))
            return Actions("WRITE", self._begins(epoch), (), log.files(delta), metadata, protocol, mode="Overwrite")

        self.lake.commit(emptied)
        return folder

    def _begins(self, epoch: int) -> dict[str, int]:
        return {self.lake.app(GENERATION): epoch, self.lake.app(CHANGES): epoch}

    def _widen(self, table: Table, schema: pa.Schema) -> None:
        """Rewrite it with wider types."""

        def actions() -> Actions:
            delta = self.lake.load()
            before, bounded = self.lake.log.files(delta), (*table.key, TM_SEQ)
            after = [new for file in before for new in rewrite_wider(self.folder, file, schema, bounded)]
            protocol = protocol_of(delta, needed_features(schema))
            return Actions("WRITE", {}, after, before, metadata_of(delta, schema), protocol)

        self.lake.commit(actions)

    def require_files(self, table: Table) -> None:
        """Raises MissingFilesError if a file is missing. Lists its folder once."""
        if names := self.lake.missing_files():
            raise MissingFilesError(
                f"{are_gone(len(names), 'data file', self.folder.url)}: {', '.join(names[:3])}.",
                detail="Readers of the change log fail. The changes of these files are lost; the mirror has them.",
                hint="Find out who deletes files there. Then resnapshot the table, which takes them out of the change "
                f"log: tidemark redump SPEC --table {shell_word(table.full_name)}",
            )

    def drop_lost(self) -> list[str]:
        """Remove missing files from it. Returns their names, which are a gap."""
        missing: list[str] = []

        def actions() -> Actions | None:
            files = self.lake.files()
            missing[:] = missing_names(files, self.folder)
            return Actions("FSCK", {}, remove=[f for f in files if f.name in missing]) if missing else None

        self.lake.commit(actions)
        return missing

    def name_of(self, file: DataFile) -> str:
        """The file with the changes of an epoch; written again if another tool has moved them within the change log."""
        again = restored_name(file)
        if self.folder.find(file.name) is not None:
            return file.name
        if self.folder.find(again) is None:
            delta = self.lake.load()
            if not restore(self.folder, file, self.lake.log.files(delta), schema_of(delta)):
                return file.name
        self._copies.add(again)
        return again

    def changes_of(self, files: Sequence[DataFile]) -> ChangeFiles:
        """The changes of these files of epochs, to be merged."""
        return ChangeFiles(self.folder, [self.name_of(file) for file in files], sum(file.rows for file in files))

    def discard_copies(self) -> None:
        """Delete what `name_of` wrote."""
        if self._copies:
            self.folder.delete(self._copies)
            self._copies = set()

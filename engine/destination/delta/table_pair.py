"""The two Delta tables of one captured table.

`<path>/<database>/<table>` is the mirror, and `<table>__changes` the change log.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from engine.base.errors import DestinationError
from engine.base.wording import are_gone
from engine.capture.binlog.row_changes import log_schema
from engine.decode.arrow_schema import arrow_schema
from engine.decode.schema import Table
from engine.destination.delta.change_log_table import ChangeLogTable
from engine.destination.delta.formats.iceberg_copy import IcebergCopy
from engine.destination.delta.formats.table_formats import TableFormats
from engine.destination.delta.lake_table import GENERATION, NO_GUARDS, TERM, Guards, LakeTable
from engine.destination.delta.layout import changes_folder, mirror_folder
from engine.destination.delta.log.delta_actions import Actions
from engine.destination.delta.log.epoch_positions import EpochPositions
from engine.destination.delta.log.kept_versions import KeptVersions
from engine.destination.delta.log.known_tables import KnownTables
from engine.destination.delta.mirror_table import MirrorTable
from engine.destination.delta.schema_evolution import mirror_schema
from engine.destination.delta.table_properties import properties_of
from engine.destination.destination_protocol import CHANGES, CHUNKS, KINDS, MERGE, MERGED_SEQ
from engine.ledger.state import Owner
from engine.store.folder import Folder


class TablePair:
    """The mirror and the change log of one captured table and one ledger.

    owner: the ledger. guards: called before they are written to. on_read: whether a mirror that is created, or
    replaced by a resnapshot, merges changes on read (`destination.delta.merge.mirror_files`). formats: the other
    formats that they are published in; None for none. positions: where epochs end, which commits name.
    """

    def __init__(
        self,
        root: Folder,
        owner: Owner,
        table: Table,
        guards: Guards = NO_GUARDS,
        *,
        on_read: bool = False,
        formats: TableFormats | None = None,
        positions: EpochPositions | None = None,
    ) -> None:
        self._table = table
        self._ledger = owner.ledger
        self.kept_versions = KeptVersions(root, owner.ledger)
        mirror, changes = (folder(root, table.database, table.name) for folder in (mirror_folder, changes_folder))
        # `optimize` bounds a mirror's files; a change log grows.
        name, kinds = table.full_name, (CHUNKS, MERGE, MERGED_SEQ)
        note_changes: Callable[[int], None] = _nothing
        note_mirror: Callable[[int], None] = _nothing
        if formats is not None:
            note_changes = formats.follow(changes)
            note_mirror = formats.follow(mirror, table.key)
        log_kinds = _log_kinds(table)
        log = LakeTable(
            changes, owner, name, log_kinds, guards, keeps=False, on_commit=note_changes, positions=positions
        )
        self.changes = ChangeLogTable(log)
        lake = LakeTable(mirror, owner, name, kinds, guards, keeps=True, on_commit=note_mirror, positions=positions)
        self.mirror = MirrorTable(lake, self.changes, on_read=on_read)
        self.guard = guards.deletion
        self.formats = formats

    @property
    def table(self) -> Table:
        """The captured table as it is published. A table without a key has no mirror."""
        return self._table

    @table.setter
    def table(self, table: Table) -> None:
        self._table = table
        self.changes.lake.kinds = _log_kinds(table)

    @property
    def lakes(self) -> Sequence[LakeTable]:
        """Its Delta tables: mirror and change log, or the change log alone."""
        return (self.mirror.lake, self.changes.lake) if self.table.key else (self.changes.lake,)

    def lake_of(self, kind: str) -> LakeTable:
        """The Delta table that gets chunks, changes or merges."""
        return self.mirror.lake if self.table.key and kind != CHANGES else self.changes.lake

    def create(self, *, must_exist: bool) -> None:
        """Create the tables that do not exist (`LakeTable.create`).

        must_exist: the ledger has published rows to them.
        """
        if self.table.key:
            self.mirror.create(self.table, must_exist=must_exist)
        self.changes.create(self.table, must_exist=must_exist)
        if self.formats is not None:
            self.formats.note_all({lake.folder: lake.log.version for lake in self.lakes})

    def check_free(self) -> None:
        """Raises SpecError when one exists already, whoever owns it, so that the table cannot join."""
        for lake in (self.mirror.lake, self.changes.lake):
            lake.check_free()

    def drop(self) -> None:
        """Delete those that exist and belong to the ledger; also completes an interrupted deletion."""
        if self.formats is not None:
            self.formats.drop()
        else:  # they may have been published under an earlier spec
            for lake in (self.mirror.lake, self.changes.lake):
                IcebergCopy(lake.folder, self._ledger, 3, ()).drop()
        self.mirror.lake.drop()
        self.changes.drop()

    @property
    def all_exist(self) -> bool:
        """Whether all its tables exist, whoever owns them."""
        return all(lake.exists for lake in self.lakes)

    @property
    def is_complete(self) -> bool:
        """Whether all its tables exist and belong to the ledger."""
        return all(lake.exists and lake.is_ours for lake in self.lakes)

    @property
    def any_is_there(self) -> bool:
        """Whether one of its tables exists and belongs to the ledger."""
        return any(lake.exists and lake.is_ours for lake in self.lakes)

    def fault(self) -> str:
        """Why the tables are not the ones this ledger has published to; "" if they are (`LakeTable.fault`)."""
        return next((fault for lake in self.lakes if (fault := lake.fault())), "")

    def missing_files(self) -> str:
        """The missing data files as text; "" if none is missing. Raises DestinationError."""
        files_by_folder = [(lake.folder, names) for lake in self.lakes if (names := lake.missing_files())]
        return "; ".join(
            f"{are_gone(len(names), 'data file', folder.url)}: {', '.join(names[:3])}"
            for folder, names in files_by_folder
        )

    def repair(self, *, accepts_loss: bool = False) -> list[str]:
        """Set aside commits torn by a power cut.

        Returns their names. Raises DestinationError when later commits rest on them.

        accepts_loss: give up the actions of those instead, because a resnapshot follows.
        """
        self.guard()
        return [
            f"{lake.folder.name}/{name}" for lake in self.lakes for name in lake.log.repair(accepts_loss=accepts_loss)
        ]

    def commit_term(self) -> None:
        """Commit this runner's term to both: from then on a commit prepared by an earlier runner is rejected."""
        for lake in self.lakes:
            lake.commit(lambda: Actions("TERM", {}))

    def terms(self) -> set[int]:
        """The terms of the runners that made the newest commits; empty if none is known."""
        for lake in self.lakes:
            lake.refresh()
        return {term for lake in self.lakes if (term := lake.newest(TERM)) is not None}

    def last_epoch(self, kind: str) -> int:
        """The last epoch whose "chunks", "changes" or "merge" is in the destination; -1 for none."""
        return self.lake_of(kind).last_epoch(kind)

    def readable_epochs(self) -> dict[str, int]:
        """As `last_epoch`, by kind, of the tables that can be read."""
        epochs = {}
        for kind in KINDS:
            with suppress(DestinationError):
                if (lake := self.lake_of(kind)).exists and lake.is_ours:
                    epochs[kind] = lake.last_epoch(kind)
        return epochs

    def merged_seq(self) -> int:
        """The `_tm_seq` up to which the change log is merged into the mirror; -1 if unknown."""
        return self.mirror.merged_seq() if self.table.key else -1

    def file_names(self) -> set[str]:
        """The names of the tables' current data files."""
        return {file.name for lake in self.lakes for file in lake.files()}

    def keep_in_memory(self, *, stays: bool) -> None:
        """Whether the change log's newest version stays in memory too, which a start needs several times."""
        log = self.changes.lake.log
        log.keeps = stays
        if not stays:
            log.forget()

    def recall(self, known_tables: KnownTables) -> bool:
        """Take the tables as the last run left them.

        Returns False if one has changed, or was checked for something else.
        """
        expectations = self._expectations()
        return all(lake.recall(known_tables, expectations[lake.folder]) for lake in self.lakes)

    def remember(self) -> dict[str, dict[str, Any]]:
        """The tables as this run leaves them, for the next run's `recall`; without those that have just changed."""
        descriptions, expectations = dict[str, dict[str, Any]](), self._expectations()
        for lake in self.lakes:
            descriptions |= lake.remember(expectations[lake.folder])
        return descriptions

    def _expectations(self) -> dict[Folder, object]:
        """What `create` checks each table for, by folder."""
        schemas = {
            self.mirror.folder: mirror_schema(self.table),
            self.changes.folder: log_schema(arrow_schema(self.table)),
        }
        expectations = dict[Folder, object]()
        for folder, schema in schemas.items():
            properties = properties_of(self.table, mirror=folder == self.mirror.folder)
            expectations[folder] = sorted(properties.items()), [(field.name, str(field.type)) for field in schema]
            if self.formats is not None:
                expectations[folder] = expectations[folder], self.formats.iceberg, self.formats.catalog
        return expectations


def _nothing(_: int) -> None:
    """What is done after a commit to a table without other formats."""


def _log_kinds(table: Table) -> Sequence[str]:
    """The transaction identifiers of a change log. One without a mirror has those of chunks, too."""
    return (CHANGES, GENERATION) if table.key else (*KINDS, GENERATION)

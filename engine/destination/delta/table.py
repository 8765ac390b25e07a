"""One captured table in a Delta destination: applies epochs to its mirror and its change log."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from deltalake.exceptions import DeltaError

from engine.base.errors import DestinationError
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.capture.files import DataFile
from engine.decode.schema import Table
from engine.destination.delta.log.known_tables import KnownTables
from engine.destination.delta.log.log_files import commit_name, log_of
from engine.destination.delta.log.lost_commits import check_contiguous
from engine.destination.delta.log.table_opening import open_table
from engine.destination.delta.maintenance.steps import PairMaintenance
from engine.destination.delta.pair_versions import PairVersions
from engine.destination.delta.table_pair import TablePair
from engine.destination.destination_protocol import KINDS, Content, CopyStart, OpenedTable, StoredState
from engine.journal.destination_events import SinkApplied
from engine.plan.chunks import Plan
from engine.spec.sink_settings import Sink
from engine.store.folder import Folder


class DeltaMirror:
    """The mirror of a pair of Delta tables."""

    def __init__(self, pair: TablePair) -> None:
        self._pair = pair

    def apply(self, content: Content) -> SinkApplied | None:
        """Apply chunks and changes in one Delta commit."""
        began_s = time.monotonic()
        table = self._pair.table
        commit = self._pair.mirror.apply(table, content)
        if commit is None:
            return None
        number = content.merge if content.chunks is None else content.chunks
        assert number is not None
        kind = "merge" if content.chunks is None else "replace" if content.replaces else "append"
        file_count = sum(len(step.chunks) + len(step.changes) for step in content.steps)
        event = _event(table, kind, number, commit.rows, file_count, began_s)
        changed_bytes = sum(file.bytes for step in content.steps for file in step.changes)
        return replace(event, changed_bytes=changed_bytes, written_bytes=commit.bytes)


class DeltaDestinationTable:
    """Applies epochs to a pair of Delta tables.

    known_tables: as the last run left them; None if that is not to be used. notes: the folder for what maintenance
    knows of the table; None for readers.
    """

    def __init__(
        self, sink: Sink, pair: TablePair, known_tables: KnownTables | None = None, notes: Path | None = None
    ) -> None:
        self.pair = pair
        self._notes = notes
        self._sink = sink
        self._known_tables = known_tables
        self._missing_files: list[str] = []

    @property
    def table(self) -> Table:
        """The captured table as it is published."""
        return self.pair.table

    @table.setter
    def table(self, table: Table) -> None:
        self.pair.table = table

    @property
    def mirror(self) -> DeltaMirror | None:
        """That of a table with a key, by which rows are merged."""
        return DeltaMirror(self.pair) if self.table.key else None

    @property
    def place(self) -> str:
        """The folders of both Delta tables."""
        return f"{self.pair.mirror.folder.url} and {self.pair.changes.folder.url}"

    @property
    def is_there(self) -> bool:
        """Whether all its Delta tables exist and belong to the ledger."""
        return self.pair.is_complete

    def last_epoch(self, kind: str) -> int:
        """By the identifiers in the newest version, read by itself; without the lineage's floor."""
        lake = self.pair.lake_of(kind)
        try:
            epoch = open_table(lake.folder).transaction_version(lake.app(kind))
        except (StoreAwayError, StoreAccessError):
            raise
        except (DeltaError, OSError):
            return -1
        return -1 if epoch is None else int(epoch)

    def open(self, *, must_exist: bool, copied_as: Table | None = None) -> OpenedTable:
        """Open both Delta tables; create those that are not there."""
        if copied_as is not None:
            return self._open_for_copy(copied_as)
        self.pair.keep_in_memory(stays=self._known_tables is not None)
        if self._known_tables is not None and self.pair.recall(self._known_tables):
            return OpenedTable(self._applied_epochs(), is_unchanged=True)
        repaired_commits = self.pair.repair()
        self.pair.create(must_exist=must_exist)
        return OpenedTable(self._applied_epochs(), repaired_commits)

    def _open_for_copy(self, table: Table) -> OpenedTable:
        is_new = not self.pair.changes.lake.exists
        if is_new:
            self.pair.table = table
        seen_versions = {lake.folder: lake.log.version for lake in self.pair.lakes}  # the repair removes torn commits
        repaired_commits = self.pair.repair(accepts_loss=True)
        self._missing_files += _accept_loss(self.pair, seen_versions)
        self.pair.create(must_exist=False)
        return OpenedTable(self._applied_epochs(), repaired_commits, is_new=is_new)

    def _applied_epochs(self) -> dict[str, int]:
        return {kind: self.pair.last_epoch(kind) for kind in KINDS}

    def append(self, kind: str, epoch: int, files: Sequence[DataFile]) -> SinkApplied | None:
        """Add files to the mirror ("chunks") or the change log ("changes")."""
        began_s = time.monotonic()
        if not self.pair.lake_of(kind).append(kind, epoch, files):
            return None
        return _event(self.table, "append", epoch, sum(file.rows for file in files), len(files), began_s)

    def check(self, before: Table | None, after: Table) -> None:
        """Whether the change log can evolve; of a table that joins, whether neither Delta table exists."""
        if before is None:
            self.pair.check_free()
        else:
            self.pair.changes.check(before, after)

    def alter(self, table: Table, epoch: int, *, copy_follows: bool) -> None:
        """Add columns to the change log and, unless a new copy follows, to the mirror; widen the change log's types."""
        self.pair.table = table
        self.pair.changes.evolve(table, epoch)
        if self.pair.changes.generation > epoch:
            return  # a later resnapshot has replaced the columns
        self.pair.create(must_exist=False)
        if table.key and not copy_follows:
            self.pair.mirror.add_columns(table)

    def begin_copy(self, table: Table, plan: Plan, epoch: int, until: str) -> CopyStart:
        """Give the change log the new columns, or begin it again.

        The mirror's files are not checked: all are replaced.
        """
        self.pair.mirror.on_read = on_read(self._sink, table, plan)
        self._missing_files += _repair(self.pair)
        seen_versions = {lake.folder: lake.log.version for lake in self.pair.lakes}
        self._missing_files += _accept_loss(self.pair, seen_versions)  # kept for a second attempt
        self._missing_files += self.pair.changes.drop_lost()
        self.pair.table = table
        kept_folder = self.pair.changes.begin_generation(table, epoch, until)
        generation = self.pair.changes.generation
        if generation <= epoch:
            self.pair.create(must_exist=False)  # a table that got a key gets a mirror
        missing_files, self._missing_files = self._missing_files, []
        return CopyStart(generation, "" if kept_folder is None else kept_folder.url, missing_files)

    def inspect(self, *, all_changes: bool = False) -> list[str]:
        """Check again the files added since the last call. Returns the failures of checkpoints."""
        self.pair.keep_in_memory(stays=False)
        lakes = (self.pair.mirror.lake, self.pair.changes.lake)
        for lake in lakes:
            lake.check_recent()
        if all_changes:
            if self.table.key:
                self.pair.mirror.lake.refresh()  # an idle one may lose its newest commit too
            for lake in self.pair.lakes:
                check_contiguous(lake.folder)
            self.pair.changes.require_files(self.table)
        failures = [lake.log.failure for lake in lakes if lake.log.failure]
        for lake in lakes:
            lake.log.failure = ""
        return failures

    def read_state(self) -> StoredState:
        """The last epochs and terms, or what is wrong with the Delta tables and their files."""
        self.pair.keep_in_memory(stays=True)
        try:
            is_known = self._known_tables is not None and self.pair.recall(self._known_tables)
            if not is_known and (fault := self.pair.fault()):
                return StoredState(self.pair.readable_epochs(), fault=fault)
            missing_files = "" if is_known else self.pair.missing_files()
            return StoredState(self._applied_epochs(), frozenset(self.pair.terms()), missing_files=missing_files)
        except DestinationError as error:
            return StoredState(self.pair.readable_epochs(), fault=error.message)

    def drop(self) -> None:
        """Delete the Delta tables that exist and belong to the ledger."""
        self.pair.drop()

    def maintenance(self) -> PairMaintenance:
        """The steps of `destination.delta.maintenance`."""
        assert self._notes is not None, "readers maintain nothing"
        return PairMaintenance(self.pair, self._notes / "unnamed.json", self._sink.max_versions)

    def versions(self) -> PairVersions:
        """Those of the Delta logs."""
        return PairVersions(self.pair)


def _event(table: Table, kind: str, epoch: int, rows: int, files: int, began_s: float) -> SinkApplied:
    return SinkApplied(
        sink="delta",
        table=table.full_name,
        kind=kind,
        through_epoch=epoch,
        rows=rows,
        files=files,
        duration_s=round(time.monotonic() - began_s, 6),
    )


def _repair(pair: TablePair) -> list[str]:
    """Make the logs such that their files can be replaced. Returns the names of lost commits of the change log.

    A commit may be gone that the kept version has: readers see its files under other deletion vectors than we do, so
    removing ours would leave those.
    """
    names = pair.repair(accepts_loss=True)
    for lake in pair.lakes:
        if lake.exists:
            lake.log.remove_superseded()
    log, own = log_of(pair.changes.folder).name, f"{pair.changes.folder.name}/"
    return [f"{log}/{name.removeprefix(own)}" for name in names if name.startswith(own)]


def _accept_loss(pair: TablePair, seen_versions: Mapping[Folder, int]) -> list[str]:
    """Take the logs as they are. Returns the names of commits of the change log that are gone."""
    gone = {lake.folder: lake.accept_loss(seen_versions.get(lake.folder, -1)) for lake in pair.lakes}
    log = log_of(pair.changes.folder)
    return [f"{log.name}/{commit_name(version)}" for version in gone[pair.changes.folder]]


def on_read(sink: Sink, table: Table, plan: Plan) -> bool:
    """Whether the plan's mirror is merged on read. Plans of an earlier version do not say."""
    return (plan.mirror or sink.merging(table.database, table.name, plan.approx_bytes)) == "merge_on_read"

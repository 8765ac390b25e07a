"""Maintenance of one captured table's two Delta tables.

Each step is one commit that changes no row, or one look at the folders.

    optimize   rewrites files of the mirror: small ones, and those with many deleted rows
               (`destination.delta.maintenance.optimize`)
    compact    merges small files of the change log (`destination.delta.maintenance.compaction`)
    expire     removes changes beyond `changes_retention` from the change log; never those of a table without a mirror
    vacuum     deletes files that no version within the retention names (`destination.delta.maintenance.vacuum`)

A step that another writer overtakes is tried again on top of that commit, and a writer that a step overtakes fails
(`_move`). A step that is killed leaves files without a commit, which the vacuum deletes.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from engine.base import clock
from engine.base.durable import discarding
from engine.capture.batches import batches
from engine.capture.files import DataFile, FileWriter
from engine.decode.arrow_schema import conformed
from engine.decode.schema import TM_SEQ, TM_TS, Table
from engine.destination.capabilities import FormatAgreement, MaintenanceStep, PublishedFormat, Sizes
from engine.destination.delta.lake_table import LakeTable
from engine.destination.delta.log.delta_actions import Actions, StoredFile, metadata_of
from engine.destination.delta.log.known_tables import are_old_enough, stamps_of
from engine.destination.delta.log.log_files import newest_version
from engine.destination.delta.log.log_start import delete_earlier, log_start
from engine.destination.delta.maintenance.compaction import (
    closed_periods,
    expired_files,
    last_change,
    next_files,
)
from engine.destination.delta.maintenance.optimize import Rewrite, next_rewrite
from engine.destination.delta.maintenance.vacuum import Vacuum
from engine.destination.delta.merge.mirror_files import MirrorFiles
from engine.destination.delta.merge.newest_images import open_parquet
from engine.destination.delta.pair_versions import rollback_apps
from engine.destination.delta.schema_evolution import schema_of
from engine.destination.delta.table_pair import TablePair
from engine.destination.delta.table_properties import is_on_read
from engine.journal.destination_events import TableMaintained
from engine.store.folder import Folder
from engine.store.folder_state import Stamp

_NEVER = 1 << 62
_CommitStamp = str


@dataclass
class _StepFiles:
    """The files that a step takes and writes."""

    removed_files: Sequence[DataFile] = ()
    added_files: Sequence[DataFile] = ()
    written_names: list[str] = field(default_factory=list)

    def discard(self, folder: Folder) -> None:
        folder.delete(self.written_names)


class PairMaintenance:
    """Maintains the Delta tables of one captured table.

    notes: the file of `destination.delta.maintenance.vacuum`. max_versions: `sink.max_versions`.

    A look that found nothing to do is remembered with what it depended on: most tables of a large pipeline change
    rarely, and the next look shall not open their logs again.
    """

    def __init__(self, pair: TablePair, notes: Path, max_versions: int) -> None:
        self._pair = pair
        self._notes = notes
        self._max_versions = max_versions
        self._compacted_version: _CommitStamp | None = None
        """The version of the change log in which nothing can be compacted until another period is closed."""
        self._last_change = datetime.fromtimestamp(0, UTC)
        self._closed_periods: tuple[bool, ...] = ()
        self._unexpired_version: tuple[_CommitStamp | None, int] | None = None
        """The version of the change log whose changes are all newer than this time (microseconds)."""
        self._vacuumed_state: tuple[object, datetime | None] | None = None
        """The state of the folders in which no file can be deleted before this time; None: until they change."""

    @property
    def table(self) -> Table:
        """The captured table as it is published."""
        return self._pair.table

    def optimize(self) -> TableMaintained | None:
        """Rewrite some files of the mirror; None if there is nothing to do, or no mirror."""
        if not self.table.key:
            return None
        began, prepared, done = time.monotonic(), list[MirrorFiles](), _StepFiles()
        mirror = self._pair.mirror

        def discard() -> None:
            while prepared:
                prepared.pop().discard()

        def actions() -> Actions | None:
            discard()
            delta = mirror.lake.load()
            files = mirror.files_at(delta, self.table)
            prepared.append(files)
            rewrite = self._next_rewrite(files)
            if rewrite is None:
                return None
            files.rewrite(rewrite.files, rewrite.part, rewrite.partly)
            files.finish()
            done.removed_files = files.removed_files
            done.added_files = files.added_files
            return _move(delta, files.added_files, files.removed_files)

        with discarding(discard):
            if not mirror.lake.commit(actions):
                return None
        prepared[-1].drop_unused()
        return self._event("optimize", done.removed_files, done.added_files, began)

    def _next_rewrite(self, files: MirrorFiles) -> Rewrite | None:
        return next_rewrite(
            files.before, self.table.key[0], files.live_range, on_read=files.on_read, file_rows=files.file_rows()
        )

    def compact(self, now: datetime | None = None) -> TableMaintained | None:
        """Merge some small files of the change log; None if there is nothing to do."""
        began, done, at = time.monotonic(), _StepFiles(), now or clock.utc_now()
        changes = self._pair.changes
        lake = changes.lake
        lake.refresh()
        if lake.log.stamp == self._compacted_version and closed_periods(self._last_change, at) == self._closed_periods:
            return None

        def actions() -> Actions | None:
            done.discard(lake.folder)
            delta = lake.load()
            files = lake.log.files(delta)
            chosen = next_files(files, at)
            if not chosen:
                self._last_change = last_change(files)
                self._compacted_version = lake.log.stamp
                self._closed_periods = closed_periods(self._last_change, at)
                return None
            schema = schema_of(delta)
            with FileWriter(changes.folder, "compact", schema, (*self.table.key, TM_SEQ)) as writer:
                for rows in self._rows_in_order(chosen, schema):
                    writer.write(rows)
                added = writer.close()
            done.removed_files = chosen
            done.added_files = added
            done.written_names = [file.name for file in added]
            return _move(delta, added, chosen)

        with discarding(lambda: done.discard(lake.folder)):
            if not lake.commit(actions):
                return None
        return self._event("compact", done.removed_files, done.added_files, began)

    def _rows_in_order(self, files: Sequence[StoredFile], schema: pa.Schema) -> Iterator[pa.Table]:
        for file in files:
            with open_parquet(self._pair.changes.folder, file.name) as data:
                for _, rows in batches(data):
                    yield conformed(rows, schema)

    def expire(self, before: datetime) -> TableMaintained | None:
        """Remove older changes from the change log, as far as the mirror has them; None if there are none."""
        if not self.table.key:
            return None  # the change log is all there is of the table
        began, done, merged = time.monotonic(), _StepFiles(), self._pair.merged_seq()
        lake = self._pair.changes.lake
        lake.refresh()
        if (
            self._unexpired_version is not None
            and self._unexpired_version[0] == lake.log.stamp
            and before.timestamp() * 1e6 <= self._unexpired_version[1]
        ):
            return None

        def actions() -> Actions | None:
            files = lake.files()
            done.removed_files = expired_files(files, before, merged)
            self._unexpired_version = (
                lake.log.stamp,
                min((file.high[TM_TS] for file in files if TM_TS in file.high), default=_NEVER),
            )
            return Actions("DELETE", {}, remove=done.removed_files) if done.removed_files else None

        return self._event("expire", done.removed_files, (), began) if lake.commit(actions) else None

    def vacuum(self, needed_files: Collection[str], retention: timedelta) -> TableMaintained | None:
        """Delete files beyond the retention; None if there are none."""
        began = time.monotonic()
        self._pair.guard()
        stamps = [_stamps(lake) for lake in self._pair.lakes]
        if self._vacuumed_state is not None and self._vacuumed_state[0] == stamps:
            due_at = self._vacuumed_state[1]
            if due_at is None or clock.utc_now() < due_at:
                return None
        named_files = self._named_files()
        mirror = self._pair.mirror
        if mirror.index is not None:
            mirror.index.keep_only(named_files.get(mirror.folder, ()))
        formats = self._pair.formats
        if formats is not None and not formats.may_vacuum(retention):
            return None  # what they lack is in the logs, and files that their readers need must stay
        vacuum = Vacuum(self._notes)
        starts, spared_files = self._begin_later(retention, vacuum)
        if formats is not None:
            formats.expire(retention, starts)
        newest = {lake.folder: lake.log.version for lake in self._pair.lakes}
        needed_files = {*needed_files, *spared_files}
        deletion = vacuum.run(named_files, needed_files, retention, newest, starts)
        if not deletion.files:
            if all(are_old_enough(folders) for folders, _ in stamps):
                self._vacuumed_state = stamps, deletion.due_at
            return None
        return TableMaintained(
            table=self.table.full_name,
            step="vacuum",
            removed_files=deletion.files,
            removed_bytes=deletion.bytes,
            duration_s=round(time.monotonic() - began, 6),
        )

    def _begin_later(self, retention: timedelta, vacuum: Vacuum) -> tuple[dict[Folder, int], set[str]]:
        """Delete the oldest commits of logs with too many versions, or with too many files of earlier versions.

        Returns the oldest version of each of these tables, by folder, and the files that backups need of earlier ones.
        A killed run leaves a log whose oldest versions cannot be read, and nothing else.
        """
        starts, spared_files, now = dict[Folder, int](), set[str](), clock.utc_now()
        kept_versions = self._pair.kept_versions
        for lake in self._pair.lakes:
            crowded = vacuum.crowded(lake.folder, self._max_versions)
            start = log_start(lake.folder, lake.log.version, self._max_versions, now, crowded)
            if start is not None:
                wanted = kept_versions.wanted(self.table.full_name, lake.folder, now - retention)
                spared_files |= kept_versions.keep(lake.folder, wanted, start, rollback_apps(lake))
                delete_earlier(lake.folder, start)
                starts[lake.folder] = start.version
        return starts, spared_files

    def sizes(self) -> Sizes:
        """What the table has in the destination."""
        lake = self._pair.mirror.lake
        mirror = lake.files() if self.table.key else []
        changes = self._pair.changes.lake.files()
        old = Vacuum(self._notes).run(self._named_files(), (), timedelta(), {}, dry_run=True)
        return Sizes(
            len(mirror),
            sum(file.bytes for file in mirror),
            sum(file.deleted_rows for file in mirror),
            len(changes),
            sum(file.bytes for file in changes),
            old.waiting_files,
            old.waiting_bytes,
            bool(self.table.key) and is_on_read(lake.load()),
        )

    def formats(self) -> Sequence[PublishedFormat]:
        """Its Iceberg metadata, read again."""
        formats = self._pair.formats
        return [] if formats is None else [formats.published(lake.folder) for lake in self._pair.lakes]

    def compare_formats(self) -> Sequence[FormatAgreement]:
        """Its Iceberg metadata with the Delta log."""
        formats = self._pair.formats
        return [] if formats is None else [formats.compare(lake.folder) for lake in self._pair.lakes]

    def newest_versions(self) -> dict[str, int]:
        """By the Delta logs' newest commit files."""
        return {lake.folder.url: newest_version(lake.folder) for lake in self._pair.lakes}

    def due_steps(self, before: datetime | None) -> list[MaintenanceStep]:
        """The steps that have something to do, apart from the vacuum."""
        steps: list[MaintenanceStep] = []
        mirror = self._pair.mirror
        if self.table.key and self._next_rewrite(mirror.files_at(mirror.lake.load(), self.table)):
            steps.append("optimize")
        changes = self._pair.changes.lake.files()
        if next_files(changes, clock.utc_now()):
            steps.append("compact")
        if self.table.key and before is not None and expired_files(changes, before, self._pair.merged_seq()):
            steps.append("expire")
        return steps

    def _named_files(self) -> dict[Folder, set[str]]:
        """By folder, the files of the newest version, deletion vectors included."""
        named_files = {}
        for lake in self._pair.lakes:
            files = lake.files()
            vectors = {file.vector.file for file in files if file.vector is not None and file.vector.file is not None}
            named_files[lake.folder] = {file.name for file in files} | vectors
        return named_files

    def _event(
        self, step: MaintenanceStep, removed_files: Sequence[DataFile], added_files: Sequence[DataFile], began_s: float
    ) -> TableMaintained:
        return TableMaintained(
            table=self.table.full_name,
            step=step,
            removed_files=len(removed_files),
            removed_bytes=sum(file.bytes for file in removed_files),
            added_files=len(added_files),
            added_bytes=sum(file.bytes for file in added_files),
            duration_s=round(time.monotonic() - began_s, 6),
        )


def _stamps(lake: LakeTable) -> tuple[list[Stamp], _CommitStamp | None]:
    """Identifies the files of a table's folder and its version."""
    lake.refresh()
    return stamps_of(lake.folder), lake.log.stamp


def _move(delta: DeltaTable, added_files: Sequence[DataFile], removed_files: Sequence[DataFile]) -> Actions:
    """A commit that moves rows to other files.

    It repeats the table's metadata, so that another tool's OPTIMIZE that began before it fails. deltalake 1.6.6 takes a
    file that was removed without a change of data for one that it may remove too, and would add its rows a second time.
    """
    return Actions("OPTIMIZE", {}, added_files, removed_files, metadata_of(delta, schema_of(delta)), data_change=False)

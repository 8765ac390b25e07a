"""One captured table in a Parquet destination: its change log, in files by date and hour."""

import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from engine.base import clock
from engine.base.errors import DestinationError, SpecError
from engine.base.wording import shell_word
from engine.capture.files import DataFile, check_files
from engine.capture.landing import Landing
from engine.decode.schema import TM_SEQ, Table
from engine.destination.destination_protocol import (
    CHANGES,
    CHUNKS,
    MERGE,
    CopyStart,
    OpenedTable,
    StoredState,
)
from engine.destination.fence import ledgers
from engine.destination.parquet.hour_files import HourWriter, newest_partitions
from engine.destination.parquet.manifests import Manifests, PublishedFile, PublishedTable
from engine.destination.place_names import place_name
from engine.journal.destination_events import SinkApplied
from engine.ledger.state import Owner
from engine.plan.chunks import Plan
from engine.store.folder import Folder
from engine.store.folder_state import is_empty, make, remove

_NAME = re.compile(r"^(\d+)-(?:chunks|changes)-")
_SWEPT_DATES = 2
"""Orphans are looked for in so many dates of a table. Those in older ones stay; no manifest names them."""


@dataclass
class UnpublishedFiles:
    """What tables got since the last manifest."""

    tables: dict[str, PublishedTable] = field(default_factory=dict)
    _files: dict[str, list[PublishedFile]] = field(default_factory=dict)
    """By table: the threads of several tables share no list."""

    @property
    def files(self) -> list[PublishedFile]:
        """Of all tables."""
        return list(chain.from_iterable(self._files.values()))

    def add(self, table: str, files: Sequence[PublishedFile]) -> None:
        """Add the files that a table got."""
        self._files.setdefault(table, []).extend(files)

    def forget(self, table: str) -> None:
        """Forget what a table got."""
        self.tables.pop(table, None)
        self._files.pop(table, None)

    def clear(self) -> None:
        """Forget what all tables got, once it is published."""
        self.tables.clear()
        self._files.clear()


@dataclass(frozen=True)
class SharedPlace:
    """What the tables of one destination share."""

    root: Folder
    owner: Owner
    landing: Landing
    manifests: Manifests
    unpublished: UnpublishedFiles
    guard: Callable[[], int]


class ParquetTable:
    """Appends the files of epochs to a change log. `SharedPlace.unpublished` collects them for the next manifest."""

    def __init__(self, place: SharedPlace, table: Table) -> None:
        self._place = place
        self.table = table
        database, name = place_name(place.root, table.database), place_name(place.root, table.name)
        self._path = f"{database}/{name}"
        self._folder = place.root / database / name

    @property
    def mirror(self) -> None:
        """There is none."""

    @property
    def place(self) -> str:
        """Its folder."""
        return self._folder.url

    @property
    def is_there(self) -> bool:
        """Whether its folder exists and the destination belongs to the ledger."""
        return self._folder.is_there and not self._other_ledger()

    def last_epoch(self, kind: str) -> int:
        """By the manifests; without the lineage's floor."""
        try:
            return self._place.manifests.progress(self.table.full_name).through(kind)
        except DestinationError:
            return -1

    def open(self, *, must_exist: bool, copied_as: Table | None = None) -> OpenedTable:
        """Create its folder if it is not there."""
        self._check_owner()
        is_new = not self._folder.is_there
        if copied_as is not None:
            self.table = copied_as
        elif must_exist and is_new:
            raise DestinationError(
                f"The destination {self._folder.url} is gone, but the ledger has published rows to it.",
                detail="Continuing would leave a change log without those rows; nothing was written.",
                hint="Restore the folder, or resnapshot the table: "
                f"tidemark redump SPEC --table {shell_word(self.table.full_name)}",
            )
        self._place.guard()
        make(self._folder)
        return OpenedTable(self._epochs(), is_new=is_new)

    def append(self, kind: str, epoch: int, files: Sequence[DataFile]) -> SinkApplied | None:
        """Write the rows of readers' files to files by date and hour."""
        progress, began_s = self._progress(), time.monotonic()
        if not files or max(progress.through(kind), self._place.owner.floor) >= epoch:
            return None
        self._place.guard()
        landing = self._place.landing
        source = landing.chunks(self.table) if kind == CHUNKS else landing.changes(self.table)
        check_files(source, files)
        hour = int(clock.utc_now().timestamp()) // 3600
        with HourWriter(self._folder, f"{epoch:08d}-{kind}", hour, (*self.table.key, TM_SEQ)) as writer:
            for file in files:
                with source.open(file.name) as data:
                    writer.write(data)
            hour_files = writer.finish()
        largest = max((one.file.high.get(TM_SEQ, 0) for one in hour_files), default=0)
        self._place.unpublished.tables[self.table.full_name] = progress.with_files(kind, epoch, largest)
        self._place.unpublished.add(
            self.table.full_name,
            [self._published_file(kind, epoch, f"{one.folder}/{one.file.name}", one.file) for one in hour_files],
        )
        return SinkApplied(
            sink="parquet",
            table=self.table.full_name,
            kind="append",
            through_epoch=epoch,
            rows=sum(file.rows for file in files),
            files=len(hour_files),
            duration_s=round(time.monotonic() - began_s, 6),
        )

    def _published_file(self, kind: str, epoch: int, name: str, file: DataFile) -> PublishedFile:
        path = f"{self._path}/{name}"
        generation = self._progress().generation
        return PublishedFile(self.table.full_name, generation, kind, epoch, path, file.rows, file.bytes)

    def check(self, before: Table | None, after: Table) -> None:
        """Any columns will do: each file has those of its time. A table that joins needs a place of its own."""
        if before is not None:
            return
        self._check_owner()
        if self._place.manifests.has(self.table.full_name) or not is_empty(self._folder):
            raise SpecError(
                f"The destination {self._folder.url} exists already.",
                detail="Its rows would be mixed with those of the table; nothing was written.",
                hint="If another pipeline publishes there, choose another sink.path. Otherwise move that folder away, "
                "then try again.",
            )

    def alter(self, table: Table, epoch: int, *, copy_follows: bool) -> None:
        """Later files have the new columns."""
        self.table = table

    def begin_copy(self, table: Table, plan: Plan, epoch: int, until: str) -> CopyStart:
        """Begin a generation: readers leave the files of earlier ones alone."""
        self.table = table
        progress = self._progress()
        if progress.begun < epoch:
            after = max(progress.changes, epoch)
            new_progress = replace(progress, generation=progress.generation + 1, begun=epoch, changes=after)
            self._place.unpublished.tables[table.full_name] = new_progress
        return CopyStart(max(progress.begun, epoch))

    def read_state(self) -> StoredState:
        """By the manifests."""
        try:
            if other_ledger := self._other_ledger():
                return StoredState(fault=f"{self._place.root.url} belongs to another ledger ({other_ledger})")
            applied_epochs, term = self._epochs(), self._place.manifests.term
        except DestinationError as error:
            return StoredState(fault=error.message)
        fault = "" if self._folder.is_there else f"{self._folder.url} is gone"
        return StoredState(applied_epochs, frozenset({term} if term else ()), fault)

    def drop(self) -> None:
        """Remove it from the manifests, then delete its folder."""
        if self._other_ledger():
            return
        self._place.guard()
        self._place.unpublished.forget(self.table.full_name)
        self._place.manifests.forget(self.table.full_name)
        remove(self._folder)

    def delete_orphans(self, after: int, manifest_paths: Collection[str]) -> int:
        """Delete files of later epochs that no manifest names. manifest_paths: paths relative to the destination.

        Returns how many. Nothing else writes to the table meanwhile.
        """
        orphans = list[str]()
        for hour in newest_partitions(self._folder, _SWEPT_DATES):
            for entry in (self._folder / hour).entries():
                ours = _NAME.match(entry.name) if entry.name.endswith(".parquet") else None
                name = f"{hour}/{entry.name}"
                if ours and int(ours[1]) > after and f"{self._path}/{name}" not in manifest_paths:
                    orphans.append(name)
        self._folder.delete(orphans)
        return len(orphans)

    def _progress(self) -> PublishedTable:
        """What it has, with what is not published yet."""
        name = self.table.full_name
        return self._place.unpublished.tables.get(name) or self._place.manifests.progress(name)

    def _epochs(self) -> dict[str, int]:
        progress, floor = self._progress(), self._place.owner.floor
        return {kind: max(progress.through(kind), floor) for kind in (CHUNKS, CHANGES, MERGE)}

    def _other_ledger(self) -> str:
        """Another ledger that writes to the destination; "" for none."""
        return next((name for name in ledgers(self._place.root) if name != self._place.owner.ledger), "")

    def _check_owner(self) -> None:
        if self._other_ledger():
            raise SpecError(
                f"The destination {self._place.root.url} exists already and does not belong to this pipeline's ledger.",
                detail="Its manifests are numbered by another pipeline's epochs; nothing was written.",
                hint="If this pipeline has published it, put the pipeline's folder with its ledger back. Otherwise "
                "choose another sink.path, or move that folder away.",
            )

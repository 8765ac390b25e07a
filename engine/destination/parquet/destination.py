"""The Parquet destination: change logs as plain files, published by manifests (`destination.parquet.manifests`).

It has no mirrors, and readers' files are not taken as they are: they are staged, and their rows are written by date and
hour. An epoch becomes visible for all tables at once.
"""

import threading
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from engine.base.errors import DestinationError
from engine.capture.landing import Landing
from engine.decode.schema import Table
from engine.destination.destination_protocol import DestinationTable, EpochEnd
from engine.destination.fence import FolderTerms, Term
from engine.destination.parquet.manifests import Manifests
from engine.destination.parquet.table import ParquetTable, SharedPlace, UnpublishedFiles
from engine.destination.staged_landing import StagedLanding
from engine.ledger.state import Owner
from engine.plan.chunks import Plan
from engine.spec.sink_settings import Sink


class ParquetDestination:
    """landing: where the readers' files are; by default they are staged in the destination."""

    def __init__(self, sink: Sink, landing: Landing | None = None) -> None:
        self._sink = sink
        self._staged_landing = StagedLanding(sink.folder)
        self._landing = landing or self._staged_landing
        self._terms = FolderTerms(sink.folder)
        self._place: SharedPlace | None = None
        self._lock = threading.Lock()

    @property
    def root(self) -> Path | str:
        """The folder."""
        return self._sink.path

    @property
    def landing(self) -> Landing:
        """Where readers put files."""
        return self._landing

    @property
    def terms(self) -> FolderTerms:
        """In files of its folder, and in each manifest."""
        return self._terms

    def recall(self, newest: Term | None) -> None:
        """The manifests are read again: another run may have published since."""
        self._place = None

    def table(self, owner: Owner, table: Table, plan: Plan | None = None) -> ParquetTable:
        """Its folder, and its part of the manifests."""
        return ParquetTable(self._shared_place(owner), table)

    def _shared_place(self, owner: Owner) -> SharedPlace:
        with self._lock:  # several tables are opened at the same time
            if self._place is None or self._place.owner != owner:
                root = self._sink.folder
                manifests = Manifests(root, owner, self._terms.check)
                self._place = SharedPlace(root, owner, self._landing, manifests, UnpublishedFiles(), self._terms.check)
            return self._place

    def publish(self, end: EpochEnd) -> None:
        """Create the manifest, if there is anything to name."""
        if self._place is None:
            return
        unpublished = self._place.unpublished
        if unpublished.tables:
            self._place.manifests.publish(end, unpublished.tables, unpublished.files)
        unpublished.clear()

    def fence_earlier_runners(self, owner: Owner, tables: Iterable[Table], epochs: Collection[int]) -> None:
        """Take the names of the manifests that an earlier runner could still create."""
        with suppress(DestinationError):  # it is looked at again later
            self._shared_place(owner).manifests.take_names(epochs)

    def largest_seq(self, owner: Owner, tables: Iterable[Table]) -> int:
        """By the manifests."""
        manifests = self._shared_place(owner).manifests
        return max((manifests.progress(table.full_name).largest_seq for table in tables), default=0)

    def delete_orphans(
        self, opened_tables: Iterable[DestinationTable], committed_names: Collection[str], after_ns: int
    ) -> int:
        """Delete staged files that no epoch names, and files of tables that no manifest names, however old."""
        deleted = self._staged_landing.delete_orphans(committed_names)
        if self._place is None:
            return deleted
        merged_epoch, paths = self._place.manifests.recent()
        paths |= {file.path for file in self._place.unpublished.files}  # of an attempt to start that failed
        for one in opened_tables:
            assert isinstance(one, ParquetTable)
            deleted += one.delete_orphans(merged_epoch, paths)
        return deleted

"""The Parquet destination: change logs as plain files, published by manifests (`destination.parquet.manifests`).

It has no mirrors, and readers' files are not taken as they are: they are staged, and their rows are written by date and
hour. An epoch becomes visible for all tables at once.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from engine.base.errors import DestinationError, MissingFilesError
from engine.capture.files import DataFile, check_files
from engine.capture.landing import Landing
from engine.decode.schema import Table
from engine.destination.destination_protocol import DestinationTable, DifferenceRow, EpochEnd
from engine.destination.fence import Fence, Term
from engine.destination.parquet.manifests import Manifests
from engine.destination.parquet.parquet_table import ParquetTable, SharedPlace, UnpublishedFiles
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
        self._fence: Fence | None = None
        self._place: SharedPlace | None = None

    @property
    def root(self) -> Path | str:
        """The folder."""
        return self._sink.path

    @property
    def landing(self) -> Landing:
        """Where readers put files."""
        return self._landing

    def newest_term(self, ledger: str) -> Term | None:
        """By the files in `_tidemark` (`destination.fence`)."""
        return Fence(self._sink.folder, ledger).newest()

    def take(self, ledger: str, term: Term) -> None:
        """Create the term's file, which only one runner can."""
        fence = Fence(self._sink.folder, ledger)
        fence.take(term)
        self._fence = fence

    def guard(self) -> int:
        """The number of this runner's term; 0 before it took one."""
        return 0 if self._fence is None else self._fence.check()

    def release(self, tables: Iterable[DestinationTable] = ()) -> None:
        """Mark the term as ended."""
        if self._fence is not None:
            self._fence.release()

    def recall(self, newest: Term | None) -> None:
        """The manifests are read again: another run may have published since."""
        self._place = None

    def table(self, owner: Owner, table: Table, plan: Plan | None = None) -> ParquetTable:
        """Its folder, and its part of the manifests."""
        return ParquetTable(self._shared_place(owner), table)

    def _shared_place(self, owner: Owner) -> SharedPlace:
        if self._place is None or self._place.owner != owner:
            root = self._sink.folder
            manifests = Manifests(root, owner, self.guard)
            self._place = SharedPlace(root, owner, self._landing, manifests, UnpublishedFiles(), self.guard)
        return self._place

    def maintenance(self, table: DestinationTable) -> None:
        """There is nothing to maintain."""

    def versions(self, table: DestinationTable) -> None:
        """Manifests are not rolled back."""

    def publish(self, end: EpochEnd) -> None:
        """Create the manifest, if there is anything to name."""
        if self._place is None:
            return
        unpublished = self._place.unpublished
        if unpublished.tables:
            self._place.manifests.publish(end, unpublished.tables, unpublished.files)
        unpublished.tables.clear()
        unpublished.files.clear()

    def fence_earlier_runners(self, owner: Owner, tables: Iterable[Table], epochs: Collection[int]) -> None:
        """Take the names of the manifests that an earlier runner could still create."""
        with suppress(DestinationError):  # it is looked at again later
            self._shared_place(owner).manifests.take_names(epochs)

    def largest_seq(self, owner: Owner, tables: Iterable[Table]) -> int:
        """By the manifests."""
        manifests = self._shared_place(owner).manifests
        return max((manifests.progress(table.full_name).largest_seq for table in tables), default=0)

    def files_fault(self, table: Table, chunks: Sequence[DataFile], changes: Sequence[DataFile]) -> str:
        """Which of the readers' files are gone or damaged."""
        try:
            check_files(self._landing.chunks(table), chunks)
            check_files(self._landing.changes(table), changes)
        except MissingFilesError as error:
            return error.message
        return ""

    @property
    def unreadable(self) -> tuple[type[Exception], ...]:
        """Nothing is read back."""
        return ()

    def keep_differences(self, rows: Sequence[DifferenceRow]) -> None:
        """Nothing is compared."""

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

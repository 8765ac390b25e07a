"""A folder of Delta tables: for each captured table a mirror and a change log, readable by any Delta reader."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from engine.base import clock
from engine.base.errors import DestinationError, SpecError
from engine.base.parallel import map_parallel, run_parallel
from engine.decode.schema import Table
from engine.destination.capabilities import DifferenceRow, FormatState, Versions
from engine.destination.delta.formats.format_publisher import FormatPublisher
from engine.destination.delta.formats.iceberg_copy import IcebergCopy
from engine.destination.delta.formats.registration import Registration
from engine.destination.delta.formats.table_formats import NamedCatalog, TableFormats
from engine.destination.delta.lake_table import Guards
from engine.destination.delta.landing import DeltaLanding
from engine.destination.delta.log.epoch_positions import EpochPositions
from engine.destination.delta.log.kept_versions import KeptVersions
from engine.destination.delta.log.known_tables import KnownTables
from engine.destination.delta.merge.key_index import KeyIndex
from engine.destination.delta.orphans import delete_orphans
from engine.destination.delta.read.differences import append_differences
from engine.destination.delta.table import DeltaDestinationTable, on_read
from engine.destination.delta.table_pair import TablePair
from engine.destination.destination_protocol import DestinationTable, EpochEnd
from engine.destination.fence import FolderTerms, Term
from engine.destination.iceberg.catalogs.catalog_of import catalog_of
from engine.ledger.state import Owner
from engine.plan.chunks import Plan
from engine.spec.folder_names import folder_name
from engine.spec.sink_settings import Sink


class DeltaDestination:
    """notes: the folder for what maintenance and merges know of the tables; it can be deleted.

    known_tables: the file for what the next run may know of them (`destination.delta.log.known_tables`). Both are None
    for readers.
    """

    def __init__(self, sink: Sink, notes: Path | None = None, known_tables: Path | None = None) -> None:
        self._sink = sink
        self._notes = notes
        self._known_tables_file = known_tables
        self._known_tables: KnownTables | None = None
        self._terms = FolderTerms(sink.folder)
        self._guards = Guards(commit=self._terms.check_for_commit, deletion=self._terms.check)
        self._positions = EpochPositions()
        self._formats = FormatPublisher[IcebergCopy](self._terms.check_for_commit)
        self._registrations = FormatPublisher[Registration](self._terms.check_for_commit)
        self._catalog = (
            None if sink.catalog is None else NamedCatalog(catalog_of(sink.catalog), sink.catalog, self._registrations)
        )

    @property
    def root(self) -> Path | str:
        """The folder, or its URL."""
        return self._sink.path

    @property
    def landing(self) -> DeltaLanding:
        """In place."""
        return DeltaLanding(self._sink.folder)

    @property
    def terms(self) -> FolderTerms:
        """In files of its folder, and in each Delta commit."""
        return self._terms

    def remember(self, tables: Iterable[DestinationTable]) -> None:
        """Note them in the file of known tables, with this run's term."""
        term = self._terms.own_term
        if self._known_tables_file is not None and term is not None:
            with suppress(OSError):  # then the next run opens all tables
                KnownTables.write(self._known_tables_file, term, dict(_known_of(tables)))

    def recall(self, newest: Term | None) -> None:
        """Read what the last run remembered, unless another one has written since."""
        known_tables = None if self._known_tables_file is None else KnownTables.read(self._known_tables_file, newest)
        self._known_tables = known_tables or KnownTables()

    def table(self, owner: Owner, table: Table, plan: Plan | None = None) -> DeltaDestinationTable:
        """The pair of Delta tables."""
        reads = plan is not None and on_read(self._sink, table, plan)
        pair = self._pair(owner, table, on_read=reads)
        notes = self._notes and self._notes / folder_name(table.database) / folder_name(table.name)
        if notes is not None:
            pair.mirror.index = KeyIndex(notes / "keys")
        return DeltaDestinationTable(self._sink, pair, self._known_tables, notes)

    def _pairs(self, owner: Owner, tables: Iterable[Table]) -> Iterator[TablePair]:
        return (self._pair(owner, table) for table in tables)

    def _pair(self, owner: Owner, table: Table, *, on_read: bool = False) -> TablePair:
        iceberg, formats = self._sink.iceberg_version(table.database, table.name), None
        if iceberg is not None:
            formats = TableFormats(self._formats, table, owner.ledger, iceberg, self._terms.check, self._catalog)
        return TablePair(
            self._sink.folder,
            owner,
            table,
            self._guards,
            on_read=on_read,
            formats=formats,
            positions=self._positions,
        )

    def note_ends(self, ends: Iterable[EpochEnd]) -> None:
        """Keep them for the commits of these epochs."""
        self._positions.note(ends)

    def format_states(self) -> Sequence[FormatState]:
        """Of the Iceberg metadata of its tables, and of the catalog."""
        return [*self._formats.states(), *self._registrations.states()]

    def check_formats(self, owner: Owner, tables: Sequence[Table]) -> None:
        """Ask the catalog for their tables, whose names must differ by more than case."""
        formats = [one for table in tables if (one := self._pair(owner, table).formats) is not None]
        names = Counter(str(name).casefold() for one in formats for name in one.names_in_catalog())
        if twice := [name for name, count in names.items() if count > 1]:
            raise SpecError(
                f"Two tables have one name in the catalog: {twice[0]}.",
                detail="Only one of them would be registered.",
                hint="Let sink.catalog.namespace contain {database}; or exclude one of the tables.",
            )
        map_parallel(TableFormats.check, formats)

    def finish_formats(self) -> None:
        """Wait for the threads that publish them."""
        self._formats.finish()
        self._registrations.finish()

    def publish(self, end: EpochEnd) -> None:
        """Nothing is left to do: each table has committed."""

    def fence_earlier_runners(self, owner: Owner, tables: Iterable[Table], epochs: Collection[int]) -> None:
        """Commit this runner's term to every Delta table, which takes the version that an earlier runner expects."""
        run_parallel(partial(_fence, pair) for pair in self._pairs(owner, tables))

    def largest_seq(self, owner: Owner, tables: Iterable[Table]) -> int:
        """By the statistics of the files."""
        largest = 0
        for pair in self._pairs(owner, tables):
            with suppress(DestinationError):  # without its change log, a table has no numbers
                largest = max(largest, pair.changes.largest_seq() if pair.changes.lake.exists else 0)
        return largest

    def keep_versions(self, ledger: str, versions: Mapping[str, Versions]) -> None:
        """By a note in the folder (`destination.delta.log.kept_versions`)."""
        numbers = {name: {folder: one[0] for folder, one in of.items()} for name, of in versions.items()}
        since = clock.utc_now() - timedelta(seconds=self._sink.files_retention_s)
        KeptVersions(self._sink.folder, ledger).note(numbers, since)

    def keep_differences(self, rows: Sequence[DifferenceRow]) -> None:
        """Append them to the Delta table `_tm_differences`."""
        append_differences(self._sink.folder, rows)

    def delete_orphans(
        self, opened_tables: Iterable[DestinationTable], committed_names: Collection[str], after_ns: int
    ) -> int:
        """Delete younger files that neither the ledger nor the Delta tables name."""
        deleted = 0
        for one in opened_tables:
            assert isinstance(one, DeltaDestinationTable)
            table_names = one.pair.file_names()
            for folder in (one.pair.mirror.folder, one.pair.changes.folder):
                deleted += delete_orphans(folder, table_names, committed_names, after_ns)
        return deleted


def _fence(pair: TablePair) -> None:
    with suppress(DestinationError):  # it concerns this table alone, and is looked at again later
        if not pair.fault():
            pair.repair()
            pair.commit_term()


def _known_of(tables: Iterable[DestinationTable]) -> Iterator[tuple[str, dict[str, Any]]]:
    for one in tables:
        assert isinstance(one, DeltaDestinationTable)
        with suppress(Exception):  # then the next run opens it
            if one.pair.formats is None or one.pair.formats.are_published:
                yield from one.pair.remember().items()

"""The other formats of the Delta tables of one captured table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from engine.base import clock
from engine.base.errors import TidemarkError
from engine.decode.schema import Table
from engine.destination.capabilities import CatalogEntry, FormatAgreement, PublishedFormat
from engine.destination.delta.formats.format_publisher import FormatPublisher
from engine.destination.delta.formats.iceberg_comparison import compare
from engine.destination.delta.formats.iceberg_copy import IcebergCopy
from engine.destination.delta.formats.registration import Registration
from engine.destination.destination_protocol import Guard
from engine.destination.iceberg.catalogs.catalog_protocol import CatalogName, CatalogTable, IcebergCatalog
from engine.destination.iceberg.manifest_files import Format
from engine.spec.catalog_settings import CatalogSettings
from engine.spec.folder_names import CHANGES
from engine.store.folder import Folder


@dataclass(frozen=True)
class NamedCatalog:
    """A catalog, and the settings by which tables are named there."""

    catalog: IcebergCatalog
    settings: CatalogSettings
    publisher: FormatPublisher[Registration]
    """Commits tables to it."""


class TableFormats:
    """publisher: the destination's. table: the captured one. ledger: its identifier. iceberg: version.

    guard: called before metadata files are deleted. catalog: in which they are registered; None for none.
    """

    def __init__(
        self,
        publisher: FormatPublisher[IcebergCopy],
        table: Table,
        ledger: str,
        iceberg: Format,
        guard: Guard,
        catalog: NamedCatalog | None = None,
    ) -> None:
        self.iceberg = iceberg
        self._publisher = publisher
        self._table = table
        self._ledger = ledger
        self._guard = guard
        self._catalog = catalog
        self._copies: dict[Folder, IcebergCopy] = {}
        self._registrations: dict[Folder, Registration] = {}
        self._unexpired_since_s: float | None = None
        """Since when snapshots could not be expired (`clock.monotonic_s`)."""

    def follow(self, folder: Folder, sort_columns: Sequence[str] = ()) -> Callable[[int], None]:
        """Publish the Delta table in a folder. Returns what is to be called after each commit to it."""
        copy = IcebergCopy(
            folder,
            self._ledger,
            self.iceberg,
            sort_columns,
            self._guard,
            partial(self._note_commit, folder),
            partial(self._named_file, folder),
        )
        copy = self._copies[folder] = self._publisher.copy_of(self._table.full_name, copy)
        if (catalog := self._catalog) is not None:
            suffix = CHANGES if folder.name.endswith(CHANGES) else ""
            name = CatalogName(catalog.settings.namespace_of(self._table.database), f"{self._table.name}{suffix}")
            registered = catalog.catalog.table(name, self._ledger, copy.folder)
            registration = Registration(copy, registered, catalog.settings.place)
            self._registrations[folder] = catalog.publisher.copy_of(self._table.full_name, registration)
        return partial(self._publisher.note, copy)

    def _named_file(self, folder: Folder) -> str:
        registration = self._registrations.get(folder)
        return "" if registration is None else registration.registered.named_file

    def _note_commit(self, folder: Folder, version: int) -> None:
        """Commit the Iceberg table to the catalog soon."""
        if self._catalog is not None and (registration := self._registrations.get(folder)) is not None:
            self._catalog.publisher.note(registration, version)

    @property
    def catalog(self) -> str:
        """What the catalog is called, and the tables in it; "" without one."""
        places = sorted(one.place for one in self._registrations.values())
        return " ".join(places)

    def check(self) -> None:
        """Whether they can be registered. Writes nothing. Raises DestinationError or SpecError."""
        for registration in self._registrations.values():
            registration.registered.check()

    def names_in_catalog(self) -> list[CatalogName]:
        """Their names in the catalog."""
        return [registration.registered.name for registration in self._registrations.values()]

    def note_all(self, versions: Mapping[Folder, int]) -> None:
        """Publish soon what they lack. versions: the newest ones, as far as they are known."""
        for folder, copy in self._copies.items():
            self._publisher.note(copy, versions.get(folder, -1))
            self._note_commit(folder, -1)

    @property
    def are_published(self) -> bool:
        """Whether they lack nothing, in a catalog too."""
        in_folders = all(self._publisher.is_published(copy) for copy in self._copies.values())
        return in_folders and (
            self._catalog is None or all(map(self._catalog.publisher.is_published, self._registrations.values()))
        )

    def may_vacuum(self, retention: timedelta) -> bool:
        """Whether a VACUUM need not wait for what is being published: it has lacked that for the retention at most."""
        waits_s = self._publisher.waits_s(self._copies.values())
        return not waits_s or waits_s > retention.total_seconds()

    def expire(self, retention: timedelta, oldest_versions: Mapping[Folder, int]) -> None:
        """Expire what a VACUUM may take files from (`IcebergCopy.expire`).

        Raises its error, until that has been so for the retention: then the snapshots lose their files.
        """
        try:
            for folder, copy in self._copies.items():
                copy.expire(retention, oldest_versions.get(folder, 0))
        except Exception:
            now_s = clock.monotonic_s()
            self._unexpired_since_s = now_s if self._unexpired_since_s is None else self._unexpired_since_s
            if now_s - self._unexpired_since_s <= retention.total_seconds():
                raise
        else:
            self._unexpired_since_s = None

    def published(self, folder: Folder) -> PublishedFormat:
        """What readers of Iceberg see of the Delta table in a folder, read again."""
        copy = self._copies[folder]
        version, missing_versions, pointer = copy.read_published()
        catalog = None if (one := self._registrations.get(folder)) is None else _entry(one.registered)
        return PublishedFormat(
            f"Iceberg v{self.iceberg}", folder.url, copy.folder.url, pointer, version, missing_versions, catalog
        )

    def compare(self, folder: Folder) -> FormatAgreement:
        """Compare the Iceberg metadata of the Delta table in a folder with the table."""
        copy = self._copies[folder]
        comparison = compare(copy.open_again(), folder)
        return FormatAgreement(f"Iceberg v{self.iceberg}", copy.folder.url, *comparison)

    def drop(self) -> None:
        """Delete the metadata of all of them, and soon their entries in the catalog."""
        for copy in self._copies.values():
            self._publisher.forget(copy)
            copy.drop()
        for registration in self._registrations.values():
            if self._catalog is not None:
                registration.is_dropped = True
                self._catalog.publisher.note(registration)


def _entry(registered: CatalogTable) -> CatalogEntry:
    """What a catalog has of a table, asked now."""
    name = registered.name
    try:
        return CatalogEntry(name.namespace, name.table, registered.newest_version())
    except TidemarkError as error:
        return CatalogEntry(name.namespace, name.table, None, error.message)

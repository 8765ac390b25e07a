"""What a catalog does with the Iceberg tables of a destination."""

from dataclasses import dataclass
from typing import Protocol

from engine.base.errors import DestinationError, SpecError
from engine.destination.iceberg.metadata import LEDGER, TABLE, TableMetadata
from engine.destination.iceberg.table import metadata_number
from engine.store.folder import Folder

ATTEMPTS = 4
"""How often a commit to a catalog is tried when others change the table there."""


@dataclass(frozen=True)
class CatalogName:
    """The name of a table in a catalog."""

    namespace: str
    table: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.table}"


@dataclass(frozen=True)
class PublishedMetadata:
    """The newest commit to an Iceberg table in its folder."""

    metadata: TableMetadata
    uri: str
    """Of its metadata file."""
    folder: Folder
    """Of the table; it has the folder of metadata files."""

    @property
    def number(self) -> int:
        """The number of the metadata file."""
        return metadata_number(self.uri.rpartition("/")[2])

    @property
    def is_newest(self) -> bool:
        """Whether it still is: another runner may have committed since. Raises an error of the store."""
        return not self.has(self.number + 1) and self.has(self.number)

    def has(self, number: int) -> bool:
        """Whether the folder has the commit of this number."""
        return (self.folder / "metadata").find(f"v{number}.metadata.json") is not None


class CatalogError(DestinationError):
    """A catalog did not take a commit. The table in its folder, and the Delta table beside it, have it."""


class CatalogTable(Protocol):
    """A table in a catalog. One thread at a time uses it."""

    @property
    def name(self) -> CatalogName:
        """By which readers find it."""

    @property
    def named_file(self) -> str:
        """The name of the metadata file that its readers open, as of the last look; "" if it is none of ours."""

    def newest_version(self) -> int | None:
        """The version of the table whose files readers of the catalog see (`metadata.VERSION`).

        None if it is not registered, or another program has changed it. Writes nothing. Raises CatalogError, SpecError.
        """

    def follow(self, published: PublishedMetadata) -> str:
        """Make it have the snapshots of the newest metadata file.

        MUST be idempotent: an answer may have been lost, and a killed runner's successor calls it again. MUST NOT go
        back, when another runner has registered a later commit. MUST leave a table alone that is not ours, however late
        that shows. Returns what another program has done to the table since the last call, as a phrase; "" if nothing.
        Raises CatalogError, and SpecError for a table that is not ours.
        """

    def drop(self) -> None:
        """Remove it from the catalog if it is ours; no file is deleted. Raises CatalogError."""

    def check(self) -> None:
        """Whether it can be registered, as far as that shows. Writes nothing. Raises CatalogError or SpecError."""

    def forget(self) -> None:
        """Drop from memory what the next call can read again."""


class IcebergCatalog(Protocol):
    """A catalog. Several threads may use it."""

    def table(self, name: CatalogName, ledger: str, folder: Folder) -> CatalogTable:
        """A table by its name. ledger: that it belongs to. folder: of the Iceberg table. Asks for nothing yet."""


def plain_location(location: str) -> str:
    """A table's location without what programs write differently."""
    return location.removeprefix("file://").removeprefix("file:").rstrip("/")


def is_ours(stored: TableMetadata, ledger: str, location: str, identity: str = "") -> bool:
    """Whether a table in a catalog is this one: of the ledger, and in this place or with these data files.

    identity: of the Delta table; "" if it is not known.
    """
    if stored.properties.get(LEDGER) != ledger:
        return False
    same_place = plain_location(stored.location) == plain_location(location)
    return same_place or (bool(identity) and stored.properties.get(TABLE) == identity)


def not_ours(name: CatalogName, catalog: str) -> SpecError:
    """The error for a table that exists, and is somebody else's. catalog: what it is, in a sentence."""
    return SpecError(
        f"The table {name} exists in {catalog}, and is not this table of this pipeline.",
        detail="It was left as it is. The Iceberg table in its folder is published, and can be read by its path.",
        hint="Set sink.catalog.namespace to another one, or drop that table from the catalog.",
    )


def keeps_changing(name: CatalogName, catalog: str) -> CatalogError:
    """The error for a table that is another one at each look."""
    return CatalogError(
        f"The table {name} in {catalog} cannot be brought up to date: it is another one at each of {ATTEMPTS} looks.",
        detail="Its readers there may see what another program wrote. The Iceberg table in its folder is right.",
        hint="Find the program that changes it there, or a view of that name, and stop or drop it.",
    )

"""What a catalog does with the Iceberg tables of a destination."""

from dataclasses import dataclass
from typing import Protocol

from engine.base.errors import DestinationError, SpecError
from engine.destination.iceberg.metadata import TableMetadata
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


class CatalogError(DestinationError):
    """A catalog could not be told of a commit. The table in its folder, and the Delta table beside it, have it."""


class CatalogTable(Protocol):
    """A table in a catalog. One thread at a time uses it."""

    @property
    def name(self) -> CatalogName:
        """By which readers find it."""

    def newest_version(self) -> int | None:
        """The version of the table whose files readers of the catalog see (`metadata.VERSION`).

        None if it is not registered, or another program has changed it. Raises CatalogError or SpecError.
        """

    def follow(self, metadata: TableMetadata, uri: str) -> str:
        """Make it have the snapshots of the newest metadata file, whose URI is given.

        MUST be idempotent: an answer may have been lost, and a killed runner's successor calls it again. MUST NOT go
        back, when another runner has told of a later commit. Returns what another program has done to the table since
        the last call, as a phrase; "" if nothing. Raises CatalogError, and SpecError for a table that is not ours.
        """

    def drop(self) -> None:
        """Remove it from the catalog if it is ours; no file is deleted. Raises CatalogError."""

    def check(self) -> None:
        """Whether it can be registered. Writes nothing. Raises CatalogError or SpecError if not."""

    def forget(self) -> None:
        """Drop from memory what the next call can read again."""


class IcebergCatalog(Protocol):
    """A catalog. Several threads may use it."""

    def table(self, name: CatalogName, ledger: str, folder: Folder) -> CatalogTable:
        """A table by its name. ledger: that it belongs to. folder: of its metadata folder. Asks for nothing yet."""


def not_ours(name: CatalogName, catalog: str) -> SpecError:
    """The error for a table that exists, and is somebody else's. catalog: what it is, in a sentence."""
    return SpecError(
        f"The table {name} exists in {catalog}, and does not belong to this pipeline.",
        detail="It was left as it is. The Iceberg table in its folder is published, and can be read by its path.",
        hint="Set sink.catalog.namespace to another one, or drop that table from the catalog.",
    )

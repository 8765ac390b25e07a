"""Registers tables in a catalog with Iceberg's REST interface, and commits their snapshots there.

The catalog writes metadata files of its own, for the same snapshots. A table that a commit cannot make equal is
registered again, by our newest metadata file: another program has changed it, its earlier snapshots have expired all at
once, or the lake was moved. Where the catalog cannot register over a table, it has none for a moment.

Source: Apache Iceberg, "REST Catalog Open API".
"""

from engine.destination.iceberg.catalogs.catalog_protocol import (
    ATTEMPTS,
    CatalogError,
    CatalogName,
    CatalogTable,
    not_ours,
)
from engine.destination.iceberg.catalogs.rest_client import RestClient, TableAnswer
from engine.destination.iceberg.catalogs.rest_updates import follows, is_later, requirements_of, updates_of
from engine.destination.iceberg.metadata import LEDGER, TableMetadata
from engine.destination.iceberg.table import program_of
from engine.spec.catalog_settings import CatalogSettings
from engine.store.folder import Folder


class RestCatalog:
    """The catalog that the settings name."""

    def __init__(self, settings: CatalogSettings) -> None:
        self._client = RestClient(settings)
        self._place = settings.place

    def table(self, name: CatalogName, ledger: str, folder: Folder) -> CatalogTable:
        """See `IcebergCatalog`."""
        return _RestTable(self._client, self._place, name, ledger)


class _RestTable:
    def __init__(self, client: RestClient, catalog: str, name: CatalogName, ledger: str) -> None:
        self._client = client
        self._catalog = catalog
        self.name = name
        self._ledger = ledger
        self._stored: TableMetadata | None = None
        """The table in the catalog, as of the last look or commit; None if it is not known."""

    def newest_version(self) -> int | None:
        stored = self._read()
        return None if stored is None or stored.newest is None else stored.newest.version

    def follow(self, metadata: TableMetadata, uri: str) -> str:
        foreign = ""
        try:
            for _ in range(ATTEMPTS):
                stored = self._stored or self._read()
                if stored is None:
                    done = self._register(uri)
                elif is_later(stored, metadata):
                    return foreign
                elif follows(stored, metadata):
                    done = self._commit(stored, metadata)
                else:
                    foreign = foreign or _foreign(stored)
                    done = self._register_again(uri, metadata)
                if done:
                    self._stored = metadata
                    return foreign
                self._stored = None
        except BaseException:
            self._stored = None  # nobody knows what was done
            raise
        raise CatalogError(
            f"Another program keeps changing the table {self.name} in {self._catalog}.",
            detail="Its readers there may see what that program wrote. The Iceberg table in its folder is right.",
            hint="Find that program, and stop it.",
        )

    def drop(self) -> None:
        self._stored = None
        stored = self._load()
        if stored is not None and stored.properties.get(LEDGER) == self._ledger:
            self._delete()

    def check(self) -> None:
        self._read()

    def forget(self) -> None:
        self._stored = None

    def _read(self) -> TableMetadata | None:
        """The table in the catalog; None if there is none. Raises SpecError if it is not ours."""
        stored = self._load()
        if stored is not None and stored.properties.get(LEDGER) != self._ledger:
            raise not_ours(self.name, self._catalog)
        return stored

    def _load(self) -> TableMetadata | None:
        answer = self._client.request("GET", f"{self._client.table_path(self.name)}?snapshots=all", accepts=(404,))
        if answer.names_nothing:
            return None
        try:
            return TableMetadata.from_record(TableAnswer.model_validate_json(answer.content).metadata)
        except ValueError:
            raise CatalogError(
                f"The table {self.name} in {self._catalog} cannot be read: {answer.message}",
                detail="It was left as it is: nobody knows whose it is. The Iceberg table in its folder is right.",
                hint="If it is this pipeline's, and the lake was moved, drop the table from the catalog without its "
                "files (DELETE without purge). The table is registered again within half a minute.",
            ) from None

    def _commit(self, stored: TableMetadata, metadata: TableMetadata) -> bool:
        """Returns False if the table is not what it was, or is gone."""
        updates = [*updates_of(stored, metadata)]
        if not updates:
            return True
        body = {"requirements": requirements_of(stored), "updates": updates}
        return self._client.request("POST", self._client.table_path(self.name), body, accepts=(404, 409)).is_good

    def _register(self, uri: str, *, overwrite: bool = False) -> bool:
        """Returns False if another one registered a table of that name, or it cannot be overwritten."""
        client = self._client
        path = f"{client.namespace_path(self.name)}/register"
        body = {"name": self.name.table, "metadata-location": uri, **({"overwrite": True} if overwrite else {})}
        answer = client.request("POST", path, body, accepts=(400, 404, 406, 409) if overwrite else (404, 409))
        if answer.names_nothing:
            namespace = {"namespace": [self.name.namespace], "properties": {}}
            client.request("POST", client.namespaces_path(), namespace, accepts=(409,))
            answer = client.request("POST", path, body, accepts=(409,))
        return answer.is_good and TableAnswer.model_validate_json(answer.content).metadata_location == uri

    def _register_again(self, uri: str, metadata: TableMetadata) -> bool:
        if self._register(uri, overwrite=True):
            return True
        self._delete()
        return self._register(uri)

    def _delete(self) -> None:
        self._client.request("DELETE", f"{self._client.table_path(self.name)}?purgeRequested=false", accepts=(404,))


def _foreign(stored: TableMetadata) -> str:
    """What another program has done to a table in the catalog; "" if its newest snapshot is ours."""
    newest = stored.newest
    if newest is None or newest.version is not None:
        return ""
    return f"a commit by {program_of(newest.summary)} through the catalog"

"""Registers tables in a catalog with Iceberg's REST interface, and commits their snapshots there.

The catalog writes metadata files of its own, for the same snapshots. A table that a commit cannot make equal is
registered again, by our newest metadata file: another program has changed it, its earlier snapshots have expired all at
once, or its folder was deleted. Where the catalog cannot register over a table, it has none for a moment.

Source: Apache Iceberg, "REST Catalog Open API".
"""

from contextlib import suppress

from engine.base.errors import SpecError
from engine.destination.iceberg.catalogs.catalog_protocol import (
    ATTEMPTS,
    CatalogError,
    CatalogName,
    CatalogTable,
    PublishedMetadata,
    is_ours,
    keeps_changing,
    not_ours,
)
from engine.destination.iceberg.catalogs.rest_client import RestClient, TableAnswer
from engine.destination.iceberg.catalogs.rest_updates import (
    follows,
    is_later,
    requirements_of,
    updates_of,
    was_rolled_back,
)
from engine.destination.iceberg.metadata import TABLE, TableMetadata
from engine.destination.iceberg.table import program_of
from engine.spec.catalog_settings import CatalogSettings
from engine.store.folder import Folder

_CONFLICTS = (404, 409)


class RestCatalog:
    """The catalog that the settings name."""

    def __init__(self, settings: CatalogSettings) -> None:
        self._client = RestClient(settings)
        self._place = settings.place

    def table(self, name: CatalogName, ledger: str, folder: Folder) -> CatalogTable:
        """See `IcebergCatalog`."""
        return _RestTable(self._client, self._place, name, ledger, folder)


class _MetadataLostError(CatalogError):
    """The catalog has a table, and cannot read its metadata."""


class _RestTable:
    def __init__(self, client: RestClient, catalog: str, name: CatalogName, ledger: str, folder: Folder) -> None:
        self.name = name
        self._client = client
        self._catalog = catalog
        self._ledger = ledger
        self._folder = folder
        self._identity = ""
        """The Delta table's, as of the last commit."""
        self._stored: TableMetadata | None = None
        """The table in the catalog, as of the last look or commit; None if it is not known."""

    @property
    def named_file(self) -> str:
        """The catalog names files of its own."""
        return ""

    def newest_version(self) -> int | None:
        stored = self._read()
        return None if stored is None or stored.newest is None else stored.newest.version

    def follow(self, published: PublishedMetadata) -> str:
        metadata, foreign = published.metadata, ""
        self._identity = metadata.properties.get(TABLE, "")
        try:
            for _ in range(ATTEMPTS):
                stored = self._stored or self._read_for(published)
                if stored is None:
                    done = self._register(published.uri)
                elif is_later(stored, metadata):
                    return foreign
                elif follows(stored, metadata):
                    foreign = foreign or _foreign(stored)
                    done = self._commit(stored, metadata)
                else:
                    foreign = foreign or _foreign(stored)
                    done = self._register_again(published)
                if done:
                    self._stored = metadata
                    return foreign
                self._stored = None
        except BaseException:
            self._stored = None  # nobody knows what was done
            raise
        raise keeps_changing(self.name, self._catalog)

    def drop(self) -> None:
        self._stored = None
        try:
            if self._read() is None:
                return
        except SpecError:
            return  # it is somebody else's
        except _MetadataLostError as error:
            if not self._is_in_our_folder(error):
                raise
        self._delete()

    def check(self) -> None:
        with suppress(_MetadataLostError):
            self._read()

    def forget(self) -> None:
        self._stored = None

    def _read(self) -> TableMetadata | None:
        """The table in the catalog; None if there is none. Raises SpecError if it is not ours."""
        stored = self._load()
        if stored is not None and not is_ours(stored, self._ledger, self._folder.url, self._identity):
            raise not_ours(self.name, self._catalog)
        return stored

    def _read_for(self, published: PublishedMetadata) -> TableMetadata | None:
        """As `_read`. A table whose metadata was deleted with its folder is removed, to be registered again."""
        try:
            return self._read()
        except _MetadataLostError as error:
            if not self._is_in_our_folder(error) or not published.is_newest:
                raise
            self._delete()
            return None

    def _load(self) -> TableMetadata | None:
        answer = self._client.request("GET", f"{self._client.table_path(self.name)}?snapshots=all", accepts=(404,))
        if answer.names_nothing:
            return None
        try:
            return TableMetadata.from_record(TableAnswer.model_validate_json(answer.content).metadata)
        except ValueError:
            raise _MetadataLostError(
                f"The table {self.name} in {self._catalog} cannot be read: {answer.message}",
                detail="It was left as it is: nobody knows whose it is. The Iceberg table in its folder is right.",
                hint="If it is this pipeline's, and the lake was moved, drop the table from the catalog without its "
                "files (DELETE without purge). The table is registered again within half a minute.",
            ) from None

    def _is_in_our_folder(self, error: _MetadataLostError) -> bool:
        """Whether the metadata that the catalog cannot read was in the table's own folder: then it is ours."""
        return f"{plain(self._folder)}/metadata/" in error.message

    def _commit(self, stored: TableMetadata, metadata: TableMetadata) -> bool:
        """Returns False if the table is not what it was, or is gone."""
        updates, newest = [*updates_of(stored, metadata)], metadata.newest
        if not updates:
            return True
        body = {"requirements": requirements_of(stored), "updates": updates}
        answer = self._client.request("POST", self._client.table_path(self.name), body, accepts=_CONFLICTS)
        if not answer.is_good:
            return False
        try:
            current = TableAnswer.model_validate_json(answer.content).current_snapshot
        except ValueError:
            current = None
        if newest is not None and current != newest.id:
            raise CatalogError(
                f"A commit of {self.name} was accepted by {self._catalog}, which has another snapshot all the same.",
                detail="Its readers see an earlier version. The Iceberg table in its folder is right.",
                hint="Check sink.catalog.uri: it may be that of another service. See the catalog's log.",
            )
        return True

    def _register(self, uri: str, *, overwrite: bool = False) -> bool:
        """Returns False if another one registered a table of that name, or it cannot be overwritten."""
        client = self._client
        path = f"{client.namespace_path(self.name)}/register"
        body = {"name": self.name.table, "metadata-location": uri, **({"overwrite": True} if overwrite else {})}
        answer = client.request("POST", path, body, accepts=(404, 406, 409) if overwrite else _CONFLICTS)
        if answer.names_nothing:
            namespace = {"namespace": [self.name.namespace], "properties": {}}
            client.request("POST", client.namespaces_path(), namespace, accepts=(409,))
            answer = client.request("POST", path, body, accepts=(409,))
        elif answer.status == 404:
            raise client.error(f"cannot register {uri}: {answer.message}", "Check that it can read that place.")
        return answer.is_good and TableAnswer.model_validate_json(answer.content).metadata_location == uri

    def _register_again(self, published: PublishedMetadata) -> bool:
        """Returns False if the table is another one by now, or another runner's commit is newer."""
        earlier = self._location()
        if not published.is_newest:
            return True  # its runner tells the catalog
        if self._register(published.uri, overwrite=True):
            return True
        self._delete()
        try:
            return self._register(published.uri)
        except CatalogError:
            if earlier is not None:
                with suppress(CatalogError):
                    self._register(earlier)
            raise

    def _location(self) -> str | None:
        """The metadata file of the table in the catalog. Raises SpecError if the table is not ours."""
        answer = self._client.request("GET", self._client.table_path(self.name), accepts=(404,))
        self._read()
        try:
            return TableAnswer.model_validate_json(answer.content).metadata_location
        except ValueError:
            return None

    def _delete(self) -> None:
        self._client.request("DELETE", f"{self._client.table_path(self.name)}?purgeRequested=false", accepts=(404,))


def plain(folder: Folder) -> str:
    """The URL of a folder without its scheme, which catalogs may write differently (`s3a` for `s3`)."""
    return folder.url.partition("://")[2] or folder.url


def _foreign(stored: TableMetadata) -> str:
    """What another program has done to a table in the catalog; "" if its newest snapshot is our last one."""
    newest = stored.newest
    if newest is None:
        return ""
    if newest.version is None:
        return f"a commit by {program_of(newest.summary)} through the catalog"
    return "a rollback by an unknown program through the catalog" if was_rolled_back(stored) else ""

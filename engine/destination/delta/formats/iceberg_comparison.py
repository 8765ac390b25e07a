"""Compares an Iceberg table with the Delta table whose files it has: files, counts, and deleted rows."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import numpy as np
from deltalake.exceptions import DeltaError

from engine.base.errors import DestinationError
from engine.destination.delta.log.deletion_vectors import Positions, positions, read_vector, unframed
from engine.destination.delta.log.delta_actions import StoredFile
from engine.destination.delta.log.delta_log import files_of
from engine.destination.delta.log.table_opening import open_table
from engine.destination.iceberg.deletes import deleted_rows
from engine.destination.iceberg.manifest_files import DATA
from engine.destination.iceberg.manifest_set import MetadataGoneError
from engine.destination.iceberg.table import IcebergTable
from engine.store.folder import Folder

_SHOWN = 5


def compare(iceberg: IcebergTable, folder: Folder) -> tuple[int | None, int, int, list[str]]:
    """The version, the data files and rows that both have in it, and what differs. folder: of the Delta table.

    Raises DestinationError if the Delta table has that version no more.
    """
    version, metadata = iceberg.version, iceberg.metadata
    if version is None or metadata is None:
        return None, 0, 0, ["it is not published, or another program has written to it"]
    try:
        files = {f"{folder.url}/{file.name}": file for file in files_of(open_table(folder, version), folder)}
    except DeltaError as error:
        raise DestinationError(
            f"The version {version} of {folder.url} cannot be read: {error}",
            detail="So nobody knows whether the Iceberg table of that version is right.",
            hint="Wait until the next change is published, and verify again.",
        ) from error
    try:
        manifests = iceberg.files_of(metadata.newest)
        rows = {entry.file.path: entry.file.rows for entry in manifests.live_entries(DATA)}
        deletes = deleted_rows(manifests, rows.keys(), lambda content: positions(unframed(content)))
        deleted = {uri: one.positions() for uri, one in deletes.items()}
    except (MetadataGoneError, FileNotFoundError) as error:
        return version, 0, 0, [f"a metadata file is gone: {error}"]
    other_counts = {uri for uri in rows if uri in files and files[uri].rows not in (-1, rows[uri])}
    differences = [
        *_named("it lacks", files.keys() - rows.keys()),
        *_named("it has, and should not have,", rows.keys() - files.keys()),
        *_named("it has another count of rows for", other_counts),
        *_named("it has other deleted rows in", _other_deletes(folder, files, deleted)),
    ]
    count = sum(rows.values()) - sum(len(of_file) for of_file in deleted.values())
    return version, len(rows.keys() & files.keys()), count, differences


def _other_deletes(folder: Folder, files: Mapping[str, StoredFile], deleted: Mapping[str, Positions]) -> set[str]:
    contents, none = dict[str, bytes](), np.empty(0, np.uint32)
    own = {
        uri: none if file.vector is None else positions(read_vector(folder, file.vector, contents))
        for uri, file in files.items()
    }
    return {uri for uri, of_file in own.items() if not np.array_equal(of_file, deleted.get(uri, none))}


def _named(what: str, uris: AbstractSet[str]) -> list[str]:
    """A sentence about some files, the first of them by name."""
    names = sorted(uri.rpartition("/")[2] for uri in uris)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return [f"{what} {', '.join(names[:_SHOWN])}{more}"] if names else []

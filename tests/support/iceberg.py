"""Reads Iceberg tables without Tidemark's code: by pyiceberg."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyiceberg.table import StaticTable

from engine.destination.iceberg.table import POINTER, metadata_name
from engine.store.folder import Folder


def opened(folder: Folder, properties: Mapping[str, str] | None = None) -> StaticTable:
    """The Iceberg table whose metadata is in a folder."""
    metadata = folder / "metadata"
    name = metadata_name(int(metadata.read(POINTER)))
    return StaticTable.from_metadata(f"{metadata.url}/{name}", dict(properties or {}))


def snapshots(table: StaticTable) -> Iterator[tuple[int, pa.Table]]:
    """The Delta version and the rows of each snapshot."""
    for snapshot in table.snapshots():
        assert snapshot.summary is not None
        version = int(snapshot.summary.additional_properties["tidemark.version"])
        yield version, table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()

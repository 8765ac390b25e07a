"""Reads Iceberg tables: by pyiceberg, without Tidemark's code, and by the reader of commands and the console."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyiceberg.table import StaticTable

from engine.capture.landing import TableVersion
from engine.destination.delta.formats.iceberg_reader import IcebergMirror, IcebergReader
from engine.destination.delta.read.delta_reader import DeltaReader
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


def read_by_us(delta_folder: Folder) -> IcebergMirror:
    """The newest snapshot of the Iceberg table of a Delta table, once it has what the Delta table has."""
    version = IcebergReader(DeltaReader(delta_folder, delta_folder), in_step=True).mirror()
    assert version is not None
    return version


def all_rows(version: TableVersion) -> pa.Table:
    """The rows and columns of a version."""
    return pa.concat_tables([version.schema.empty_table(), *version.batches(version.schema.names)])

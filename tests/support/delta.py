"""Reads Delta tables without Tidemark's code: by deltalake's query engine, which knows deletion vectors."""

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from engine.store.folder import Folder


def rows_at(folder: str | Path | Folder, version: int | None = None) -> pa.Table:
    """The rows of a version, by default the newest, with the types of the table's schema."""
    if isinstance(folder, str | Path):
        delta = DeltaTable(str(folder), version=version)
    else:
        delta = DeltaTable(folder.url, version=version, storage_options=dict(folder.options) or None)
    schema = pa.schema(delta.schema().to_arrow())
    rows = QueryBuilder().register("t", delta).execute("SELECT * FROM t")
    return pa.table(rows).select(schema.names).cast(schema)


def path_of(folder: Folder) -> Path:
    """Where a folder of a file system is."""
    return Path(folder.url)

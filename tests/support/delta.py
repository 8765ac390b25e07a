"""Reads Delta tables without Tidemark's code: by deltalake's query engine, which knows deletion vectors."""

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder


def rows_at(folder: str | Path, version: int | None = None) -> pa.Table:
    """The rows of a version, by default the newest, with the types of the table's schema."""
    delta = DeltaTable(str(folder), version=version)
    schema = pa.schema(delta.schema().to_arrow())
    found = QueryBuilder().register("t", delta).execute("SELECT * FROM t")
    return pa.table(found).select(schema.names).cast(schema)

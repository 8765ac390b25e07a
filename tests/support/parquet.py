"""Reads a Parquet destination as its documentation says, with DuckDB alone."""

from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

_FILES = """
    SELECT DISTINCT file.* FROM (
        SELECT unnest(files) AS file FROM read_json(?, maximum_object_size = 1 << 26, union_by_name = true, columns = {
            files: 'STRUCT("table" VARCHAR, generation BIGINT, content VARCHAR, epoch BIGINT, path VARCHAR)[]'})
    ) WHERE file."table" = ?
"""


def _query(sql: str, *parameters: Any) -> pa.Table:
    with closing(duckdb.connect(":memory:")) as connection:
        relation = connection.sql(sql, params=list(parameters))
        assert relation is not None
        return relation.to_arrow_table()


def files_of(root: Path, table: str) -> list[dict[str, Any]]:
    """The published files of a table."""
    if not (root / "_manifests").is_dir():
        return []
    return list(_query(_FILES, str(root / "_manifests/*.json"), table).to_pylist())


def generation_of(root: Path, table: str) -> int:
    """The newest generation of a table."""
    query = "SELECT max((tables -> ? ->> 'generation')::BIGINT) FROM read_json(?, columns = {tables: 'JSON'})"
    (generation,) = _query(query, f'$."{table}"', str(root / "_manifests/*.json")).column(0).to_pylist()
    return -1 if generation is None else int(generation)


def log_table(root: Path, table: str, content: str) -> pa.Table:
    """The rows of a table's newest generation. content: chunks or changes. Without any, a table without columns."""
    newest = generation_of(root, table)
    files = [f for f in files_of(root, table) if (f["generation"], f["content"]) == (newest, content)]
    query = "SELECT * EXCLUDE (date, hour) FROM read_parquet(?, union_by_name = true) ORDER BY _tm_seq"
    return _query(query, [str(root / file["path"]) for file in files]) if files else pa.table({})


def log_rows(root: Path, table: str, generation: int | None = None) -> list[dict[str, Any]]:
    """The rows of a table's newest generation, or of this one, in their order."""
    newest = generation_of(root, table) if generation is None else generation
    rows = list[dict[str, Any]]()
    files = [file for file in files_of(root, table) if file["generation"] == newest]
    for epoch, content in sorted({(file["epoch"], file["content"] != "chunks") for file in files}):
        paths = [
            str(root / file["path"])
            for file in files
            if (file["epoch"], file["content"] != "chunks") == (epoch, content)
        ]
        query = "SELECT * EXCLUDE (date, hour) FROM read_parquet(?, union_by_name = true) ORDER BY _tm_seq"
        rows += _query(query, paths).to_pylist()
    return rows


def replayed(root: Path, table: str, key: str) -> dict[Any, dict[str, Any]]:
    """The table as its newest generation leaves it, by key."""
    rows = dict[Any, dict[str, Any]]()
    for row in log_rows(root, table):
        values = {name: value for name, value in row.items() if not name.startswith("_tm_")}
        if row["_tm_kind"] in ("+I", "+U"):
            rows[row[key]] = values
        else:
            rows.pop(row[key], None)
    return rows

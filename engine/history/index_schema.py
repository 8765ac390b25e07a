"""The tables of the index. All of it can be rebuilt from the journals, so a new version simply starts again.

Rows are only ever appended (`journal` apart): DuckDB's updates conflict between threads, and history does not change.
Times are naive UTC. Every table but `journal` begins with the same four columns, and (pipeline, run, seq) leads back to the
journal line. `run` ids are unique within a pipeline only, hence the pipeline in every key.
"""

import pyarrow as pa

VERSION = 4
"""Raise it whenever a table below changes."""

_KEY = [("pipeline", pa.string()), ("run", pa.string()), ("seq", pa.int64()), ("ts", pa.timestamp("us"))]
_CHUNK = [("tbl", pa.string()), ("chunk", pa.int64())]

TABLES: dict[str, pa.Schema] = {
    # Every line but the two-second `source.lag`, as it was written.
    "event": pa.schema([*_KEY, ("event", pa.string()), ("tbl", pa.string()), ("body", pa.string())]),
    "planned": pa.schema(
        [
            *_KEY,
            ("tbl", pa.string()),
            ("approx_rows", pa.int64()),
            ("chunk_key", pa.string()),
            ("min", pa.string()),
            ("max", pa.string()),
            ("factor", pa.float64()),
            ("strategy", pa.string()),
            ("reason", pa.string()),
            ("chunks", pa.int64()),  # how many were listed: 0 when they are cut while the copy runs
            ("chunk_rows", pa.int64()),
            ("estimated_chunks", pa.int64()),
        ]
    ),
    # Of table.planned and of chunk.planned: a number may come again, with new bounds.
    "planned_chunk": pa.schema([*_KEY, *_CHUNK, ("lower", pa.string()), ("upper", pa.string())]),
    # What each chunk.planned said of its table: 1 when nothing was left to be cut, else 0. The newest counts.
    "cut": pa.schema([*_KEY, ("tbl", pa.string()), ("complete", pa.int64())]),
    "resumed": pa.schema([*_KEY, ("tbl", pa.string()), ("first", pa.int64()), ("last", pa.int64())]),
    "assigned": pa.schema([*_KEY, *_CHUNK, ("grp", pa.string())]),
    "failed": pa.schema(
        [
            *_KEY,
            *_CHUNK,
            ("grp", pa.string()),
            ("error", pa.string()),
            ("message", pa.string()),
            ("attempt", pa.int64()),
            ("retry_in_s", pa.float64()),
        ]
    ),
    "finished": pa.schema(
        [
            *_KEY,
            *_CHUNK,
            ("lower", pa.string()),
            ("upper", pa.string()),
            ("low", pa.string()),
            ("high", pa.string()),
            ("high_at", pa.int64()),  # `rows.place_of` the high watermark
            ("gap_bytes", pa.int64()),
            ("rows", pa.int64()),
            ("backfill_changes", pa.int64()),
            ("backfill_deleted", pa.int64()),
            ("backfill_upserted", pa.int64()),
            ("file", pa.string()),
            ("bytes", pa.int64()),
            ("low_s", pa.float64()),
            ("read_s", pa.float64()),
            ("high_s", pa.float64()),
            ("backfill_s", pa.float64()),
            ("write_s", pa.float64()),
            ("started", pa.timestamp("us")),
            ("ended", pa.timestamp("us")),
            ("reader", pa.string()),
            ("host", pa.string()),
            ("pid", pa.int64()),
            ("attempt", pa.int64()),
            ("grp", pa.string()),
        ]
    ),
    "epoch": pa.schema(
        [
            *_KEY,
            ("epoch", pa.int64()),
            ("from_position", pa.string()),
            ("to_position", pa.string()),
            ("to_at", pa.int64()),
            ("changes", pa.int64()),
            ("transactions", pa.int64()),
            ("bytes", pa.int64()),
            ("read_s", pa.float64()),
            ("commit_s", pa.float64()),
            ("reader", pa.string()),
        ]
    ),
    "changed": pa.schema([*_KEY, ("tbl", pa.string()), ("changes", pa.int64())]),
    "lag": pa.schema(
        [
            *_KEY,
            ("position", pa.string()),
            ("source_position", pa.string()),
            ("lag_s", pa.float64()),
            ("lag_bytes", pa.int64()),
            ("runway_s", pa.float64()),
        ]
    ),
}

UNIQUE = ("event", "lag")
"""The tables that hold one row a line, and refuse a second."""

_JOURNAL = """
CREATE TABLE IF NOT EXISTS journal (
    pipeline VARCHAR, run VARCHAR, read_to BIGINT, last_seq BIGINT, lines BIGINT, malformed BIGINT, malformed_text VARCHAR,
    PRIMARY KEY (pipeline, run))
"""

_TYPES = {"string": "VARCHAR", "int64": "BIGINT", "double": "DOUBLE", "timestamp[us]": "TIMESTAMP"}


def create_statements() -> list[str]:
    """SQL that creates whatever table is missing. One `event` line a (pipeline, run, seq)."""
    statements = [_JOURNAL, f"CREATE TABLE IF NOT EXISTS version_{VERSION} (version INTEGER)"]
    for name, schema in TABLES.items():
        columns = ", ".join(f'"{field.name}" {_TYPES[str(field.type)]}' for field in schema)
        unique = ", PRIMARY KEY (pipeline, run, seq)" if name in UNIQUE else ""
        statements.append(f'CREATE TABLE IF NOT EXISTS "{name}" ({columns}{unique})')
    return statements

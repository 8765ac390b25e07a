"""The tables of the index. Everything can be rebuilt from the journals, so a new version simply starts over.

Rows are appended, and deleted when retention has deleted their part of a journal. Only `journal` is updated: DuckDB's
updates conflict between threads, and history does not change. Times are naive UTC. Every table except `journal` begins
with the same four columns, and (pipeline, run, seq) identifies the journal line. `run` ids are unique within a pipeline
only, so every key includes the pipeline. `journal` has a row per part; `first` is its first line's `seq`, 0 for a run's
first part.
"""

import pyarrow as pa

VERSION = 11
"""Increase it whenever a table below changes."""

_KEY = [("pipeline", pa.string()), ("run", pa.string()), ("seq", pa.int64()), ("ts", pa.timestamp("us"))]
CHANGE_KINDS = ("inserts", "updates_before", "updates_after", "deletes")
"""The columns of `changed` for +I, -U, +U and -D."""
FRESHNESS = ("log_p50_s", "log_p99_s", "mirror_p50_s", "mirror_p99_s")
"""Columns of `lag`: percentiles of `log_freshness` and `mirror_freshness`."""
_CHUNK = [("tbl", pa.string()), ("chunk", pa.int64())]

TABLES: dict[str, pa.Schema] = {
    # Every line except `source.lag`, which comes every two seconds, as it was written.
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
            ("chunks", pa.int64()),  # the number listed: 0 if the table is split while it is copied
            ("chunk_rows", pa.int64()),
            ("estimated_chunks", pa.int64()),
        ]
    ),
    # From table.planned and chunk.planned: a number may recur with new bounds. `parent`: the chunk that it was split
    # from.
    "planned_chunk": pa.schema(
        [*_KEY, *_CHUNK, ("lower", pa.string()), ("upper", pa.string()), ("parent", pa.int64())]
    ),
    # From chunk.planned: 1 if its table was completely split, else 0. The newest row counts.
    "split": pa.schema([*_KEY, ("tbl", pa.string()), ("complete", pa.int64())]),
    # From run.started, table.state and chunk.parked, which are also in `event`: answers that need only these stay
    # current while other events arrive (`index.History.ask`).
    "begun": pa.schema(_KEY),
    "stated": pa.schema(
        [*_KEY, ("tbl", pa.string()), ("state", pa.string()), ("reason", pa.string()), ("hint", pa.string())]
    ),
    "parked": pa.schema([*_KEY, *_CHUNK]),
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
            ("high_at", pa.int64()),  # `place_of` the high watermark (`journal_rows`)
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
    # From epoch.committed. The kinds, without those of redumps, are NULL in journals of earlier versions. `changes`:
    # all entries.
    "changed": pa.schema(
        [
            *_KEY,
            ("tbl", pa.string()),
            ("epoch", pa.int64()),
            ("changes", pa.int64()),
            ("redumped", pa.int64()),
            *((name, pa.int64()) for name in CHANGE_KINDS),
        ]
    ),
    "applied": pa.schema([*_KEY, ("tbl", pa.string()), ("kind", pa.string()), ("through_epoch", pa.int64())]),
    "lag": pa.schema(
        [
            *_KEY,
            ("position", pa.string()),
            ("source_position", pa.string()),
            ("lag_s", pa.float64()),
            ("lag_bytes", pa.int64()),
            ("runway_s", pa.float64()),
            ("mirror_age_s", pa.float64()),
            *((name, pa.float64()) for name in FRESHNESS),
        ]
    ),
}

UNIQUE = ("event", "lag")
"""The tables with one row per line, which reject a second one."""

JOURNAL = pa.schema(
    [
        ("pipeline", pa.string()),
        ("run", pa.string()),
        ("first", pa.int64()),
        ("read_to", pa.int64()),
        ("last_seq", pa.int64()),
        ("complete", pa.bool_()),
        ("lines", pa.int64()),
        ("malformed", pa.int64()),
        ("malformed_text", pa.string()),
    ]
)

_TYPES = {"string": "VARCHAR", "int64": "BIGINT", "double": "DOUBLE", "timestamp[us]": "TIMESTAMP", "bool": "BOOLEAN"}


def create_statements() -> list[str]:
    """SQL that creates the missing tables. `event` has one row per (pipeline, run, seq)."""
    statements = [f"CREATE TABLE IF NOT EXISTS version_{VERSION} (version INTEGER)"]
    keys = dict.fromkeys(UNIQUE, "pipeline, run, seq") | {"journal": "pipeline, run, first"}
    for name, schema in {"journal": JOURNAL, **TABLES}.items():
        columns = ", ".join(f'"{field.name}" {_TYPES[str(field.type)]}' for field in schema)
        unique = f", PRIMARY KEY ({keys[name]})" if name in keys else ""
        statements.append(f'CREATE TABLE IF NOT EXISTS "{name}" ({columns}{unique})')
    return statements

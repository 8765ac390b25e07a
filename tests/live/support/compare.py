"""Is the copy equal to the source? Read both without Tidemark's own code and compare row for row.

The source is read by PyMySQL in the text protocol, into the Arrow types of docs/types.md as they follow from
`information_schema`; the lake is read by deltalake. Equal tables are proved equal by Arrow in one comparison; only
when they differ does DuckDB find out where, so that a million rows take seconds.
"""

import json
import struct
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pymysql.cursors import SSCursor

from tests.servers import Server
from tests.support.delta import rows_at
from tests.support.readers import rows_by_reader

BATCH_ROWS = 20_000
SHOWN = 5
LONGEST_DECIMAL = 38
INTEGERS = {"tinyint": pa.int8(), "smallint": pa.int16(), "mediumint": pa.int32(), "int": pa.int32()}
WIDER = {"tinyint": pa.int16(), "smallint": pa.int32(), "mediumint": pa.int32(), "int": pa.int64()}
SPATIAL = {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"}
SPATIAL |= {"geomcollection", "geometrycollection"}
BINARY = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"} | SPATIAL

COLUMNS = """
SELECT column_name, data_type, column_type, numeric_precision, numeric_scale
FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
"""
KEY = """
SELECT column_name FROM information_schema.statistics
WHERE table_schema = %s AND table_name = %s AND index_name = 'PRIMARY' ORDER BY seq_in_index
"""


def source_table(server: Server, database: str, table: str) -> pa.Table:
    """The whole source table, sorted by its primary key.

    The schema's metadata names the key's columns under ``key``.
    """
    columns = server.execute(COLUMNS, (database, table))
    key = [row[0] for row in server.execute(KEY, (database, table))]
    fields = [pa.field(row[0], _arrow_type(*row[1:5])) for row in columns]
    schema = pa.schema(fields, metadata={"key": json.dumps(key)})
    expressions = ", ".join(_expression(*row[:3]) for row in columns)
    with closing(server.connect(conv={}, init_command="SET time_zone = '+00:00'")) as connection:
        cursor = connection.cursor(SSCursor)
        where = ".".join("`" + name.replace("`", "``") + "`" for name in (database, table))
        cursor.execute(f"SELECT {expressions} FROM {where}")
        batches = [_batch(rows, schema) for rows in _fetched(cursor)]
    return _sorted(pa.Table.from_batches(batches, schema), key)


def lake_table(path: str | Path) -> pa.Table:
    """A Delta table at its current version."""
    return rows_at(path)


def assert_equal(source: pa.Table, mirror: str | Path | pa.Table, key: Iterable[str] = ()) -> None:
    """Fail, naming the first keys that differ, unless the mirror (a Delta path or table) holds exactly the source.

    Columns that begin with ``_tm_`` are not compared. `key` is by default the source's primary key.
    """
    key = list(key) or key_of(source)
    copy = mirror if isinstance(mirror, pa.Table) else lake_table(mirror)
    own = [name for name in copy.column_names if not name.startswith("_tm_")]
    assert own == source.column_names, f"the columns differ: source {source.column_names}, mirror {own}"
    copy = _sorted(copy.select(own).cast(pa.schema(list(source.schema))), key)
    if not copy.equals(source):
        raise AssertionError(_differences(source, copy, key))


def assert_read_by_all(source: pa.Table, mirror: str | Path, changes: str | Path) -> None:
    """Fail unless each independent reader finds the source's rows in the mirror, and all find the same change log."""
    order, log = [("_tm_seq", "ascending")], None
    for reader, (rows, found) in rows_by_reader(mirror, changes).items():
        print("read by", reader)
        assert_equal(source, rows)
        log = log if log is not None else found.sort_by(order)
        assert found.sort_by(order).cast(log.schema).equals(log), f"{reader} reads another change log"


def apply_changes(snapshot: pa.Table, changes: str | Path | pa.Table, key: Iterable[str] = ()) -> pa.Table:
    """`snapshot` after all changes (a Delta path or a table), in the order of ``_tm_seq``, sorted by key.

    A key's last change decides: ``-U`` and ``-D`` leave no row under their image's key, ``+I`` and ``+U`` leave it.
    """
    key = list(key) or key_of(snapshot)
    log = changes if isinstance(changes, pa.Table) else lake_table(changes)
    names = ", ".join(_quoted(snapshot.column_names))
    by_key = ", ".join(_quoted(key))
    with closing(_duckdb(snapshot=snapshot, log=log)) as db:
        result = db.sql(f"""
            WITH newest AS (
                SELECT * FROM log QUALIFY row_number() OVER (PARTITION BY {by_key} ORDER BY _tm_seq DESC) = 1)
            SELECT {names} FROM newest WHERE _tm_kind IN ('+I', '+U')
            UNION ALL
            SELECT {names} FROM snapshot ANTI JOIN newest USING ({by_key})""").to_arrow_table()
    return _sorted(result.cast(snapshot.schema), key)


def log_faults(snapshot: pa.Table, changes: str | Path | pa.Table, key: Iterable[str] = ()) -> list[str]:
    """Where the change log cannot be what happened to `snapshot`; empty for a log without gap or duplicate.

    Each ``-U`` and ``-D`` must find its very image under its key, each ``+I`` and ``+U`` no row, and ``_tm_seq`` must
    be unique. This sees faults that a later change of the same key hides from `apply_changes`.
    """
    key = list(key) or key_of(snapshot)
    log = changes if isinstance(changes, pa.Table) else lake_table(changes)
    names, by_key = ", ".join(_quoted(snapshot.column_names)), ", ".join(_quoted(key))
    image = "row(" + names + ")"
    with closing(_duckdb(snapshot=snapshot, log=log)) as db:
        faults = db.sql(f"""
            WITH history AS (
                SELECT {names}, '+I' AS _tm_kind, NULL::BIGINT AS _tm_seq FROM snapshot
                UNION ALL SELECT {names}, _tm_kind, _tm_seq FROM log),
            steps AS (
                SELECT {by_key}, _tm_kind, _tm_seq, {image} AS image,
                       lag(_tm_kind) OVER one_key AS before_kind, lag({image}) OVER one_key AS before
                FROM history WINDOW one_key AS (PARTITION BY {by_key} ORDER BY _tm_seq NULLS FIRST))
            SELECT {by_key}, _tm_seq, _tm_kind, before_kind FROM steps WHERE CASE
                WHEN _tm_kind IN ('+I', '+U') THEN coalesce(before_kind, '-D') NOT IN ('-U', '-D')
                ELSE coalesce(before_kind, '-D') IN ('-U', '-D') OR before IS DISTINCT FROM image END
            ORDER BY _tm_seq LIMIT {SHOWN}""").fetchall()
        repeated = db.sql(f"SELECT _tm_seq FROM log GROUP BY 1 HAVING count(*) > 1 LIMIT {SHOWN}").fetchall()
    faulty = [f"key {row[:-3]}: {row[-2]} at _tm_seq {row[-3]} comes after {row[-1] or 'nothing'}" for row in faults]
    return faulty + [f"_tm_seq {seq} occurs more than once" for (seq,) in repeated]


def key_of(table: pa.Table) -> list[str]:
    """The primary key that `source_table` noted in the schema."""
    metadata = table.schema.metadata or {}
    key: list[str] = json.loads(metadata.get(b"key", b"[]"))
    assert key, "this table names no key: give one"
    return key


def _arrow_type(kind: str, full: str, precision: int | None, scale: int | None) -> pa.DataType:
    unsigned = "unsigned" in full
    simple = {
        "float": pa.float32(),
        "double": pa.float64(),
        "date": pa.date32(),
        "datetime": pa.timestamp("us"),
        "timestamp": pa.timestamp("us", "UTC"),
        "year": pa.int32(),
        "bigint": pa.decimal128(20, 0) if unsigned else pa.int64(),
        "vector": pa.list_(pa.float32()),
    }
    if kind in INTEGERS:
        return (WIDER if unsigned else INTEGERS)[kind]
    if kind == "decimal" and (precision or 0) <= LONGEST_DECIMAL:
        return pa.decimal128(precision, scale)
    if kind == "bit":
        return pa.bool_() if full == "bit(1)" else pa.binary()
    return pa.binary() if kind in BINARY else simple.get(kind, pa.string())


def _expression(name: str, kind: str, full: str) -> str:
    """How the column is selected.

    The text protocol shortens a FLOAT and a DOUBLE(M,D), the exact value as a DOUBLE is whole.

    Binaries come as hexadecimal digits: PyMySQL takes those of some types for text.
    """
    quoted = f"`{name.replace('`', '``')}`"
    if kind == "float" or full.startswith("double("):
        return f"CAST({quoted} AS DOUBLE)"
    if kind == "json":
        return f"CAST({quoted} AS CHAR)"
    if kind == "bit":
        return f"LPAD(HEX({quoted}), {(int(full[4:-1]) + 7) // 8 * 2}, '0')"
    return f"HEX({quoted})" if kind in BINARY | {"vector"} else quoted


def _fetched(cursor: SSCursor) -> Iterator[list[tuple[Any, ...]]]:
    while rows := cursor.fetchmany(BATCH_ROWS):
        yield rows


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.record_batch([_array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)


def _array(cells: tuple[Any, ...], wanted: pa.DataType) -> pa.Array:
    if pa.types.is_binary(wanted) or pa.types.is_boolean(wanted) or pa.types.is_list(wanted):
        return _from_digits([None if cell is None else bytes.fromhex(cell) for cell in cells], wanted)
    if pa.types.is_temporal(wanted):
        cells = tuple(cell if cell is None or _exists(cell) else None for cell in cells)
    text = pa.array([cell.decode() if isinstance(cell, bytes) else cell for cell in cells], pa.string())
    if pa.types.is_timestamp(wanted) and wanted.tz:
        return pc.assume_timezone(text.cast(pa.timestamp("us")), "UTC")
    return text.cast(pa.float64()).cast(wanted, safe=False) if wanted == pa.float32() else text.cast(wanted)


def _from_digits(cells: list[bytes | None], wanted: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(wanted):
        return pa.array([None if cell is None else cell != b"\0" for cell in cells], wanted)
    if pa.types.is_list(wanted):
        return pa.array([None if c is None else [v for (v,) in struct.iter_unpack("<f", c)] for c in cells], wanted)
    return pa.array(cells, wanted)


def _exists(date: str) -> bool:
    """Whether a date is valid. Tidemark publishes invalid dates as NULL if the spec says so."""
    year, month, day = int(date[:4]), int(date[5:7]), int(date[8:10])
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = {2: 28 + leap, 4: 30, 6: 30, 9: 30, 11: 30}.get(month, 31)
    return 1 <= month <= 12 and 1 <= day <= days


def _sorted(table: pa.Table, key: list[str]) -> pa.Table:
    ordered = table.sort_by([(name, "ascending") for name in key]) if key else table
    return ordered.combine_chunks()


def _differences(source: pa.Table, copy: pa.Table, key: list[str]) -> str:
    by_key = ", ".join(_quoted(key))
    others = [name for name in source.column_names if name not in key]
    with closing(_duckdb(source=source, copy=copy)) as db:
        lines = [f"source {source.num_rows} rows, mirror {copy.num_rows} rows"]
        for label, one, other in (
            ("missing in the mirror", "source", "copy"),
            ("only in the mirror", "copy", "source"),
        ):
            keys = db.sql(f"SELECT {by_key} FROM {one} ANTI JOIN {other} USING ({by_key}) ORDER BY ALL")
            lines += _listed(label, keys)
        twice = db.sql(f"SELECT {by_key} FROM copy GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL")
        lines += _listed("twice in the mirror", twice)
        for name in _quoted(others):
            differ = db.sql(f"""SELECT {by_key}, source.{name}, copy.{name} FROM source JOIN copy USING ({by_key})
                WHERE source.{name} IS DISTINCT FROM copy.{name} ORDER BY ALL""")
            lines += _listed(f"{name} differs (key, source, mirror)", differ)
    return "the mirror is not the source: " + "\n  ".join(lines)


def _listed(label: str, found: "duckdb.DuckDBPyRelation") -> list[str]:
    table = found.to_arrow_table()  # DuckDB's own fetchall wants pytz for a TIMESTAMP
    if not table.num_rows:
        return []
    shown = zip(*(column.slice(0, SHOWN).to_pylist() for column in table.columns), strict=True)
    more = ", …" if table.num_rows > SHOWN else ""
    return [f"{table.num_rows} {label}: {', '.join(str(row) for row in shown)}{more}"]


def _quoted(names: Iterable[str]) -> list[str]:
    return ['"' + name.replace('"', '""') + '"' for name in names]


def _duckdb(**tables: pa.Table) -> duckdb.DuckDBPyConnection:
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    for name, table in tables.items():
        db.register(name, table)
    return db

"""Files that other programs have written into a table are read in the table's types, whatever theirs are."""

import json
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from engine.capture.binlog.row_changes import log_schema
from engine.capture.files import FileWriter
from engine.decode.arrow_schema import arrow_schema
from engine.decode.schema import Column, Table
from engine.destination.delta.read.file_rows import rows_of
from engine.destination.delta.table import DeltaDestinationTable
from engine.ledger.state import Owner
from engine.spec.sink_settings import MirrorMode
from tests.support.delta import path_of, rows_at
from tests.unit.destination.lake import delta_table, merge

COLUMNS = (
    Column("k", "varchar", charset="utf8mb4", length=40, nullable=False),
    Column("n", "int"),
    Column("b", "blob"),
    Column("d", "decimal", precision=12, scale=2),
    Column("day", "date"),
    Column("at", "timestamp"),
    Column("local", "datetime"),
)
TABLE = Table("shop", "t", COLUMNS, ("k",))
FAR = datetime.fromisoformat("2500-01-02T03:04:05.678901")
VALUES = [
    {"k": f"key {n}", "n": n, "b": b"x" * n, "d": Decimal(n) / 4, "day": date(2026, 1, 1 + n), "at": FAR, "local": FAR}
    for n in range(9)
]
Written = Callable[[pa.Table, Path], object]


def viewed(rows: pa.Table, path: Path) -> None:
    """As deltalake and Polars: views, and other widths."""
    types = {"k": pa.string_view(), "b": pa.binary_view(), "n": pa.int64(), "at": pa.timestamp("us", "Europe/Berlin")}
    pq.write_table(_cast(rows, types), path)


def large(rows: pa.Table, path: Path) -> None:
    """As Polars with Arrow's older types, and dictionaries."""
    types = {"k": pa.dictionary(pa.int32(), pa.string()), "b": pa.large_binary(), "d": pa.decimal256(40, 2)}
    pq.write_table(_cast(rows, types), path)


def sparked(rows: pa.Table, path: Path) -> None:
    """As Spark: times of 96 bits without a zone, decimals as integers, no Arrow schema."""
    naive = {"at": pa.timestamp("us")}
    pq.write_table(
        _cast(rows, naive),
        path,
        use_deprecated_int96_timestamps=True,
        store_schema=False,
        store_decimal_as_integer=True,
    )


def ducked(rows: pa.Table, path: Path) -> None:
    """As DuckDB writes them."""
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        db.register("rows", rows)
        db.execute(f"COPY (SELECT * FROM rows) TO '{path}' (FORMAT parquet)")


def _cast(rows: pa.Table, types: dict[str, pa.DataType]) -> pa.Table:
    for name, kind in types.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows[name].cast(kind))
    return rows


def mirror(folder: Path, mode: MirrorMode, write: Written) -> DeltaDestinationTable:
    """A mirror whose only file another program has written."""
    delta = delta_table(folder, Owner("l"), TABLE, on_read=mode == "merge_on_read")
    delta.pair.create(must_exist=False)
    schema = pa.schema(DeltaTable(delta.pair.mirror.folder.url).schema().to_arrow())
    values = [{**row, "at": FAR.replace(tzinfo=UTC), "_tm_seq": None} for row in VALUES]
    name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    write(pa.Table.from_pylist(values, schema=schema), path_of(delta.pair.mirror.folder) / name)
    stats = json.dumps({"numRecords": len(values)})
    path = path_of(delta.pair.mirror.folder) / "_delta_log" / f"{1:020d}.json"
    size = (path_of(delta.pair.mirror.folder) / name).stat().st_size
    add = {"path": name, "size": size, "modificationTime": 0, "partitionValues": {}, "dataChange": True, "stats": stats}
    path.write_text(json.dumps({"add": add}) + "\n")
    return delta


@pytest.mark.parametrize("write", [viewed, large, sparked, ducked])
def test_their_rows_are_found_and_merged(tmp_path: Path, mode: MirrorMode, write: Written) -> None:
    """By conditions on any column, in the table's types; a merge replaces them."""
    delta = mirror(tmp_path, mode, write)
    found = rows_of(DeltaTable(delta.pair.mirror.folder.url), delta.pair.mirror.folder)
    expected = [{**row, "at": FAR.replace(tzinfo=UTC), "_tm_seq": None} for row in VALUES]
    assert found.table().to_pylist() == expected
    assert found.table().schema.types == found.schema.types
    conditions: list[tuple[Any, Callable[[dict[str, Any]], bool]]] = [
        (pc.field("k") == "key 3", lambda row: row["k"] == "key 3"),
        (pc.field("k").isin(pa.array(["key 1", "key 7"])), lambda row: row["k"] in ("key 1", "key 7")),
        ((pc.field("k") >= "key 2") & (pc.field("k") < "key 5"), lambda row: "key 2" <= row["k"] < "key 5"),
        (pc.field("n") > 6, lambda row: row["n"] > 6),
        (pc.field("b") == b"xx", lambda row: row["b"] == b"xx"),
        (pc.field("d") == pa.scalar(Decimal("0.50"), pa.decimal128(12, 2)), lambda row: row["d"] == Decimal("0.5")),
        (pc.field("day") <= date(2026, 1, 2), lambda row: row["day"] <= date(2026, 1, 2)),
        (pc.field("local") == FAR, lambda _: True),
    ]
    for condition, chosen in conditions:
        assert found.table(["n"], condition)["n"].to_pylist() == [row["n"] for row in expected if chosen(row)]
        assert found.count(condition) == sum(map(chosen, expected))
    _delete(delta, "key 4")
    assert sorted(rows_at(delta.pair.mirror.folder)["n"].to_pylist()) == [0, 1, 2, 3, 5, 6, 7, 8]
    left = rows_of(DeltaTable(delta.pair.mirror.folder.url), delta.pair.mirror.folder)
    assert sorted(left.table(["n"], pc.field("k") > "key 2")["n"].to_pylist()) == [3, 5, 6, 7, 8]


def _delete(delta: DeltaDestinationTable, key: str) -> None:
    log = log_schema(arrow_schema(TABLE))
    with FileWriter(delta.pair.changes.folder, "changes", log, ("_tm_seq",)) as writer:
        writer.write(pa.Table.from_pylist([{"k": key, "_tm_kind": "-D", "_tm_seq": 1}], schema=log))
        assert merge(delta, 2, writer.close()) is not None


def test_an_update_by_deltalake_is_read(tmp_path: Path) -> None:
    """It rewrites files with views of texts."""
    delta = mirror(tmp_path, "copy_on_write", viewed)
    DeltaTable(delta.pair.mirror.folder.url).update({"n": "100"}, predicate="k = 'key 3'")
    found = rows_of(DeltaTable(delta.pair.mirror.folder.url), delta.pair.mirror.folder)
    assert found.table(["n"], pc.field("k") == "key 3")["n"].to_pylist() == [100]

"""Every type and its extreme values, written to PostgreSQL, MySQL and MariaDB, and read back by their own clients."""

import json
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.base.errors import DestinationError
from engine.capture.binlog.row_changes import log_schema
from engine.capture.files import DataFile, FileWriter
from engine.capture.landing import reader_of
from engine.decode.arrow_schema import conformed, image_schema
from engine.decode.schema import TM_KIND, TM_SEQ, Column, Table
from engine.destination.destination_protocol import CHANGES, CHUNKS, Destination, EpochEnd
from engine.ledger.state import Owner
from engine.plan.row_conditions import EVERY_ROW, AllOf, Compared, NullColumn, OneOf, Sign
from engine.source.catalog import read_table
from tests.live.support import every_type
from tests.live.support.compare import source_table
from tests.servers import Server
from tests.servers.pool import Pool
from tests.servers.postgres import Postgres
from tests.support import database as databases
from tests.unit.destination.support import DATABASE, OLD, PLAN, World, schema_of


@pytest.fixture
def rows(server: Server, database: str) -> tuple[Table, pa.Table]:
    """A table of every type on the source, and its rows."""
    chosen = every_type.kinds(server)
    count = every_type.create(server, database, "t", chosen)
    every_type.insert(server, database, "t", chosen, 1, count)
    with closing(every_type.session(server)) as connection:
        table = read_table(connection, database, "t", null_dates=True).with_null_dates(True)
    found = source_table(server, database, "t")
    schema = image_schema(replace(table, database="d"))
    return replace(table, database="d"), pa.table([found[name] for name in schema.names], schema=schema)


def _files(destination: Destination, table: Table, data: pa.Table, kind: str) -> list[DataFile]:
    landing, schema = destination.landing, data.schema
    if kind == CHANGES:
        schema = log_schema(data.schema)
        own = {TM_KIND: ["+I"] * data.num_rows, TM_SEQ: range(1, data.num_rows + 1)}
        data = pa.table(
            [
                data[field.name] if field.name in data.column_names
                else pa.array(own.get(field.name, [None] * data.num_rows), field.type)
                for field in schema
            ],
            schema=schema,
        )  # fmt: skip
    folder = landing.chunks(table) if kind == CHUNKS else landing.changes(table)
    with FileWriter(folder, kind, schema, table.key) as writer:
        writer.write(data)
        return writer.close()


def _published(world: World, table: Table, data: pa.Table, kind: str) -> None:
    """Write the rows, and read them back."""
    destination = world.destination()
    opened = destination.table(Owner("L"), table, PLAN)
    opened.open(must_exist=False)
    opened.append(kind, 1, _files(destination, table, data, kind))
    destination.publish(EpochEnd(1, "b:1", ""))
    _read_back(world, table, data)


def _read_back(world: World, table: Table, data: pa.Table) -> None:
    """What the destination reads back of a table is what was written, and conditions select the right rows."""
    version = reader_of(world.destination().landing, table).mirror()
    assert version is not None
    assert version.transaction(Owner("L").transaction(CHUNKS)) in (1, -1)
    rows = pa.concat_tables(version.batches(data.column_names)).sort_by("id")
    assert version.count(EVERY_ROW) == data.num_rows
    for name in data.column_names:
        read, wanted = conformed(rows.select([name]), data.select([name]).schema)[name], data[name]
        if table.column(name).type == "json":
            read, wanted = (pa.chunked_array([_canonical(one)]) for one in (read, wanted))
        assert read.equals(wanted), table.column(name)
        if pa.types.is_list(wanted.type) or pa.types.is_floating(wanted.type) or table.column(name).type == "json":
            continue
        values = wanted.drop_null().unique()
        assert version.count(OneOf(name, values)) == len(wanted) - wanted.null_count, table.column(name)
        assert version.count(NullColumn(name)) == wanted.null_count
        if len(values) and not pa.types.is_string(values.type):
            middle = values[len(values) // 2]
            comparisons: list[tuple[Sign, Any]] = [("<", pc.less), (">=", pc.greater_equal), ("=", pc.equal)]
            for sign, compare in comparisons:
                expected = pc.sum(pc.fill_null(compare(wanted, middle), False)).as_py()
                assert version.count(AllOf([Compared(name, sign, middle)])) == expected, (table.column(name), sign)


def _canonical(texts: pa.ChunkedArray) -> pa.Array:
    return pa.array([None if one is None else json.dumps(json.loads(one), sort_keys=True) for one in texts.to_pylist()])


def _cell(value: Any) -> Any:
    """A value of PostgreSQL's client as Arrow takes it."""
    if isinstance(value, memoryview):
        return bytes(value)
    return value


def _from_postgres(address: dict[str, Any], schema: str, wanted: pa.Schema) -> pa.Table:
    columns = []
    for field in wanted:
        name = f'"{field.name}"::text' if pa.types.is_string(field.type) else f'"{field.name}"'
        found = databases.queried(address, f'SELECT {name} FROM "{schema}"."t" ORDER BY id')
        columns.append(pa.array([_cell(cell) for (cell,) in found], field.type))
    return pa.table(columns, schema=wanted)


def _fits_postgres(column: pa.ChunkedArray) -> bool:
    """Whether PostgreSQL has the values: no zero byte in a text, no year 0."""
    if pa.types.is_string(column.type):
        return not pc.any(pc.match_substring(column, "\0")).as_py()
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        return not pc.any(pc.less(pc.year(column), 1)).as_py()
    return True


@pytest.mark.parametrize("kind", [CHUNKS, CHANGES])
def test_every_type_in_postgresql(
    rows: tuple[Table, pa.Table], kind: str, postgresql: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By COPY, and as changes."""
    table, data = rows
    names = [name for name in data.column_names if _fits_postgres(data[name])]
    assert len(names) > data.num_columns - 25
    own = replace(table, columns=tuple(column for column in table.columns if column.name in names))
    address = {"host": "127.0.0.1", "port": postgresql.port, "user": "tidemark", "database": "postgres"}
    address["state_schema"] = schema_of(tmp_path)
    monkeypatch.setenv(DATABASE, json.dumps(address))
    _published(World(tmp_path, kind="postgresql"), own, data.select(names), kind)
    found = _from_postgres(address, schema_of(tmp_path), data.select(names).schema)
    for name in names:
        assert found[name].equals(data[name]), own.column(name)


@pytest.mark.parametrize("kind", [CHUNKS, CHANGES])
@pytest.mark.parametrize("to", ["mysql", "mariadb"])
def test_every_type_in_mysql_and_mariadb(
    rows: tuple[Table, pa.Table],
    to: str,
    kind: str,
    servers: Pool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As chunks, and as changes."""
    table, data = rows
    server, schema = servers.get(to), schema_of(tmp_path)
    server.execute(f"CREATE DATABASE {schema}")
    address = {"host": "127.0.0.1", "port": server.port, "user": "root", "database": schema}
    monkeypatch.setenv(DATABASE, json.dumps(address))
    _published(World(tmp_path, kind="mysql"), table, data, kind)
    found = source_table(server, schema, "t")
    for name in data.column_names:
        wanted = data[name]
        if pa.types.is_list(wanted.type):
            texts = [None if one is None else json.loads(one) for one in found[name].to_pylist()]
            assert pa.chunked_array([pa.array(texts, wanted.type)]).equals(wanted)
        else:
            assert found[name].cast(wanted.type).equals(wanted), table.column(name)
    server.execute(f"DROP DATABASE {schema}")


@pytest.mark.parametrize("kind", [CHUNKS, CHANGES])
def test_every_type_in_duckdb(
    rows: tuple[Table, pa.Table], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As chunks, and as changes."""
    table, data = rows
    monkeypatch.setenv(DATABASE, json.dumps({"file": str(tmp_path / "lake.duckdb")}))
    _published(World(tmp_path, kind="duckdb"), table, data, kind)
    with closing(duckdb.connect(tmp_path / "lake.duckdb", read_only=True)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found: pa.Table = connection.sql(f'SELECT * FROM "{schema_of(tmp_path)}".t ORDER BY id').to_arrow_table()
    for name in data.column_names:
        assert found[name].cast(data.schema.field(name).type).equals(data[name]), table.column(name)


@pytest.mark.parametrize(
    ("type_", "value"),
    [("DECIMAL", Decimal("0.00000000012345678901234567890")), ("DECIMAL", Decimal("-99999999.000000000000000000001"))],
)
def test_small_decimals_are_exact(
    type_: str, value: Decimal, servers: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow writes them with an exponent, which MySQL would take for a float."""
    server, schema = servers.get("mysql"), schema_of(tmp_path)
    server.execute(f"CREATE DATABASE {schema}")
    monkeypatch.setenv(
        DATABASE, json.dumps({"host": "127.0.0.1", "port": server.port, "user": "root", "database": schema})
    )
    column = Column("v", type_.lower(), precision=38, scale=29)
    table = replace(OLD, columns=(OLD.columns[0], column))
    data = pa.Table.from_pylist([{"id": 1, "v": value}], schema=image_schema(table))
    _published(World(tmp_path, kind="mysql"), table, data, CHANGES)
    assert server.execute(f"SELECT v FROM {schema}.t") == ((value,),)
    server.execute(f"DROP DATABASE {schema}")


def test_a_zero_byte_stops_its_table_in_postgresql(
    postgresql: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL has no such text; what is there stays."""
    address = {"host": "127.0.0.1", "port": postgresql.port, "user": "tidemark", "database": "postgres"}
    monkeypatch.setenv(DATABASE, json.dumps({**address, "state_schema": schema_of(tmp_path)}))
    table = replace(OLD, columns=(OLD.columns[0], Column("v", "varchar", length=40, charset="utf8mb4")))
    for text in ("a\0b", "\0"):
        data = pa.Table.from_pylist([{"id": 1, "v": text}], schema=image_schema(table))
        with pytest.raises(DestinationError, match="zero byte, which PostgreSQL cannot hold"):
            _published(World(tmp_path, kind="postgresql"), table, data, CHANGES)
    assert postgresql.rows(f'SELECT * FROM "{schema_of(tmp_path)}".t') == []

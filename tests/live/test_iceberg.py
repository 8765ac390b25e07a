"""Each table is an Iceberg table, too: the same rows as the Delta table in every version, whatever happens."""

import json
import os
import random
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyroaring import BitMap
from streamlit import config

from engine.base.errors import DestinationError
from engine.destination.delta.log.deletion_vectors import framed
from engine.destination.iceberg.changes import NewFile, Vector, VersionChange
from engine.destination.iceberg.table import IcebergTable, TableOrigin
from engine.explore.queries import answer, as_of_sql, landing_of, merged_seq, published_tables
from engine.explore.reading import read
from engine.pipeline.directory import Directory
from engine.spec.settings import load
from engine.store.folder import Folder
from engine.store.local_folder import LocalFolder
from tests.live.conftest import LakeFactory, PipelineFactory
from tests.live.support import every_type, keyed, schema_changes
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.console import Screen
from tests.live.support.other_tool import OtherTool
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import Server
from tests.servers.bucket import CREDENTIALS
from tests.support.delta import rows_at
from tests.support.depth import depth, in_soak, on
from tests.support.iceberg import opened, snapshots
from tests.support.readers import iceberg_rows_by_reader

BOTH = 'formats = ["delta", "iceberg"]\n'
KEYS = ("unsigned", "bin", "abc")


def _folders(pipeline: Pipeline, table: str, *, mirror: bool = True) -> list[tuple[Folder, Folder]]:
    """The folders of a table's Delta tables, with those of their Iceberg metadata."""
    database = load(pipeline.spec).sink.folder / pipeline.database
    names = (table, f"{table}__changes") if mirror else (f"{table}__changes",)
    return [(database / name, database / f"{name}__iceberg") for name in names]


def _sorted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows in an order that does not depend on their reader."""
    typed = rows.select(schema.names).cast(schema)
    order = [name for name in ("_tm_seq", *schema.names) if name in schema.names]
    simple = [name for name in order if not pa.types.is_floating(schema.field(name).type)]
    return typed.sort_by([(name, "ascending") for name in simple])


def _assert_same(pipeline: Pipeline, tables: Sequence[str], properties: dict[str, str] | None = None) -> int:
    """All snapshots are their Delta versions, and every reader finds the newest one. Returns how many there are."""
    pairs = [pair for table in tables for pair in _folders(pipeline, table)]
    count, newest = 0, list[pa.Table]()
    for delta, iceberg in pairs:
        versions, own = list[int](), pa.table({})
        for version, rows in snapshots(opened(iceberg, properties)):
            expected = rows_at(delta, version)
            own = _sorted(expected, expected.schema)
            assert _sorted(rows, expected.schema).equals(own), f"{delta.url} version {version}"
            versions.append(version)
        assert versions == sorted(set(versions))
        newest.append(own)
        assert own.num_rows == rows_at(delta).num_rows
        count += len(versions)
    for reader, tables_read in iceberg_rows_by_reader(*(iceberg.url for _, iceberg in pairs)).items():
        for (delta, _), rows, expected in zip(pairs, tables_read, newest, strict=True):
            assert _sorted(rows, expected.schema).equals(expected), f"{reader} reads {delta.url} differently"
    return count


@pytest.mark.soak
@pytest.mark.parametrize("iceberg", ["v3", in_soak("v2")])
def test_every_type_key_and_change_of_columns(
    server: Server, database: str, new_pipeline: PipelineFactory, iceberg: str
) -> None:
    """Copied and followed by runners that are killed; altered and resnapshotted meanwhile."""
    chosen = every_type.kinds(server)[:: depth(2, 1)][:40]
    rows = every_type.create(server, database, "types", chosen)
    for name in KEYS:
        keyed.create(server, database, name, 300)
    altered = list(schema_changes.alterations(server))[:: depth(6, 1)]
    for name in altered:
        schema_changes.create(server, database, name, 50)
    pipeline = new_pipeline(server, database, chunk_rows=100, merge=0.3, poll=0.2, sink=f'{BOTH}iceberg = "{iceberg}"')
    chance = random.Random(3)
    for _ in range(depth(2, 6)):
        runner = pipeline.start_streaming()
        every_type.insert(server, database, "types", chosen, rows, 3)
        rows += 3
        server.execute(f"DELETE FROM {database}.types WHERE id % 5 = {chance.randrange(5)}")
        time.sleep(chance.uniform(0.0, 1.5))
        runner.kill()
        runner.wait()
    runner = pipeline.start_streaming()
    for name in altered:
        schema_changes.alter(server, database, name, lambda: None)
    assert pipeline.command("redump", "--table", f"{database}.{KEYS[0]}").returncode == 0
    pipeline.finish(runner)
    pipeline.run("caught-up")
    tables = ["types", *KEYS, *altered]
    for name in tables:
        source = source_table(server, database, name)  # a dropped column stays in the mirror
        assert_equal(source, rows_at(pipeline.mirror(name)).select(source.column_names))
    assert _assert_same(pipeline, tables) > 2 * len(tables)
    _assert_positions(pipeline, "types")
    verified = pipeline.command("verify", "--format", "both", "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    formats = json.loads(verified.stdout)["formats"]
    assert len(formats) == 2 * len(tables)
    assert all(not one["differences"] and one["format"] == f"Iceberg {iceberg}" for one in formats)
    assert _verdicts(pipeline, 0) == ["verified"] * len(tables)


def _verdicts(pipeline: Pipeline, exit_code: int) -> list[str]:
    """Of the rows that readers of Iceberg see."""
    verified = pipeline.command("verify", "--format", "iceberg", "--json")
    assert verified.returncode == exit_code, verified.stdout + verified.stderr
    return [one["verdict"] for one in json.loads(verified.stdout)["tables"]]


@pytest.mark.parametrize("iceberg", ["v3", in_soak("v2")])
def test_commands_read_what_readers_of_iceberg_see(
    server: Server, database: str, new_pipeline: PipelineFactory, iceberg: str
) -> None:
    """While the source changes; as of a time; and when Iceberg alone has lost metadata files."""
    seed_table(server, database, "orders", 500, binlog=False)
    sink = f'{BOTH}iceberg = "{iceberg}"'
    pipeline = new_pipeline(server, database, merge=0.3, poll=0.2, sink=sink, mirror="merge_on_read")
    name = f"{database}.orders"
    with Workload(server, database, "orders", 1, rate=100) as load_:
        runner = pipeline.start_streaming()
        pipeline.wait_for(lambda: load_.committed > 100, runner)
        pipeline.wait_for((pipeline.folder / "lake" / database / "orders__iceberg" / "metadata").exists, runner)
        assert _verdicts(pipeline, 0) == ["verified"]
        at = datetime.now(UTC)
        load_.stop()
    pipeline.finish(runner)
    newest, earlier = (read(pipeline.spec, name, table_format="iceberg", as_of=one) for one in (None, at))
    assert_equal(source_table(server, database, "orders"), newest)
    assert earlier.sort_by("id").equals(read(pipeline.spec, name, as_of=at).select(earlier.schema.names).sort_by("id"))
    sink_settings, directory = load(pipeline.spec).sink, Directory(pipeline.home)
    (table,) = [one for one in published_tables(directory) if one.full_name == name]
    landing = landing_of(sink_settings, "iceberg", in_step=True)
    now_sql = as_of_sql(table, datetime.now(UTC), merged_seq(directory, landing, table))
    for sql in (f"SELECT * FROM {database}.orders", now_sql):
        assert_equal(source_table(server, database, "orders"), answer(landing, [table], sql).rows)
    for path in (pipeline.folder / "lake" / database / "orders__iceberg" / "metadata").glob("*.avro"):
        path.unlink()
    refused = pipeline.command("read", name, "--table-format", "iceberg")
    assert refused.returncode == DestinationError.exit_code, refused.stdout + refused.stderr
    assert "cannot be read" in refused.stderr
    assert _verdicts(pipeline, 0) == ["unverifiable"]
    assert pipeline.command("read", name).returncode == 0


@pytest.fixture
def on_this_machine() -> Iterator[None]:
    """A console that listens here alone: others show nothing without a login."""
    before = config.get_option("server.address")
    config.set_option("server.address", "127.0.0.1")
    yield
    config.set_option("server.address", before)


@on("mysql")
@pytest.mark.usefixtures("on_this_machine")
def test_explore_reads_the_format_that_is_chosen(
    server: Server, database: str, new_pipeline: PipelineFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its address has it. What Iceberg has lost is an error there, and not in the other format."""
    seed_table(server, database, "orders", 50, binlog=False)
    pipeline = new_pipeline(server, database, sink=BOTH)
    pipeline.home.mkdir()
    spec = pipeline.spec.read_text().replace('path = "lake"', f'path = "{pipeline.folder}/lake"')
    pipeline.spec = pipeline.home / "pipeline.toml"  # where the console looks for it
    pipeline.spec.write_text(spec)
    pipeline.run("caught-up")
    monkeypatch.setenv("TIDEMARK_HOME", str(pipeline.folder))
    for path in (pipeline.folder / "lake" / database / "orders__iceberg" / "metadata").glob("*.avro"):
        path.unlink()
    for chosen in ("Delta", "Iceberg"):
        page = Screen("explore", pipeline="shop", format=chosen).page
        page.button(key="run").click().run()
        assert not page.exception, page.exception
        errors = [one.value for one in page.error]
        assert ["orders cannot be read" in one for one in errors] == [True] * (chosen == "Iceberg"), errors
        assert len(page.dataframe) == (chosen == "Delta")


def _assert_positions(pipeline: Pipeline, table: str) -> None:
    """Commits to a mirror say, in both formats, where their epochs end in the source: where the ledger's epochs end."""
    positions = {f"{one['to']['file']}:{one['to']['offset']}" for one in pipeline.epochs()}
    (delta, iceberg), _ = _folders(pipeline, table)
    notes = [json.loads(text) for one in DeltaTable(delta.url).history() if (text := one.get("userMetadata"))]
    assert {note["tidemark.position"] for note in notes} & positions
    assert all(note["tidemark.gtids"] for note in notes)
    summaries = [one.summary.additional_properties for one in opened(iceberg).snapshots() if one.summary]
    assert {summary.get("tidemark.position") for summary in summaries} & positions


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(depth(1, 20)))
def test_under_load_and_beside_another_tool(
    server: Server, database: str, new_pipeline: PipelineFactory, tmp_path: Path, seed: int
) -> None:
    """Deltalake's OPTIMIZE and VACUUM, our own maintenance, a kill; snapshots whose files are gone have expired."""
    seed_table(server, database, "orders", 3000, binlog=False)
    catalog = f'[sink.catalog]\ntype = "sql"\nuri = "sqlite:///{tmp_path}/catalog.db"'
    version = "v2" if seed % 4 == 3 else "v3"
    settings = f'{BOTH}files_retention = "1s"\n[sink.tables]\n"*.orders" = {{ iceberg = "{version}" }}\n{catalog}'
    chance = random.Random(seed)
    pipeline = new_pipeline(server, database, chunk_rows=500, merge=0.3, poll=0.2, sink=settings)
    name = f"{database}.orders"
    with Workload(server, database, "orders", seed=3 + seed, rate=100) as load_:
        runner = pipeline.start_streaming()
        for turn in range(2):
            with OtherTool(pipeline, "orders", tmp_path / f"kept{turn}", 0.2):
                time.sleep(2.0)
            assert pipeline.command("maintain", "--table", name).returncode == 0
            if not turn:
                time.sleep(chance.uniform(0.0, 1.0))
                runner.kill()
                runner.wait()
                runner = pipeline.start_streaming()
        load_.stop()
    pipeline.finish(runner)
    source = source_table(server, database, "orders")
    assert_equal(source, pipeline.mirror("orders"))
    (mirror, iceberg), _ = _folders(pipeline, "orders")
    for reader, (rows,) in iceberg_rows_by_reader(iceberg.url).items():
        print("read by", reader)
        assert_equal(source, rows)
    newest = opened(iceberg).current_snapshot()
    assert newest is not None
    named = load_catalog("default", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db").load_table(name)
    assert named.current_snapshot() == newest
    assert int(newest.summary.additional_properties["tidemark.version"]) <= _version(mirror)  # type: ignore[union-attr]


def _version(folder: Folder) -> int:
    from engine.destination.delta.log.log_files import newest_version

    return newest_version(folder)


@pytest.mark.soak
def test_each_file_gets_its_own_vector(tmp_path: Path) -> None:
    """Whatever the sizes of the vectors in one Puffin file are: readers keep parts of files that they have read."""
    chance, schema = random.Random(3), pa.schema([("id", pa.int64()), ("file", pa.int64())])
    folders, left = list[Path](), list[dict[int, int]]()
    for case in range(20):
        folder = tmp_path / f"t{case}"
        (folder / "data").mkdir(parents=True)
        files, vectors, expected = list[NewFile](), dict[str, Vector | None](), dict[int, int]()
        for number in range(chance.choice([2, 3, 5])):
            rows = chance.choice([91, 3_000, 60_000, 400_000])
            path = folder / "data" / f"{number}.parquet"
            pq.write_table(pa.table([pa.array(range(rows)), pa.array([number] * rows)], schema=schema), path)
            deleted = BitMap(chance.sample(range(rows), chance.randint(1, rows // 4)))
            files.append(NewFile(str(path), rows, path.stat().st_size))
            vectors[str(path)] = Vector(len(deleted), partial(framed, deleted), _no_positions, _no_positions)
            expected[number] = rows - len(deleted)
        table = IcebergTable(LocalFolder(folder), 3, TableOrigin({}))
        table.load()
        table.commit([VersionChange(0, 1, schema, files, vectors=vectors, is_whole=True)])
        folders.append(folder)
        left.append(expected)
    for reader, tables in iceberg_rows_by_reader(*folders).items():
        for rows_read, expected in zip(tables, left, strict=True):
            counts = rows_read["file"].value_counts().to_pylist()
            assert {one["values"]: one["counts"] for one in counts} == expected, reader


def _no_positions() -> npt.NDArray[np.uint32]:
    return np.empty(0, np.uint32)


@pytest.mark.soak
@pytest.mark.parametrize("iceberg", ["v3", "v2"])
def test_in_a_bucket(server: Server, database: str, new_lake: LakeFactory, iceberg: str) -> None:
    """With a runner that is killed."""
    seed_table(server, database, "orders", 1000, binlog=False)
    pipeline = new_lake("folder", sink=f'{BOTH}iceberg = "{iceberg}"')
    with Workload(server, database, "orders", 1, rate=100) as load_:
        runner = pipeline.start_streaming()
        pipeline.wait_for(lambda: load_.committed > 50, runner)
        runner.kill()
        runner.wait()
        runner = pipeline.start_streaming()
        load_.stop()
    pipeline.finish(runner)
    properties = {
        "s3.endpoint": os.environ["AWS_ENDPOINT_URL"],
        "s3.access-key-id": CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        "s3.region": "us-east-1",
    }
    ((mirror, _), _) = _folders(pipeline, "orders")
    assert_equal(source_table(server, database, "orders"), rows_at(mirror))
    assert _assert_same(pipeline, ["orders"], properties) >= 4


@pytest.mark.soak
@on("mysql")
def test_a_folder_that_cannot_be_written_delays_iceberg_alone(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """An alert says so, names the folder and clears; the Delta table continues."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO {database}.t VALUES (1, 1)")
    pipeline = new_pipeline(server, database, merge=0.3, poll=0.2, sink=BOTH)
    pipeline.run("caught-up")
    metadata = pipeline.folder / "lake" / database / "t__iceberg"
    away = metadata.with_name("away")
    metadata.rename(away)
    metadata.write_text("not a folder")
    runner = pipeline.start_streaming()
    server.execute(f"INSERT INTO {database}.t VALUES (2, 2)")

    def alerts() -> list[str]:
        events = pipeline.events("alert.raised", "alert.cleared")
        return [event["event"] for event in events if event["kind"] == "format_behind"]

    pipeline.wait_for(lambda: alerts() == ["alert.raised"], runner)
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))
    assert str(metadata) in str(pipeline.events("format.behind")[-1])
    refused = pipeline.command("verify", "--format", "both")
    assert refused.returncode == 6, refused.stdout + refused.stderr
    assert "it is not published" in refused.stdout
    metadata.unlink()
    away.rename(metadata)
    pipeline.wait_for(lambda: alerts() == ["alert.raised", "alert.cleared"], runner)
    pipeline.finish(runner)
    _assert_same(pipeline, ["t"])


def test_a_dropped_table_takes_its_metadata_along(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """And joins again."""
    for table in ("a", "b"):
        server.execute(f"CREATE TABLE {database}.{table} (id INT PRIMARY KEY, v INT)")
        server.execute(f"INSERT INTO {database}.{table} VALUES (1, 1)")
    pipeline = new_pipeline(server, database, tables=[f"{database}.a", f"{database}.b"], sink=BOTH, poll=0.2, merge=0.2)
    runner = pipeline.start_streaming()
    name = f"{database}.a"
    lake = pipeline.folder / "lake" / database
    pipeline.wait_for((lake / "a__iceberg" / "metadata").exists, runner)
    assert pipeline.command("remove-table", "--table", name, "--drop").returncode == 0
    pipeline.wait_for(lambda: not (lake / "a").exists() and not (lake / "a__iceberg").exists(), runner)
    assert not (lake / "a__changes__iceberg").exists()
    assert pipeline.command("add-table", "--table", name).returncode == 0
    pipeline.wait_for((lake / "a__iceberg" / "metadata").exists, runner)
    pipeline.finish(runner)
    _assert_same(pipeline, ["a", "b"])

"""`tidemark catalog` prints statements that read the tables: DuckDB's and those of both formats are carried out."""

import json
import os

import pytest

from tests.live.conftest import LakeFactory, PipelineFactory
from tests.servers import Server
from tests.support.depth import on
from tests.support.readers import FRAMES, ICEBERG_FRAMES

BOTH = 'formats = ["delta", "iceberg"]\n'


@on("mysql")
def test_the_statements_of_a_folder_name_what_is_there(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """Tables and change logs in both formats; only the engines that are asked for."""
    server.execute(f"CREATE TABLE {database}.orders (id INT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO {database}.orders VALUES (1, 1), (2, 2)")
    server.execute(f"CREATE TABLE {database}.bare (v INT)")
    pipeline = new_pipeline(server, database, sink=BOTH)
    pipeline.run("caught-up")
    shown = pipeline.command("catalog", "--print", "--json")
    assert shown.returncode == 0, shown.stderr
    statements = json.loads(shown.stdout)
    assert {(one["table"].partition(".")[2], one["format"]) for one in statements} == {
        (name, form) for name in ("orders", "orders__changes", "bare__changes") for form in ("delta", "iceberg")
    }
    assert {one["engine"] for one in statements} == {"spark", "duckdb", "trino", "clickhouse"}
    (text,) = [
        one["text"] for one in statements if one["engine"] == "trino" and one["table"].endswith(".bare__changes")
    ][1:]
    assert text.startswith("CALL iceberg.system.register_table(schema_name => 'test_")
    scans = [one for one in statements if one["engine"] == "duckdb" and "orders" in one["table"]]
    assert all(one["is_tried"] for one in scans)
    places = [one["text"].split("'")[1] for one in scans]
    delta, iceberg = FRAMES.read(places[::2]), ICEBERG_FRAMES.read(places[1::2])
    assert [rows.num_rows for rows in delta["duckdb"]] == [2, 0]
    assert [rows.num_rows for rows in iceberg["duckdb-iceberg"]] == [2, 0]

    text = pipeline.command("catalog", "--engine", "trino", "--table", f"{database}.bare").stdout
    assert text.count("CALL ") == 2
    assert "not tried" in text
    refused = pipeline.command("catalog", "--engine", "oracle")
    assert refused.returncode == 2
    assert "no statements for oracle" in refused.stdout + refused.stderr


@pytest.mark.soak
@on("mariadb")
def test_the_statements_of_a_bucket_are_for_its_engines_too(
    server: Server, database: str, new_lake: LakeFactory
) -> None:
    """They name the bucket, and the newest metadata where an engine stays at it."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO {database}.t VALUES (1, 1)")
    pipeline = new_lake("folder", sink=BOTH)
    pipeline.run("caught-up")
    statements = json.loads(pipeline.command("catalog", "--table", f"{database}.t", "--json").stdout)
    engines = {one["engine"] for one in statements}
    assert engines == {"spark", "duckdb", "trino", "clickhouse", "athena", "snowflake", "bigquery"}
    texts = {(one["engine"], one["format"]): one["text"] for one in statements if one["table"] == f"{database}.t"}
    lake = f"s3://lake/{database}/lake/{database}/t"
    assert f"'{lake}'" in texts["athena", "delta"]
    assert f"['{lake}__iceberg/metadata/v" in texts["bigquery", "iceberg"]
    assert f"METADATA_FILE_PATH = '{database}/t__iceberg/metadata/v" in texts["snowflake", "iceberg"]
    assert os.environ["AWS_ENDPOINT_URL"] not in json.dumps(statements)

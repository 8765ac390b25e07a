"""Tables in databases are compared with the source, row by row, and what somebody has changed there is repaired."""

import json
import subprocess
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import PipelineFactory
from tests.live.support.pipeline import Pipeline
from tests.servers import FLAVORS, Server
from tests.support import database as databases
from tests.support.depth import depth, on
from tests.unit.destination.support import Kind

RULE = "verified_{database}.{table}"


def _section(address: dict[str, Any], name: str = "sink") -> str:
    lines = [f"{key} = {value!r}" for key, value in {**address, "table": RULE}.items()]
    return "\n".join([f"[{name}.database]", *lines, ""])


def _source(server: Server, database: str) -> None:
    server.execute(
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY, quantity DECIMAL(12,2), name VARCHAR(40), doc JSON, "
        "at DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3))"
    )
    rows = ", ".join(f"({n}, {n}.25, 'naïve {n}', '{{\"b\": {n}.0, \"a\": [1, 2]}}')" for n in range(1, 401))
    server.execute(f"INSERT INTO {database}.t (id, quantity, name, doc) VALUES {rows}")


def _damage(address: dict[str, Any], kind: Kind, database: str) -> dict[str, int]:
    """Somebody changes three rows, deletes two and inserts one. Returns the differences by kind."""
    schema = RULE.partition(".")[0].format(database=database, table="t")
    place = databases.quoted(kind, schema, "t")
    databases.queried(address, f"UPDATE {place} SET quantity = quantity + 1 WHERE id IN (7, 8)")
    databases.queried(address, f"UPDATE {place} SET name = NULL WHERE id = 9")
    databases.queried(address, f"DELETE FROM {place} WHERE id IN (11, 300)")
    databases.queried(address, f"INSERT INTO {place} (id, quantity, name) VALUES (100000, 1, 'theirs')")
    return {"different": 3, "missing": 2, "extra": 1}


def _verified(pipeline: Pipeline, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    verified = pipeline.command("verify", "--json", "--strict", *arguments)
    assert verified.stdout, verified.stderr
    (table,) = json.loads(verified.stdout)["tables"]
    return verified, table


def _found_and_repaired(pipeline: Pipeline, damage: dict[str, int], *sink: str) -> None:
    verified, table = _verified(pipeline, *sink)
    assert (verified.returncode, table["verdict"], table["by_kind"]) == (6, "diverged", damage), table
    assert Counter(one["kind"] for one in table["differences"]) == damage
    assert all(one["cause"].startswith("something else changed the mirror") for one in table["differences"])
    repaired, table = _verified(pipeline, "--repair", *sink)
    assert (repaired.returncode, table["verdict"]) == (0, "verified"), (table, repaired.stderr)
    verified, table = _verified(pipeline, *sink)
    assert (verified.returncode, table["verdict"], table["rows"]) == (0, "verified", 400), table


@pytest.mark.parametrize(
    ("flavor", "database_address"),
    depth(
        [("mysql", "postgresql"), ("mysql", "mariadb"), ("mariadb", "mysql"), ("mariadb", "duckdb")],
        list(product(FLAVORS, ["postgresql", "mysql", "mariadb", "duckdb"])),
    ),
    indirect=["database_address"],
)
def test_rows_that_somebody_changed_in_a_database_are_found_and_repaired(
    server: Server,
    database: str,
    new_pipeline: PipelineFactory,
    database_address: dict[str, Any],
    database_kind: Kind,
) -> None:
    """As the only destination. Changes that are not there yet are no differences."""
    _source(server, database)
    pipeline = new_pipeline(server, database, kind=database_kind, chunk_rows=100, more=_section(database_address))
    pipeline.run("caught-up")
    server.execute(f"UPDATE {database}.t SET quantity = quantity * 2 WHERE id % 3 = 0")
    verified, table = _verified(pipeline)
    assert (verified.returncode, table["verdict"]) == (8, "lagging"), table
    pipeline.run("caught-up")
    _found_and_repaired(pipeline, _damage(database_address, database_kind, database))


@on("mysql")
@pytest.mark.parametrize("database_address", depth(["postgresql"], ["postgresql", "mariadb", "duckdb"]), indirect=True)
def test_the_rows_of_a_further_sink_are_compared(
    server: Server,
    database: str,
    new_pipeline: PipelineFactory,
    database_address: dict[str, Any],
    database_kind: Kind,
) -> None:
    """By name. A repair deletes what only this sink has."""
    _source(server, database)
    sink = f'[[sinks]]\nname = "reports"\ntype = "{database_kind}"\n{_section(database_address, "sinks")}'
    pipeline = new_pipeline(server, database, merge=1.0, more=sink)
    pipeline.run("caught-up")
    runner = pipeline.start_streaming()
    _found_and_repaired(pipeline, _damage(database_address, database_kind, database), "--sink", "reports")
    pipeline.finish(runner)
    unknown = pipeline.command("verify", "--sink", "other")
    assert unknown.returncode != 0
    assert "The spec has no sink other." in unknown.stderr


@pytest.mark.soak
@on("mysql")
@pytest.mark.parametrize("database_address", ["postgresql"], indirect=True)
def test_values_and_tables_that_cannot_be_read_are_repaired_as_the_hint_says(
    server: Server,
    database: str,
    new_pipeline: PipelineFactory,
    database_address: dict[str, Any],
    database_kind: Kind,
) -> None:
    """A number and a time that no source has; a column and a table that somebody drops."""
    _source(server, database)
    pipeline = new_pipeline(server, database, kind=database_kind, chunk_rows=100, more=_section(database_address))
    pipeline.run("caught-up")
    place = _place(database_kind, database)
    types = json.loads(pipeline.command("plan", "--types", "--json").stdout)["types"]
    there = databases.queried(
        database_address,
        f"SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '{place}'::regclass AND "
        "attnum > 0",
    )
    assert {one["column"]: one["declared"].replace("timestamp", "timestamp without time zone") for one in types} == (
        dict(there)
    )
    for damage, words in (
        (f"UPDATE {place} SET quantity = 'NaN' WHERE id = 5", "has a value in column 'quantity' that is no numeric"),
        (f"UPDATE {place} SET at = 'infinity' WHERE id = 6", "has a value in column 'at' that is no timestamp"),
        (f"ALTER TABLE {place} DROP COLUMN name", "has lost its column name"),
        (f"DROP TABLE {place}", "is gone"),
    ):
        databases.queried(database_address, damage)
        verified, table = _verified(pipeline)
        assert (verified.returncode, table["verdict"]) == (8, "unverifiable"), table
        assert words in table["why"]
        redump = f"tidemark redump SPEC --table {database}.t"
        assert redump in table["hint"]
        assert pipeline.command("redump", "--table", f"{database}.t").returncode == 0
        pipeline.run("caught-up")
        verified, table = _verified(pipeline)
        assert (verified.returncode, table["verdict"], table["rows"]) == (0, "verified", 400), table


def _place(kind: Kind, database: str, table: str = "t") -> str:
    return databases.quoted(kind, RULE.partition(".")[0].format(database=database), table)


def _all_verified(pipeline: Pipeline) -> None:
    verified = pipeline.command("verify", "--json", "--strict")
    assert verified.stdout, verified.stderr
    tables = json.loads(verified.stdout)["tables"]
    assert {one["table"]: (one["verdict"], one["why"]) for one in tables} == {
        one["table"]: ("verified", "") for one in tables
    }, verified.stdout
    assert verified.returncode == 0


@on("mysql")
@pytest.mark.parametrize("database_address", ["postgresql", "mariadb", "duckdb"], indirect=True)
def test_what_a_database_stores_otherwise_is_no_difference(
    server: Server,
    database: str,
    new_pipeline: PipelineFactory,
    database_address: dict[str, Any],
    database_kind: Kind,
) -> None:
    """FLOAT as a chunk key, fractions that became shorter, tables and last chunks without rows, a name's case."""
    server.execute(f"CREATE TABLE {database}.f (f FLOAT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO {database}.f VALUES {', '.join(f'({n / 10}, {n})' for n in range(1, 200))}")
    server.execute(f"CREATE TABLE {database}.n (id INT PRIMARY KEY, at TIME(6), big DECIMAL(50,4), name VARCHAR(9))")
    server.execute(f"INSERT INTO {database}.n VALUES (1, '10:00:01.12', 1.25, 'a'), (2, '-10:00:02', 2, NULL)")
    server.execute(f"CREATE TABLE {database}.none (id INT PRIMARY KEY)")
    pipeline = new_pipeline(server, database, kind=database_kind, chunk_rows=10, more=_section(database_address))
    pipeline.run("caught-up")
    _all_verified(pipeline)
    server.execute(f"ALTER TABLE {database}.n MODIFY at TIME(3), MODIFY big DECIMAL(48,2)")
    server.execute(f"INSERT INTO {database}.n VALUES (3, '10:00:01.125', 1.75, 'b')")
    pipeline.run("caught-up")
    _all_verified(pipeline)
    server.execute(f"ALTER TABLE {database}.n RENAME COLUMN name TO Name")
    server.execute(f"UPDATE {database}.n SET Name = 'c' WHERE id = 2")
    for _ in range(2):
        pipeline.run("caught-up")
        _all_verified(pipeline)


@on("mariadb")
@pytest.mark.parametrize("database_address", ["postgresql", "duckdb"], indirect=True)
def test_a_value_that_does_not_fit_hides_no_other_table(
    server: Server,
    database: str,
    new_pipeline: PipelineFactory,
    database_address: dict[str, Any],
    database_kind: Kind,
) -> None:
    """Somebody's number is too large for the column of the source. Both tables have a verdict, while a runner works."""
    server.execute(f"CREATE TABLE {database}.a (id INT PRIMARY KEY, flag TINYINT)")
    server.execute(f"CREATE TABLE {database}.b (id INT PRIMARY KEY, flag TINYINT)")
    for name in "ab":
        server.execute(f"INSERT INTO {database}.{name} VALUES (1, 1), (2, 2)")
    pipeline = new_pipeline(server, database, kind=database_kind, more=_section(database_address))
    runner = pipeline.start_streaming()
    server.execute(f"UPDATE {database}.a SET flag = 3")
    pipeline.wait_for(lambda: any(one["changes"] for one in pipeline.events("epoch.committed")), runner)
    _all_verified(pipeline)
    pipeline.finish(runner)
    place = _place(database_kind, database, "a")
    databases.queried(database_address, f"ALTER TABLE {place} ALTER COLUMN flag TYPE integer")
    databases.queried(database_address, f"UPDATE {place} SET flag = 300 WHERE id = 1")
    verified = pipeline.command("verify", "--json", "--strict")
    verdicts = {one["table"].rpartition(".")[2]: one["verdict"] for one in json.loads(verified.stdout)["tables"]}
    assert verdicts == {"a": "unverifiable", "b": "verified"}, verified.stdout


@on("mysql")
@pytest.mark.parametrize("database_address", ["duckdb"], indirect=True)
def test_doubled_rows_and_rows_without_a_key_are_repaired(
    server: Server,
    database: str,
    new_pipeline: PipelineFactory,
    database_address: dict[str, Any],
    database_kind: Kind,
) -> None:
    """Tables of DuckDB have no key that prevents them."""
    _source(server, database)
    pipeline = new_pipeline(server, database, kind=database_kind, chunk_rows=100, more=_section(database_address))
    pipeline.run("caught-up")
    place = _place(database_kind, database)
    databases.queried(database_address, f"INSERT INTO {place} SELECT * FROM {place} WHERE id IN (5, 6)")
    _, table = _verified(pipeline)
    assert table["by_kind"] == {"duplicate": 2}, table
    repaired, table = _verified(pipeline, "--repair")
    assert (repaired.returncode, table["verdict"]) == (0, "verified"), (table, repaired.stderr)
    databases.queried(database_address, f"INSERT INTO {place} (quantity) VALUES (1)")
    _, table = _verified(pipeline)
    assert (table["by_kind"], [one["key"] for one in table["differences"]]) == ({"extra": 1}, [["NULL"]]), table
    repaired, table = _verified(pipeline, "--repair")
    assert (repaired.returncode, table["verdict"]) == (0, "verified"), (table, repaired.stderr)


@on("mysql")
@pytest.mark.parametrize("database_address", ["postgresql"], indirect=True)
def test_what_an_earlier_pipeline_has_noted_of_a_place_is_forgotten(
    server: Server,
    database: str,
    new_pipeline: PipelineFactory,
    database_address: dict[str, Any],
    database_kind: Kind,
    tmp_path: Path,
) -> None:
    """Its table was dropped, as the refusal of the second one says; the second one's rows are compared."""
    _source(server, database)
    section = _section(database_address)
    new_pipeline(server, database, kind=database_kind, more=section).run("caught-up")
    folder = tmp_path / "second"
    folder.mkdir()
    second = new_pipeline(server, database, kind=database_kind, more=section, folder=folder)
    databases.queried(database_address, f"DROP TABLE {_place(database_kind, database)}")
    second.run("caught-up")
    _found_and_repaired(second, _damage(database_address, database_kind, database))


@on("mysql")
@pytest.mark.parametrize("database_address", ["postgresql"], indirect=True)
def test_a_sink_that_is_paused_is_called_so(
    server: Server,
    database: str,
    new_pipeline: PipelineFactory,
    database_address: dict[str, Any],
    database_kind: Kind,
) -> None:
    """By a comparison that waits for it, and by a repair, which ends at once. Resumed as the hint says, it is right."""
    _source(server, database)
    sink = f'[[sinks]]\nname = "reports"\ntype = "{database_kind}"\n{_section(database_address, "sinks")}'
    pipeline = new_pipeline(server, database, merge=0.5, sink="max_merge_delay_s = 1", more=sink)
    pipeline.run("caught-up")
    runner = pipeline.start_streaming()
    assert pipeline.command("pause", "--sink", "reports").returncode == 0
    pipeline.wait_for(lambda: pipeline.status()["sinks"][0]["state"] == "paused", runner)
    server.execute(f"UPDATE {database}.t SET quantity = 5 WHERE id = 3")
    behind = pipeline.command("verify", "--json", "--sink", "reports")
    assert json.loads(behind.stdout)["tables"][0]["why"].startswith("the sink is paused")
    databases.queried(database_address, f"DELETE FROM {_place(database_kind, database)} WHERE id = 7")
    refused = pipeline.command("verify", "--repair", "--sink", "reports")
    assert "because the sink reports is paused" in refused.stderr, refused.stdout + refused.stderr
    assert pipeline.command("resume", "--sink", "reports").returncode == 0
    repaired = pipeline.command("verify", "--repair", "--json", "--sink", "reports")
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr
    assert json.loads(repaired.stdout)["tables"][0]["verdict"] == "verified"
    pipeline.finish(runner)

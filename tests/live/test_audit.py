"""The audit: an independent decoder finds in the binlog what the change log has, and damage is found exactly."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import lake_table
from tests.live.support.every_type import Kind, create, insert, kinds
from tests.live.support.pipeline import ROOT, Pipeline
from tests.live.support.seed import seed_table
from tests.live.support.source import COMPRESSED
from tests.live.support.workload import Workload
from tests.servers import PASSWORD, Server
from tests.support.depth import depth, on

_COLUMNS = 40
"""Of the types in one table: InnoDB's pages hold no more."""
SHOP = (
    "CREATE TABLE {d}.pair (a INT, b VARCHAR(20), v DECIMAL(9,2), at DATETIME(3), PRIMARY KEY (a, b))",
    "INSERT INTO {d}.pair VALUES (1, 'x', 1.5, '2026-01-01 00:00:00.5'), (1, 'y', 2.5, NULL), (2, 'x', NULL, NULL)",
)
CHANGES = (
    "INSERT INTO {d}.pair VALUES (3, 'x', 3, NULL), (3, 'y', -0.01, '2026-02-01')",
    "UPDATE {d}.pair SET v = v + 1 WHERE a = 1",
    "UPDATE {d}.pair SET b = 'z' WHERE a = 3 AND b = 'y'",
    "DELETE FROM {d}.pair WHERE a = 2",
    "BEGIN",
    "INSERT INTO {d}.pair VALUES (4, 'kept', 1, NULL)",
    "SAVEPOINT s",
    "INSERT INTO {d}.pair VALUES (5, 'undone', 1, NULL)",
    "ROLLBACK TO SAVEPOINT s",
    "UPDATE {d}.pair SET v = 7 WHERE a = 4",
    "COMMIT",
)
IMAGES = 2 + 4 + 2 + 1 + 1 + 2


def audited(pipeline: Pipeline, *arguments: str, code: int = 0) -> dict[str, Any]:
    """`audit --json`; fails with its output unless it ends with the code."""
    result = pipeline.command("audit", "--json", *arguments)
    assert result.returncode == code, result.stdout[-5000:] + result.stderr[-5000:]
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def of_table(result: dict[str, Any], name: str) -> dict[str, Any]:
    """What the audit says of one table."""
    return next(table for table in result["tables"] if table["table"].endswith(f".{name}"))


def run(server: Server, database: str, *statements: str) -> None:
    """Run statements in one session."""
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement.replace("{d}", f"`{database}`"))


def shop(server: Server, database: str, new_pipeline: PipelineFactory, **settings: Any) -> Pipeline:
    """A pipeline whose table has changes of every kind."""
    run(server, database, *SHOP)
    pipeline = new_pipeline(server, database, **settings)
    pipeline.run("snapshot")
    run(server, database, *CHANGES)
    pipeline.run("caught-up")
    return pipeline


def decodable(server: Server) -> list[Kind]:
    """The types that the package knows."""
    return [kind for kind in kinds(server) if not kind.ddl.startswith("VECTOR") and "COMPRESSED" not in kind.ddl]


def test_every_type_is_equal(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Rows of every type, inserted, updated and deleted: no difference; what the package cannot decode is counted."""
    every = decodable(server)
    odd = [kind for kind in kinds(server) if kind not in every]
    groups = {f"t{n}": every[n : n + _COLUMNS] for n in range(0, len(every), _COLUMNS)} | {"odd": odd}
    for name, chosen in groups.items():
        create(server, database, name, chosen)
    pipeline = new_pipeline(server, database)
    pipeline.run("snapshot")
    rounds = depth(2, 100)
    for n in range(rounds):
        for name, chosen in groups.items():
            rows = max(len(kind.values) for kind in chosen) + 1
            insert(server, database, name, chosen, n * 100, rows)
            run(server, database, f"UPDATE {{d}}.{name} SET id = id + 1000000 WHERE id % 100 < 3")
            run(server, database, f"DELETE FROM {{d}}.{name} WHERE id = {n * 100 + 5}")
    pipeline.run("caught-up")
    result = audited(pipeline)
    assert result["verdict"] == "equal"
    assert "has columns of type" in of_table(result, "odd")["excluded"]
    for name in groups.keys() - {"odd"}:
        assert of_table(result, name)["images"] >= rounds * 8, name


def test_kinds_keys_and_savepoints(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Every kind of change of a composite key; what a savepoint undid is in neither."""
    pipeline = shop(server, database, new_pipeline)
    found = of_table(audited(pipeline), "pair")
    assert (found["images"], found["transactions"], found["differences"], found["not_compared"]) == (IMAGES, 5, 0, {})
    assert not audited(pipeline, "--table", f"{database}.pair", "--from", found["end"])["images"]


def test_no_gtids_and_no_key(
    server_with: Callable[..., Server], new_database: Callable[..., str], new_pipeline: PipelineFactory
) -> None:
    """Without GTIDs, transactions have none on either side. A table without a key has no key to show."""
    server = server_with("mysql", gtid=False)
    database = new_database(server)
    run(server, database, "CREATE TABLE {d}.bare (v INT, w TEXT)", "INSERT INTO {d}.bare VALUES (1, 'copied')")
    pipeline = new_pipeline(server, database)
    pipeline.run("snapshot")
    run(server, database, "INSERT INTO {d}.bare VALUES (2, 'a'), (2, 'a')", "UPDATE {d}.bare SET v = 3 WHERE v = 2")
    pipeline.run("caught-up")
    found = of_table(audited(pipeline), "bare")
    assert (found["images"], found["differences"], found["not_compared"]) == (6, 0, {})
    folder = pipeline.changes("bare")
    write_deltalake(str(folder), _changed("w", 2, "b")(lake_table(folder).sort_by("_tm_seq")), mode="overwrite")
    (difference,) = audited(pipeline, code=6)["differences"]
    assert (difference["kind"], difference["key"], difference["columns"]) == ("different", [], ["w"])


def test_xa_and_rollbacks(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """The rows of an XA transaction count at its commit, and not before; one that was rolled back has none."""
    run(server, database, *SHOP, "CREATE TABLE {d}.m (id INT PRIMARY KEY) ENGINE = MyISAM")
    pipeline = new_pipeline(server, database)
    pipeline.run("snapshot")
    run(
        server,
        database,
        "XA START 'a'",
        "INSERT INTO {d}.pair VALUES (8, 'a', 1, NULL)",
        "XA END 'a'",
        "XA PREPARE 'a'",
    )
    run(
        server,
        database,
        "XA START 'b'",
        "INSERT INTO {d}.pair VALUES (9, 'b', 1, NULL)",
        "XA END 'b'",
        "XA PREPARE 'b'",
    )
    run(server, database, "INSERT INTO {d}.pair VALUES (7, 'between', 1, NULL)")
    run(server, database, "XA COMMIT 'a'")
    run(server, database, "XA ROLLBACK 'b'")
    undone = ["BEGIN", "INSERT INTO {d}.pair VALUES (10, 'x', 1, NULL)", "ROLLBACK"]
    if server.flavor == "mariadb":  # MySQL with GTIDs refuses such a transaction; here it is logged with its ROLLBACK
        undone.insert(2, "INSERT INTO {d}.m VALUES (1)")
    run(server, database, *undone)
    pipeline.run("caught-up")
    result = audited(pipeline)
    assert result["verdict"] == "equal"
    assert of_table(result, "pair")["images"] == 2
    assert of_table(result, "m")["images"] == (server.flavor == "mariadb")


def test_compressed_events_are_said_not_to_be_compared(
    flavor: str, server_with: Callable[..., Server], new_database: Callable[..., str], new_pipeline: PipelineFactory
) -> None:
    """The package cannot decode them: the audit counts their images, and compares the rest."""
    server = server_with(flavor, **COMPRESSED[flavor])
    database = new_database(server)
    pipeline = shop(server, database, new_pipeline)
    found = of_table(audited(pipeline), "pair")
    assert found["not_compared"]["compressed"] + found["images"] == IMAGES
    assert found["not_compared"]["compressed"] > 0


@on("mariadb")
def test_a_log_without_names(
    flavor: str, server_with: Callable[..., Server], new_database: Callable[..., str], new_pipeline: PipelineFactory
) -> None:
    """With binlog_row_metadata=MINIMAL, the names come from the ledger."""
    server = server_with(flavor, row_metadata="MINIMAL")
    database = new_database(server)
    run(
        server, database, "CREATE TABLE {d}.u (id BIGINT UNSIGNED PRIMARY KEY, e ENUM('a','ü'), t TEXT, b VARBINARY(9))"
    )
    pipeline = new_pipeline(server, database)
    pipeline.run("snapshot")
    run(server, database, "INSERT INTO {d}.u VALUES (18446744073709551615, 'ü', 'ß', x'FF'), (1, NULL, '', '')")
    run(server, database, "UPDATE {d}.u SET e = 'a'")
    pipeline.run("caught-up")
    found = of_table(audited(pipeline), "u")
    assert (found["images"], found["differences"], found["not_compared"]) == (6, 0, {})


@on("mysql")
def test_projections(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Published columns are compared. Masked ones are named; a table with a row filter is left out."""
    run(server, database, *SHOP, "CREATE TABLE {d}.f (id INT PRIMARY KEY, v INT)")
    rules = f"[tables.'{database}.pair']\nexclude = ['at']\nmask = {{ v = 'sha256' }}\n"
    pipeline = new_pipeline(server, database, more=f"{rules}[tables.'{database}.f']\nwhere = 'v > 1'\n")
    pipeline.run("snapshot")
    run(server, database, *CHANGES)
    pipeline.run("caught-up")
    result = audited(pipeline)
    assert (of_table(result, "pair")["images"], of_table(result, "pair")["differences"]) == (IMAGES, 0)
    assert any("masked" in note for note in of_table(result, "pair")["notes"])
    assert "row filter" in of_table(result, "f")["excluded"]


def _more_than(load: Workload, count: int) -> bool:
    return load.committed > count


@on("mariadb")
def test_a_running_pipeline(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Audits of a pipeline under load find no difference, with a redump and a schema change going on."""
    seed_table(server, database, "orders", 2000)
    pipeline = new_pipeline(server, database, chunk_rows=500)
    runner = pipeline.start_streaming()
    with Workload(server, database, "orders", seed=3, rate=200, connections=2) as load:
        for number in range(depth(4, 40)):
            if number == 1:
                assert pipeline.command("redump", "--table", f"{database}.orders", "--chunk", "0").returncode == 0
            if number == 2:
                run(server, database, "ALTER TABLE {d}.orders MODIFY note VARCHAR(300)")
            pipeline.wait_for(partial(_more_than, load, load.committed + 200), runner)
            assert audited(pipeline)["verdict"] in ("equal", "nothing compared")
    pipeline.finish(runner)
    found = of_table(audited(pipeline), "orders")
    assert found["images"] > 200
    assert found["differences"] == 0


@on("mariadb")
def test_a_purged_start_is_refused(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory, tmp_path: Path
) -> None:
    """Exit code 4 if the server no longer has it, 2 for a position within a transaction; the default begins later."""
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    pipeline = shop(server, "d", new_pipeline)
    found = of_table(audited(pipeline), "pair")
    file, _, offset = found["end"].rpartition(":")
    audited(pipeline, "--to", f"{file}:{int(offset) - 1}", code=2)
    server.execute("FLUSH BINARY LOGS")
    run(server, "d", "DELETE FROM {d}.pair WHERE a = 1")
    pipeline.run("caught-up")
    newest = of_table(audited(pipeline), "pair")["end"].rpartition(":")[0]
    server.execute(f"PURGE BINARY LOGS TO '{newest}'")
    audited(pipeline, "--from", found["start"], code=4)
    report = tmp_path / "report.json"
    after = of_table(audited(pipeline, "--report", str(report)), "pair")
    assert (after["images"], after["notes"]) == (2, ["the server has purged what was before"])
    assert json.loads(report.read_text())["images"] == 2


@on("mysql")
def test_a_log_with_retention_begins_after_a_whole_transaction(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """Retention deletes all of a transaction, also of one with several statements.

    The part begins between two transactions.
    """
    run(server, database, *SHOP)
    pipeline = new_pipeline(server, database, sink='changes_retention = "30d"')
    pipeline.run("snapshot")
    run(
        server,
        database,
        "BEGIN",
        *(f"INSERT INTO {{d}}.pair (a, b) VALUES ({n}, 'r')" for n in range(20, 25)),
        "COMMIT",
    )
    run(server, database, *CHANGES)
    pipeline.run("caught-up")
    found = of_table(audited(pipeline), "pair")
    assert found["images"] > 2
    assert "sink.changes_retention" in found["notes"][-1]


def _changed(name: str, row: int, value: Any) -> Callable[[pa.Table], pa.Table]:
    def change(log: pa.Table) -> pa.Table:
        values = log[name].to_pylist()
        values[row] = value
        return log.set_column(log.column_names.index(name), log.schema.field(name), pa.array(values, log[name].type))

    return change


def _swapped(first: int, second: int) -> Callable[[pa.Table], pa.Table]:
    def change(log: pa.Table) -> pa.Table:
        numbers = log["_tm_seq"].to_pylist()
        numbers[first], numbers[second] = numbers[second], numbers[first]
        return log.set_column(log.column_names.index("_tm_seq"), log.schema.field("_tm_seq"), pa.array(numbers))

    return change


def _without(row: int) -> Callable[[pa.Table], pa.Table]:
    return lambda log: pa.concat_tables([log.slice(0, row), log.slice(row + 1)])


def _twice(row: int) -> Callable[[pa.Table], pa.Table]:
    def change(log: pa.Table) -> pa.Table:
        return pa.concat_tables([log.slice(0, row + 1), log.slice(row)])

    return change


DAMAGE: dict[str, tuple[Callable[[pa.Table], pa.Table], str, list[str], list[str]]] = {
    "a value": (_changed("v", 0, Decimal("9.99")), "different", ["3", "x"], ["v"]),
    "a value that is NULL": (_changed("v", 1, None), "different", ["3", "y"], ["v"]),
    "a key": (_changed("a", 0, 33), "different", ["3", "x"], ["a"]),
    "a time of commit": (_changed("_tm_ts", 0, datetime(2020, 1, 1, tzinfo=UTC)), "different", ["3", "x"], ["_tm_ts"]),
    "a GTID": (_changed("_tm_tx", 0, "0-1-1"), "different", ["3", "x"], ["_tm_tx"]),
    "an image is missing": (_without(3), "missing", ["1", "x"], []),
    "an image is there twice": (_twice(8), "extra", ["2", "x"], []),
    "two images are swapped": (_swapped(0, 1), "order", ["3", "x"], []),
    "two images of two transactions are swapped": (_swapped(8, 9), "order", ["2", "x"], []),
    "a kind": (_changed("_tm_kind", 8, "+I"), "kind", ["2", "x"], []),
}
"""Damage to the change log of `shop`, and the difference that it makes: kind, key, columns."""


@on("mysql")
def test_damage_is_found(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Each damage to the change log is one difference, with its position, key and columns; exit code 6."""
    pipeline = shop(server, database, new_pipeline)
    folder = pipeline.changes("pair")
    whole = lake_table(folder).sort_by("_tm_seq")
    for name, (damage, kind, key, columns) in DAMAGE.items():
        broken = damage(whole)
        write_deltalake(str(folder), broken, mode="overwrite")
        result = audited(pipeline, code=6)
        (found,) = result["differences"]
        print(name, found)
        assert (found["kind"], found["key"], found["columns"]) == (kind, key, columns), name
        row = pc.index(whole["_tm_kind"], "-D").as_py() if key == ["2", "x"] else 0
        if kind != "missing":
            assert found["position"] == whole["_tm_position"][row].as_py(), name
        assert result["verdict"] == "different"
    write_deltalake(str(folder), whole, mode="overwrite")
    assert audited(pipeline)["verdict"] == "equal"
    for file in DeltaTable(str(folder)).file_uris():
        Path(file).unlink()
    gone = audited(pipeline)
    assert of_table(gone, "pair")["excluded"].startswith("its change log cannot be read: ")
    assert all(not one["excluded"] for one in gone["tables"] if not one["table"].endswith(".pair"))


def _many(server: Server, database: str, groups: dict[str, list[Kind]], rows: int) -> None:
    """Insert this many rows into each table, give them other keys, and delete them: four images a row."""
    for name, chosen in groups.items():
        first = max(len(kind.values) for kind in chosen) + 1
        columns = ", ".join(f"c{n}" for n in range(len(chosen)))
        insert(server, database, name, chosen, 0, first)
        while first < rows:
            more = min(first, rows - first)
            copy = (
                f"INSERT INTO {{d}}.{name} (id, {columns}) SELECT id + {first}, "
                f"{columns} FROM {{d}}.{name} WHERE id < {more}"
            )
            run(server, database, copy)
            first += more
        run(server, database, f"UPDATE {{d}}.{name} SET id = id + 10000000 ORDER BY id", f"DELETE FROM {{d}}.{name}")


def test_many_images_of_every_type(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """A million of them, in a soak test: no difference, in bounded memory."""
    wanted, columns = depth(8_000, 1_000_000), _COLUMNS
    kept = [kind for kind in decodable(server) if not any("000)" in value for value in kind.values)]
    groups = {f"t{n}": kept[n : n + columns] for n in range(0, len(kept), columns)}
    for name, chosen in groups.items():
        create(server, database, name, chosen)
    pipeline = new_pipeline(server, database)
    pipeline.run("snapshot")
    _many(server, database, groups, wanted // len(groups) // 4 + 1)
    pipeline.run("caught-up")
    command = [sys.executable, "-m", "engine", "audit", str(pipeline.spec), "--json"]
    environment = {**os.environ, "TIDEMARK_TEST_PASSWORD": PASSWORD}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        result = json.loads(process.stdout.read())
        _, code, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(code)
    figures = {table["table"]: (table["images"], table["not_compared"]) for table in result["tables"]}
    print(server.flavor, result["images"], result["seconds"], used.ru_maxrss >> 10, "MiB", figures)
    assert process.returncode == 0
    assert result["verdict"] == "equal"
    assert result["images"] >= wanted
    assert used.ru_maxrss < 1 << 20  # KiB

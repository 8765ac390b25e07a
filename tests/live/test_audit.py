"""The audit: an independent decoder reads the binlog, and finds what the change log has; damage to the change log is found exactly."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import lake_table
from tests.live.support.every_type import create, insert, kinds
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import seed_table
from tests.live.support.source import COMPRESSED
from tests.live.support.traffic import Traffic
from tests.servers import Server
from tests.support.depth import depth

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


def test_every_type_is_equal(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Rows of every type, inserted, updated and deleted: no difference; what the package cannot decode is counted."""
    every = kinds(server.flavor)
    groups = {f"t{n}": every[n : n + _COLUMNS] for n in range(0, len(every), _COLUMNS)}
    for name, chosen in groups.items():
        create(server, database, name, chosen)
    pipeline = new_pipeline(server, database)
    pipeline.run("snapshot")
    rounds, images = depth(2, 100), 0
    for n in range(rounds):
        for name, chosen in groups.items():
            rows = max(len(kind.values) for kind in chosen) + 1
            insert(server, database, name, chosen, n * 100, rows)
            run(server, database, f"UPDATE {{d}}.{name} SET id = id + 1000000 WHERE id % 100 < 3")
            run(server, database, f"DELETE FROM {{d}}.{name} WHERE id = {n * 100 + 5}")
    pipeline.run("caught-up")
    result = audited(pipeline)
    assert result["verdict"] == "equal"
    undecodable = {"COMPRESSED" if server.flavor == "mariadb" else "VECTOR"}
    for name, chosen in groups.items():
        found = of_table(result, name)
        if any(word in kind.ddl for kind in chosen for word in undecodable):
            assert "has columns of type" in found["excluded"]
        else:
            images += found["images"]
            assert found["images"] >= rounds * 12, found
    assert images

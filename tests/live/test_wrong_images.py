"""Generated columns that refer to an AUTO_INCREMENT column: MariaDB's row images of them are wrong."""

from collections.abc import Callable

import pymysql
import pytest

from engine.decode.types import fault
from tests.live.conftest import PipelineFactory
from tests.live.support.both_decoders import logged, position_of, table_of
from tests.live.support.compare import lake_table, source_table
from tests.servers import Server
from tests.support.patience import PATIENCE_S

ServerFactory = Callable[..., Server]
COLUMNS = "id INT AUTO_INCREMENT PRIMARY KEY, n INT, d INT AS (id * 2) VIRTUAL, `e``` INT AS (d + 1) VIRTUAL"
OTHERS = {
    "defaults": "id INT PRIMARY KEY, n INT DEFAULT (1 + 1), m INT, v INT AS (n * 2) VIRTUAL",
    "times": "id INT PRIMARY KEY, n INT, m DATETIME(6) DEFAULT NOW(6) ON UPDATE NOW(6), "
    "v INT AS (MICROSECOND(m)) VIRTUAL",
    "numbered": "id INT AUTO_INCREMENT PRIMARY KEY, n INT, m INT, v VARCHAR(30) AS (CONCAT('`id`', n)) VIRTUAL",
}
"""Tables whose images are right: the numbered one names its number in a text alone."""


def test_such_a_table_is_not_copied_unless_the_columns_are_excluded(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """The hint names the setting. MySQL refuses the column."""
    if server.flavor == "mysql":
        with pytest.raises(pymysql.err.OperationalError, match="auto-increment"):
            server.execute(f"CREATE TABLE {database}.t ({COLUMNS})")
        return
    server.execute(f"CREATE TABLE {database}.t ({COLUMNS})")
    server.execute(f"CREATE TABLE {database}.fine (id INT PRIMARY KEY)")
    server.execute(f"INSERT INTO {database}.t (n) VALUES (1), (2)")
    pipeline = new_pipeline(server, database)
    exclude = f'[tables."{database}.t"] exclude = ["d", "e`"]'
    check = pipeline.command("check")
    assert "generated column that refers to an AUTO_INCREMENT column" in check.stdout
    assert f"Exclude {exclude}, or the table" in check.stdout
    refused = pipeline.command("run", "--until", "caught-up")
    assert refused.returncode == 1
    (stop,) = [event for event in pipeline.events("table.state") if event["state"] == "stopped"]
    assert stop["table"] == f"{database}.t"
    pipeline.spec.write_text(f"{pipeline.spec.read_text()}\n{exclude.replace('] ', ']' + chr(10), 1)}\n")
    assert pipeline.command("redump", "--table", f"{database}.t").returncode == 0
    pipeline.run("caught-up")
    server.execute(f"INSERT INTO {database}.t (n) VALUES (3), (4)")
    server.execute(f"UPDATE {database}.t SET n = n + 10 WHERE n = 2")
    pipeline.run("caught-up")
    rows = source_table(server, database, "t").select(["id", "n"]).sort_by("id")
    assert lake_table(pipeline.mirror("t")).select(["id", "n"]).sort_by("id").equals(rows)


def test_a_table_that_gets_such_a_column_stops(
    flavor: str, server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """While no run sees it, and during one. The rows before that stay right."""
    if flavor == "mysql":
        pytest.skip("MySQL refuses the column")
    for name in ("a", "b"):
        server.execute(
            f"CREATE TABLE {database}.{name} (id INT AUTO_INCREMENT PRIMARY KEY, n INT, d INT AS (n * 2) VIRTUAL)"
        )
        server.execute(f"INSERT INTO {database}.{name} (n) VALUES (1), (2)")
    pipeline = new_pipeline(server, database)
    pipeline.run("caught-up")
    copies = {name: lake_table(pipeline.mirror(name)) for name in ("a", "b")}

    def stopped() -> set[str]:
        return {event["table"] for event in pipeline.events("table.state") if event["state"] == "stopped"}

    _move_to_the_number(server, f"{database}.a")
    assert pipeline.command("run", "--until", "caught-up").returncode == 1
    assert stopped() == {f"{database}.a"}
    runner = pipeline.start()
    pipeline.wait_for(lambda: len(pipeline.events("run.connected")) == 3, runner)
    _move_to_the_number(server, f"{database}.b")
    pipeline.wait_for(lambda: stopped() == {f"{database}.a", f"{database}.b"}, runner)
    assert pipeline.command("stop").returncode == 0
    runner.wait(timeout=PATIENCE_S)
    for name, copy in copies.items():
        assert lake_table(pipeline.mirror(name)).equals(copy)


def _move_to_the_number(server: Server, table: str) -> None:
    server.execute(f"ALTER TABLE {table} DROP COLUMN d, ADD COLUMN d INT AS (id * 2) VIRTUAL")
    server.execute(f"INSERT INTO {table} (n) VALUES (3)")


def test_other_virtual_columns_are_logged_as_they_are(server: Server, database: str) -> None:
    """Those over defaults, times, triggers, and a numbered table's other columns. The newest image has the value."""
    for name, columns in OTHERS.items():
        server.execute(f"CREATE TABLE {database}.{name} ({columns})")
        server.execute(
            f"CREATE TRIGGER {database}.{name}_t BEFORE UPDATE ON {database}.{name} FOR EACH ROW SET NEW.n = NEW.n + 7"
        )
        table, begin = table_of(server, database, name), position_of(server)
        assert not [column.name for column in table.columns if fault(column)]
        server.execute(f"INSERT INTO {database}.{name} (id) VALUES (1), (2)")
        server.execute(f"UPDATE {database}.{name} SET n = 5 WHERE id = 2")
        images = {row["id"]: row["v"] for row in logged(server, table, begin).to_pylist()}
        assert images == dict(server.execute(f"SELECT id, v FROM {database}.{name}"))

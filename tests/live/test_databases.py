"""Tables in PostgreSQL, MySQL and MariaDB: row by row the source, whatever happens to runner and database."""

import random
import signal
import time
from functools import partial
from typing import Any

import pytest

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.known_positions import ServerFactory
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import Server
from tests.servers.kafka_broker import kafka_broker
from tests.servers.pool import Pool
from tests.servers.postgres import Postgres
from tests.support import database as databases
from tests.support import kafka
from tests.support.depth import depth, on

STATE = "tidemark_state"
COLUMNS = ("id", "quantity")


def _section(address: dict[str, Any], name: str = "sink", more: str = "") -> str:
    lines = [f"{key} = {value!r}" for key, value in address.items()]
    return "\n".join([f"[{name}.database]", *lines, more, ""])


def _postgres_at(server: Postgres) -> dict[str, Any]:
    return {
        "host": "127.0.0.1",
        "port": server.port,
        "user": "tidemark",
        "database": "postgres",
        "state_schema": STATE,
        "lock_wait_s": 5,
    }


def _mysql_at(server: Server) -> dict[str, Any]:
    server.execute(f"CREATE DATABASE IF NOT EXISTS {STATE}")
    return {"host": "127.0.0.1", "port": server.port, "user": "root", "database": STATE}


def _assert_equal(address: dict[str, Any], server: Server, database: str, table: str = "orders") -> None:
    """The rows there are those of the source."""
    source = source_table(server, database, table).select(COLUMNS)
    found = databases.rows_of(address, database, table, COLUMNS)
    assert len(found) == source.num_rows
    assert dict(found) == dict(zip(*(source[name].to_pylist() for name in COLUMNS), strict=True))


def _has_applied(pipeline: Pipeline, commits: int, *kinds: str) -> bool:
    return len([one for one in pipeline.events("sink.applied") if not kinds or one["sink"] in kinds]) >= commits


def _assert_stops(pipeline: Pipeline, words: str) -> None:
    """A run stops, and says so."""
    run = pipeline.command("run", "--until", "caught-up")
    assert words in " ".join((run.stdout + run.stderr).split())


def _assert_repaired(pipeline: Pipeline, address: dict[str, Any], server: Server) -> None:
    """By the redump that a hint names."""
    assert pipeline.command("redump", "--table", f"{pipeline.database}.t").returncode == 0
    pipeline.run("caught-up")
    _assert_equal(address, server, pipeline.database, "t")


def _has_begun_as_requested(pipeline: Pipeline) -> bool:
    """Whether a resnapshot has, for which an operator asked."""
    return any((one["reason"] or "").startswith("requested") for one in pipeline.events("source.event"))


def _has_stopped(pipeline: Pipeline) -> bool:
    return any(one["state"] == "stopped" for one in pipeline.events("table.state"))


def test_a_table_under_load_is_its_rows(
    server: Server, database: str, new_pipeline: PipelineFactory, postgresql: Postgres
) -> None:
    """Copied and followed by a runner that is killed again and again, and a PostgreSQL that is killed meanwhile."""
    seed_table(server, database, "orders", depth(20_000, 600_000), binlog=False)
    address = _postgres_at(postgresql)
    pipeline = new_pipeline(server, database, kind="postgresql", chunk_rows=2_500, more=_section(address))
    chance = random.Random(11)
    with Workload(server, database, "orders", seed=4, rate=200) as load:
        for number in range(depth(3, 20)):
            goal = len(pipeline.events("sink.applied")) + 1
            runner = pipeline.start(killed=True)
            pipeline.wait_for(partial(_has_applied, pipeline, goal), runner)
            if number == 1:
                postgresql.stop(signal.SIGKILL)
                pipeline.wait_for(lambda: bool(pipeline.events("store.away")), runner)
                postgresql.start()
                goal = len(pipeline.events("sink.applied")) + 2
                pipeline.wait_for(partial(_has_applied, pipeline, goal), runner)
            time.sleep(chance.uniform(0.0, 3.0))
            runner.kill()
            runner.wait()
        load.stop()
    pipeline.run("caught-up")
    _assert_equal(address, server, database)
    (row,) = postgresql.rows(f"SELECT epoch, position FROM {STATE}._tidemark_epochs ORDER BY epoch DESC LIMIT 1")
    assert row[0] > 0


@pytest.mark.soak
def test_the_other_server_is_a_destination(
    server: Server, database: str, new_pipeline: PipelineFactory, servers: Pool
) -> None:
    """From MySQL to MariaDB and back, through an ALTER, a resnapshot and kills, under load."""
    other = servers.get("mariadb" if server.flavor == "mysql" else "mysql")
    address = _mysql_at(other)
    seed_table(server, database, "orders", depth(5_000, 300_000), binlog=False)
    pipeline = new_pipeline(server, database, kind="mysql", chunk_rows=1_000, more=_section(address))
    with Workload(server, database, "orders", seed=5, rate=100) as load:
        runner = pipeline.start(killed=True)
        pipeline.wait_for(partial(_has_applied, pipeline, 3), runner)
        runner.kill()
        runner.wait()
        runner = pipeline.start(killed=True)
        server.execute(f"ALTER TABLE {database}.orders MODIFY quantity BIGINT NOT NULL")
        server.execute(f"UPDATE {database}.orders SET quantity = 1099511627776 WHERE id % 10 = 0")
        goal = len(pipeline.events("sink.applied")) + 3
        pipeline.wait_for(partial(_has_applied, pipeline, goal), runner)
        runner.kill()
        runner.wait()
        pipeline.run("caught-up")  # else the copy that the ALTER began takes the place of the table that lacks a column
        other.execute(f"ALTER TABLE {database}.orders DROP COLUMN note")  # so that a redump is a resnapshot
        assert pipeline.command("redump", "--table", f"{database}.orders").returncode == 0
        runner = pipeline.start(killed=True)
        pipeline.wait_for(lambda: _has_begun_as_requested(pipeline), runner)
        runner.kill()
        runner.wait()
        load.stop()
    pipeline.run("caught-up")
    copy = source_table(other, database, "orders")
    source = source_table(server, database, "orders")
    assert_equal(source, copy.select(source.column_names), ["id"])
    other.execute(f"DROP DATABASE {database}")


@pytest.mark.soak
@on("mariadb")
def test_delta_kafka_and_postgresql_on_one_pipeline(
    server: Server,
    database: str,
    new_pipeline: PipelineFactory,
    postgresql: Postgres,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The broker is away, PostgreSQL is restarted and the runner is killed: each has the source in the end."""
    seed_table(server, database, "orders", 3_000, binlog=False)
    address = _postgres_at(postgresql)
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as broker:
        sinks = [
            f'[[sinks]]\nname = "events"\ntype = "kafka"\n[sinks.kafka]\nservers = "{broker.address}"',
            f'[[sinks]]\nname = "reports"\ntype = "postgresql"\n{_section(address, "sinks")}',
        ]
        pipeline = new_pipeline(server, database, merge=1.0, more="\n".join(sinks))
        with Workload(server, database, "orders", seed=6, rate=100) as load:
            runner = pipeline.start(killed=True)
            for kind in ("events", "reports"):
                pipeline.wait_for(partial(_has_applied, pipeline, 2, kind), runner)
            broker.kill()
            away_s = time.monotonic()
            goal = len([one for one in pipeline.events("sink.applied") if one["sink"] == "reports"]) + 3
            pipeline.wait_for(partial(_has_applied, pipeline, goal, "reports"), runner)
            postgresql.stop()
            committed = load.committed
            pipeline.wait_for(lambda: load.committed > committed + 200, runner)
            runner.kill()
            runner.wait()
            runner = pipeline.start(killed=True)
            postgresql.start()
            pipeline.wait_for(partial(_has_applied, pipeline, goal + 3, "reports"), runner)
            time.sleep(max(depth(0.0, 300.0) - (time.monotonic() - away_s), 0.0))
            assert not _has_stopped(pipeline)
            broker.start()
            load.stop()
            runner.kill()
            runner.wait()
        pipeline.run("caught-up")
        _assert_equal(address, server, database)
        source = source_table(server, database, "orders")
        assert_equal(source, pipeline.mirror("orders"))
        found = kafka.newest_generation(kafka.messages(broker.address, f"{database}.orders"))
        rows = {key: row["quantity"] for key, row in kafka.replayed(found).items()}
        assert rows == dict(zip(source["id"].to_pylist(), source["quantity"].to_pylist(), strict=True))


@on("mysql")
def test_what_stops_a_table_is_ended_as_its_hint_says(
    server: Server, database: str, new_pipeline: PipelineFactory, postgresql: Postgres
) -> None:
    """A value that PostgreSQL does not have, a schema that is missing, a table that somebody drops."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v VARCHAR(20), quantity INT)")
    server.execute(f"INSERT INTO {database}.t VALUES (1, 'a', 1)")
    address = _postgres_at(postgresql)
    section = _section(address, more="create_schemas = false")
    pipeline = new_pipeline(server, database, kind="postgresql", more=section)
    _assert_stops(pipeline, f"There is no {database}")
    postgresql.run(f"CREATE SCHEMA {database}")
    _assert_repaired(pipeline, address, server)

    server.execute(f"INSERT INTO {database}.t VALUES (2, 'b\\0c', 2)")
    _assert_stops(pipeline, "'v' has a text with a zero byte")
    pipeline.spec.write_text(pipeline.spec.read_text() + f'[tables."{database}.t"]\nexclude = ["v"]\n')
    _assert_repaired(pipeline, address, server)

    postgresql.run(f"DROP TABLE {database}.t")
    _assert_stops(pipeline, "is gone")
    _assert_repaired(pipeline, address, server)

    postgresql.run(f"ALTER TABLE {database}.t ADD COLUMN extra INT")
    server.execute(f"ALTER TABLE {database}.t ADD COLUMN extra INT")
    _assert_stops(pipeline, "a column 'extra' that the pipeline has not made")
    postgresql.run(f"ALTER TABLE {database}.t DROP COLUMN extra")
    _assert_repaired(pipeline, address, server)
    server.execute(f"ALTER TABLE {database}.t DROP COLUMN extra")

    postgresql.run(f"ALTER TABLE {database}.t ADD CONSTRAINT few CHECK (quantity < 5)")
    server.execute(f"INSERT INTO {database}.t VALUES (3, 'c', 9)")
    _assert_stops(pipeline, 'violates check constraint "few"')
    postgresql.run(f"ALTER TABLE {database}.t DROP CONSTRAINT few")
    _assert_repaired(pipeline, address, server)


@pytest.mark.soak
@on("mariadb")
def test_a_unique_index_stops_a_table_until_it_is_dropped(
    server: Server, database: str, new_pipeline: PipelineFactory, private_server: ServerFactory
) -> None:
    """On MySQL, where it could make an update replace another row; another type, and a row that is too large."""
    other = private_server("mysql")
    address = _mysql_at(other)
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, quantity INT, v BIGINT)")
    server.execute(f"INSERT INTO {database}.t VALUES (1, 1, 1), (2, 2, 2)")
    pipeline = new_pipeline(server, database, kind="mysql", more=_section(address))
    pipeline.run("caught-up")
    other.execute(f"CREATE UNIQUE INDEX mine ON {database}.t (quantity)")
    server.execute(f"UPDATE {database}.t SET quantity = 1")
    _assert_stops(pipeline, f"DROP INDEX mine ON {database}.t")
    other.execute(f"DROP INDEX mine ON {database}.t")
    _assert_repaired(pipeline, address, server)
    server.execute(f"ALTER TABLE {database}.t MODIFY v VARCHAR(30)")
    server.execute(f"UPDATE {database}.t SET v = 'text'")
    pipeline.run("caught-up")
    assert sorted(databases.rows_of(address, database, "t", ("id", "v"))) == [(1, "text"), (2, "text")]
    (usual,) = other.execute("SELECT @@GLOBAL.max_allowed_packet")[0]
    other.execute("SET GLOBAL max_allowed_packet = 1048576")
    server.execute(f"ALTER TABLE {database}.t MODIFY v MEDIUMTEXT")
    server.execute(f"UPDATE {database}.t SET v = REPEAT('w', 2000000) WHERE id = 2")
    _assert_stops(pipeline, "max_allowed_packet of the server is 1,048,576")
    other.execute(f"SET GLOBAL max_allowed_packet = {usual}")
    assert pipeline.command("redump", "--table", f"{database}.t").returncode == 0
    pipeline.run("caught-up")
    assert [len(v) for (v,) in databases.rows_of(address, database, "t", ("v",))] == [4, 2_000_000]
    other.execute(f"DROP DATABASE {database}")

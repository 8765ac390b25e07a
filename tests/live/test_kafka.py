"""Change logs in Kafka: read by a plain consumer, they are the source, whatever happens to the runner or the broker."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.every_type import statements
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import Server
from tests.servers.kafka_broker import Broker, kafka_broker
from tests.support import kafka
from tests.support.depth import depth, on

_SET = AlterConfigOpType.SET


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for the tests of this file."""
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


def _section(broker: Broker, more: str = "", name: str = "sink") -> str:
    return f'[{name}.kafka]\nservers = "{broker.address}"\npartitions = 3\n{more}\n'


def _messages(broker: Broker, pipeline: Pipeline, table: str) -> list[kafka.Read]:
    return kafka.newest_generation(kafka.messages(broker.address, f"{pipeline.database}.{table}"))


def _assert_right(broker: Broker, pipeline: Pipeline, server: Server, table: str) -> None:
    """The messages are the source; of each key they are in one partition, in order; none is there twice."""
    found = _messages(broker, pipeline, table)
    columns = "id, quantity"
    source = source_table(server, pipeline.database, table).select(columns.split(", "))
    replayed = kafka.replayed(found)
    there = {key: row["quantity"] for key, row in replayed.items()}
    assert there == dict(zip(source["id"].to_pylist(), source["quantity"].to_pylist(), strict=True))
    partitions, last = dict[Any, set[int]](), dict[Any, int]()
    for one in found:
        partitions.setdefault(one.key, set()).add(one.partition)
        sequence = int(one.headers.get("sequence", -1))
        assert sequence > last.get(one.key, -2), f"{one.key}: {sequence} after {last.get(one.key)}"
        last[one.key] = sequence
    assert {len(numbers) for numbers in partitions.values()} == {1}
    sequences = [one.headers["sequence"] for one in found if "sequence" in one.headers]
    assert len(set(sequences)) == len(sequences)


def _has_applied(pipeline: Pipeline, commits: int) -> bool:
    return len([one for one in pipeline.events("sink.applied") if one["sink"] != "delta"]) >= commits


def _live_through_kills(pipeline: Pipeline, server: Server, broker: Broker) -> None:
    """Runners that are killed again and again under load, and a broker that is killed meanwhile."""
    chance = random.Random(7)
    with Workload(server, pipeline.database, "orders", seed=2, rate=200) as load:
        for number in range(depth(3, 20)):
            goal = len(pipeline.events("sink.applied")) + 1
            runner = pipeline.start(killed=True)
            pipeline.wait_for(partial(_has_applied, pipeline, goal), runner)
            if number == 1:
                broker.kill()
                pipeline.wait_for(lambda: bool(pipeline.events("store.away")), runner)
                broker.start()
                pipeline.wait_for(partial(_has_applied, pipeline, goal + 3), runner)
            time.sleep(chance.uniform(0.0, 3.0))
            runner.kill()
            runner.wait()
        load.stop()


@pytest.mark.soak
@on("mysql")
def test_a_table_under_load_is_its_messages(
    server: Server, database: str, new_pipeline: PipelineFactory, broker: Broker
) -> None:
    """Copied and followed by a runner that is killed again and again, and a broker that is killed meanwhile."""
    seed_table(server, database, "orders", depth(20_000, 600_000), binlog=False)
    pipeline = new_pipeline(server, database, kind="kafka", chunk_rows=2_500, merge=1.0, more=_section(broker))
    _live_through_kills(pipeline, server, broker)
    pipeline.run("caught-up")
    _assert_right(broker, pipeline, server, "orders")
    assert not list((pipeline.folder / "lake").glob("orders*")), "files are staged, and go"


@pytest.mark.soak
@on("mariadb")
def test_at_least_once_lacks_nothing_and_the_last_message_of_a_key_is_the_newest(
    server: Server, database: str, new_pipeline: PipelineFactory, broker: Broker
) -> None:
    """From a runner that is killed again and again, and a broker that is killed meanwhile; of any isolation level."""
    seed_table(server, database, "orders", depth(2_000, 100_000), binlog=False)
    more = _section(broker, 'delivery = "at_least_once"')
    pipeline = new_pipeline(server, database, kind="kafka", chunk_rows=500, merge=1.0, more=more)
    _live_through_kills(pipeline, server, broker)
    pipeline.run("caught-up")
    found = kafka.messages(broker.address, f"{database}.orders", isolation="read_uncommitted")
    source = source_table(server, database, "orders").select(["id", "quantity"])
    there = {key: row["quantity"] for key, row in kafka.replayed(found).items()}
    assert there == dict(zip(source["id"].to_pylist(), source["quantity"].to_pylist(), strict=True))


@on("mysql")
def test_delta_and_kafka_on_one_pipeline(
    server: Server, database: str, new_pipeline: PipelineFactory, broker: Broker
) -> None:
    """The broker is away: Delta continues, and Kafka gets what it lacks; one that joins later gets the rows."""
    seed_table(server, database, "orders", 3_000, binlog=False)
    pipeline = new_pipeline(server, database, kind="delta", merge=1.0)
    pipeline.run("caught-up")
    sinks = f'[[sinks]]\nname = "events"\ntype = "kafka"\n{_section(broker, name="sinks")}'
    pipeline.spec.write_text(pipeline.spec.read_text() + sinks)
    with Workload(server, database, "orders", seed=3, rate=100) as load:
        runner = pipeline.start(killed=True)
        pipeline.wait_for(partial(_has_applied, pipeline, 3), runner)
        broker.kill()
        committed = load.committed
        behind = len(pipeline.events("epoch.committed"))
        pipeline.wait_for(lambda: load.committed > committed + 200, runner)
        pipeline.wait_for(lambda: len(pipeline.events("epoch.committed")) > behind + 3, runner)
        assert not _has_stopped(pipeline)
        runner.kill()
        runner.wait()
        broker.start()
        load.stop()
    pipeline.run("caught-up")
    _assert_right(broker, pipeline, server, "orders")
    assert_equal(source_table(server, database, "orders"), pipeline.mirror("orders"))


def test_row_kinds_of_a_copy_and_its_changes(
    server: Server, database: str, new_pipeline: PipelineFactory, broker: Broker
) -> None:
    """As `changelog-json` has them: the copy is inserts, an update two messages, a new key a deletion and an insert."""
    server.execute(f"CREATE TABLE {database}.orders (id INT PRIMARY KEY, state VARCHAR(9), price DECIMAL(20,2))")
    server.execute(f"INSERT INTO {database}.orders VALUES (1, 'new', 20.10), (2, 'new', 0.05), (3, 'new', NULL)")
    section = _section(broker, 'format = "changelog-json"')
    pipeline = new_pipeline(server, database, kind="kafka", more=section)
    pipeline.run("caught-up")
    server.execute(f"UPDATE {database}.orders SET state = 'paid' WHERE id < 3")
    server.execute(f"UPDATE {database}.orders SET id = 30 WHERE id = 3")
    server.execute(f"DELETE FROM {database}.orders WHERE id = 2")
    pipeline.run("caught-up")
    found = kafka.messages(broker.address, f"{database}.orders")
    kinds = Counter(one.value["op"] for one in found)
    assert kinds == {"+I": 4, "-U": 2, "+U": 2, "-D": 2}
    of_first = [(one.value["op"], one.value["data"]["state"]) for one in found if one.key == '{"id":1}']
    assert of_first == [("+I", "new"), ("-U", "new"), ("+U", "paid")]
    prices = {one.value["data"]["price"] for one in found}
    assert prices == {"20.10", "0.05", None}


def test_keys_that_a_new_copy_lacks_are_deleted(
    server: Server, database: str, new_pipeline: PipelineFactory, broker: Broker
) -> None:
    """Rows that were deleted without the binlog. Who keeps rows by key has the source, in any format."""
    format_ = "debezium-json" if server.flavor == "mysql" else "json"
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO {database}.t VALUES {', '.join(f'({n}, {n})' for n in range(1, 41))}")
    pipeline = new_pipeline(server, database, kind="kafka", more=_section(broker, f'format = "{format_}"'))
    pipeline.run("caught-up")
    server.execute(f"UPDATE {database}.t SET v = -v WHERE id % 2 = 0")
    server.execute(f"DELETE FROM {database}.t WHERE id = 1")
    pipeline.run("caught-up")
    unlogged = f"DELETE FROM {database}.t WHERE id BETWEEN 10 AND 19"
    statements(server, "SET sql_log_bin = 0", unlogged)()
    assert pipeline.command("redump", "--table", f"{database}.t").returncode == 0
    server.execute(f"INSERT INTO {database}.t VALUES (12, 120)")
    pipeline.run("caught-up")
    found = kafka.messages(broker.address, f"{database}.t")
    rows = dict[str | None, int]()
    for one in found:
        value = one.value if format_ == "json" or one.value is None else one.value["after"]
        if value is None:
            rows.pop(one.key, None)
        else:
            rows[one.key] = value["v"]
    source = source_table(server, database, "t")
    expected = zip(source["id"].to_pylist(), source["v"].to_pylist(), strict=True)
    assert rows == {f'{{"id":{key}}}': value for key, value in expected}
    deleted = [one.key for one in found if one.headers["kind"] == "-D" and one.headers["generation"] == "1"]
    assert sorted(deleted, key=str) == [f'{{"id":{n}}}' for n in range(10, 20) if n != 12]
    pipeline.run("caught-up")
    assert len(kafka.messages(broker.address, f"{database}.t")) == len(found), "a later start sends nothing again"


@pytest.mark.soak
@on("mariadb")
def test_a_topic_that_is_gone_is_begun_again_as_the_hint_says(
    server: Server, database: str, new_pipeline: PipelineFactory, broker: Broker
) -> None:
    """Deleted between two runs and during one; and one that is not to be created."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO {database}.t VALUES (1, 1), (2, 2)")
    pipeline = new_pipeline(server, database, kind="kafka", more=_section(broker))
    pipeline.run("caught-up")
    name = f"{database}.t"
    admin = AdminClient({"bootstrap.servers": broker.address})
    for is_running in (False, True):
        runner = pipeline.start(killed=True) if is_running else None
        if runner is not None:
            goal = len(pipeline.events("sink.applied")) + 1
            server.execute(f"INSERT INTO {database}.t SELECT MAX(id) + 1, 0 FROM {database}.t")
            pipeline.wait_for(partial(_has_applied, pipeline, goal), runner)
        admin.delete_topics([name])[name].result(30)
        server.execute(f"INSERT INTO {database}.t SELECT MAX(id) + 1, 0 FROM {database}.t")
        if runner is None:
            refused = pipeline.command("run", "--until", "caught-up")
            assert refused.returncode != 0
            assert "is gone" in " ".join((refused.stdout + refused.stderr).split())
        else:
            pipeline.wait_for(lambda: _has_stopped(pipeline), runner)
            runner.kill()
            runner.wait()
            assert "gone" in pipeline.status()["tables"][0]["error"]
        assert pipeline.command("redump", "--table", name).returncode == 0
        pipeline.run("caught-up")
        rows = {key: row["v"] for key, row in kafka.replayed(kafka.messages(broker.address, name)).items()}
        source = source_table(server, database, "t")
        assert rows == dict(zip(source["id"].to_pylist(), source["v"].to_pylist(), strict=True))
    server.execute(f"CREATE TABLE {database}.u (id INT PRIMARY KEY)")
    pipeline.spec.write_text(pipeline.spec.read_text().replace("partitions = 3", "create_topics = false"))
    assert pipeline.command("run", "--until", "caught-up").returncode == 1
    admin.create_topics([NewTopic(f"{database}.u", 1, 1)])[f"{database}.u"].result(30)
    assert pipeline.command("redump", "--table", f"{database}.u").returncode == 0
    pipeline.run("caught-up")


@on("mysql")
def test_a_row_that_is_too_large_stops_its_table_alone(
    server: Server, database: str, new_pipeline: PipelineFactory, broker: Broker
) -> None:
    """The other one goes into its topic; with the room that the hint names, so does this one."""
    for name in ("wide", "t"):
        server.execute(f"CREATE TABLE {database}.{name} (id INT PRIMARY KEY, v MEDIUMTEXT)")
        server.execute(f"INSERT INTO {database}.{name} VALUES (1, 'x')")
    pipeline = new_pipeline(server, database, kind="kafka", more=_section(broker, "max_message_bytes = 20000"))
    pipeline.run("caught-up")
    server.execute(f"UPDATE {database}.wide SET v = REPEAT('w', 90000)")
    server.execute(f"UPDATE {database}.t SET v = 'y'")
    failed = pipeline.command("run", "--until", "caught-up")
    assert failed.returncode == 1
    assert "sink.kafka.max_message_bytes is 20,000" in " ".join((failed.stdout + failed.stderr).split())
    assert kafka.replayed(kafka.messages(broker.address, f"{database}.t"))[1]["v"] == "y"
    resource = ConfigResource(ResourceType.TOPIC, f"{database}.wide")
    resource.add_incremental_config(ConfigEntry("max.message.bytes", "400000", incremental_operation=_SET))
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.incremental_alter_configs([resource])[resource].result(30)
    pipeline.spec.write_text(pipeline.spec.read_text().replace("= 20000", "= 200000"))
    assert pipeline.command("redump", "--table", f"{database}.wide").returncode == 0
    pipeline.run("caught-up")
    assert len(kafka.replayed(kafka.messages(broker.address, f"{database}.wide"))[1]["v"]) == 90_000


def _has_stopped(pipeline: Pipeline) -> bool:
    return any(one["state"] == "stopped" for one in pipeline.events("table.state"))

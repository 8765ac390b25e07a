"""Messages whose schemas are in a registry: read by another reader of Avro, and of JSON, they are the source."""

import io
import json
import struct
from collections.abc import Iterator
from functools import cache
from itertools import product, starmap
from pathlib import Path
from typing import Any

import fastavro
import httpx
import pytest

from tests.live.conftest import PipelineFactory
from tests.live.support import every_type
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import FLAVORS, Server
from tests.servers.kafka_broker import Broker, kafka_broker
from tests.servers.registry import SchemaServer, schema_server
from tests.support import kafka
from tests.support.depth import in_soak, on


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for the tests of this file."""
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaServer]:
    """A registry for the tests of this file."""
    with schema_server(tmp_path_factory.mktemp("registry")) as running:
        yield running


class _Reader:
    """Reads messages by the schemas of a registry."""

    def __init__(self, registry: SchemaServer) -> None:
        self._url = registry.url
        self.schema = cache(self._fetched)

    def _fetched(self, number: int) -> Any:
        answer = httpx.get(f"{self._url}/schemas/ids/{number}", timeout=30)
        return json.loads(answer.json()["schema"])

    def __call__(self, message: bytes) -> Any:
        """The content of a message."""
        magic, number = struct.unpack(">bI", message[:5])
        assert magic == 0
        schema = self.schema(number)
        if "$schema" in schema:
            content = json.loads(message[5:])
            assert content.keys() == schema["properties"].keys()
            return content
        return fastavro.schemaless_reader(io.BytesIO(message[5:]), fastavro.parse_schema(_plain(schema)), None)


def _plain(schema: Any) -> Any:
    """A schema without dates and times: Python has none of the year 0."""
    if isinstance(schema, dict):
        is_decimal = schema.get("logicalType", "decimal") == "decimal"
        return {key: _plain(one) for key, one in schema.items()} if is_decimal else schema["type"]
    return [_plain(one) for one in schema] if isinstance(schema, list) else schema


def _pipeline(
    new_pipeline: PipelineFactory, server: Server, database: str, broker: Broker, registry: SchemaServer, format_: str
) -> Pipeline:
    topic = f'topic = "{{database}}.{{table}}.{format_}"'
    own = f'servers = "{broker.address}"\nformat = "{format_}"\npartitions = 2\n{topic}'
    section = f'[sink.kafka]\n{own}\n[sink.kafka.registry]\nurl = "{registry.url}"\n'
    return new_pipeline(server, database, kind="kafka", chunk_rows=500, merge=0.5, more=section)


def _rows(found: list[kafka.Read], format_: str) -> dict[Any, dict[str, Any]]:
    """The table as the messages leave it."""
    if format_ == "debezium-avro":
        return kafka.replayed(found)
    rows = dict[Any, dict[str, Any]]()
    for one in found:
        if one.value is None:
            rows.pop(one.key, None)
        else:
            rows[one.key] = one.value
    return {row["id"]: row for row in rows.values()}


FORMATS = ("debezium-avro", "avro", "json-schema")
EACH = [(FLAVORS[0], FORMATS[0]), *starmap(in_soak, list(product(FLAVORS, FORMATS))[1:])]


@pytest.mark.parametrize(("flavor", "format_"), EACH)
def test_a_table_under_load_is_its_messages(
    server: Server, database: str, new_pipeline: PipelineFactory, broker: Broker, registry: SchemaServer, format_: str
) -> None:
    """Killed, altered and resnapshotted: keys that vanished meanwhile are deleted."""
    seed_table(server, database, "orders", 1500, binlog=False)
    pipeline = _pipeline(new_pipeline, server, database, broker, registry, format_)
    with Workload(server, database, "orders", seed=2, rate=100) as load:
        runner = pipeline.start_streaming()
        pipeline.wait_for(lambda: load.committed > 50, runner)
        runner.kill()
        runner.wait()
        load.stop()
    runner = pipeline.start_streaming()
    server.execute(f"ALTER TABLE {database}.orders ADD COLUMN extra VARCHAR(20) DEFAULT 'new'")
    server.execute(f"UPDATE {database}.orders SET extra = 'changed' WHERE id % 5 = 0")
    pipeline.finish(runner)
    pipeline.run("caught-up")
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 0")
        cursor.execute(f"DELETE FROM {database}.orders WHERE id % 7 = 0")
        connection.commit()
    runner = pipeline.start_streaming()
    assert pipeline.command("redump", "--table", f"{database}.orders").returncode == 0
    pipeline.finish(runner)
    pipeline.run("caught-up")
    read = _Reader(registry)
    found = kafka.messages(broker.address, f"{database}.orders.{format_}", parse=read)
    rows = _rows(found, format_)
    columns = ("quantity", "price", "status", "note", "extra")
    source = server.execute(f"SELECT id, {', '.join(columns)} FROM {database}.orders")
    texts = {int(key): tuple(map(str, values)) for key, *values in source}
    assert {key: tuple(str(row.get(name)) for name in columns) for key, row in rows.items()} == texts


@on("mariadb")
def test_every_type_is_in_a_schema(
    server: Server, database: str, new_pipeline: PipelineFactory, broker: Broker, registry: SchemaServer, tmp_path: Path
) -> None:
    """Each can be read; integers and texts are those of the messages in JSON."""
    chosen = every_type.kinds(server)
    every_type.insert(server, database, "types", chosen, 0, every_type.create(server, database, "types", chosen))
    pipeline = _pipeline(new_pipeline, server, database, broker, registry, "avro")
    pipeline.run("caught-up")
    found = kafka.messages(broker.address, f"{database}.types.avro", parse=_Reader(registry))
    section = f'[sink.kafka]\nservers = "{broker.address}"\nformat = "json"\ntopic = "{{database}}.{{table}}.json"\n'
    (tmp_path / "json").mkdir()
    new_pipeline(server, database, kind="kafka", more=section, folder=tmp_path / "json").run("caught-up")
    plain = {one.value["id"]: one.value for one in kafka.messages(broker.address, f"{database}.types.json")}
    assert len(found) == len(plain) > 0
    compared = set[str]()
    for one in found:
        own = plain[one.value["id"]]
        assert {name for name, value in one.value.items() if value is None} == {n for n, v in own.items() if v is None}
        same = {name: v for name, v in one.value.items() if isinstance(v, int | str) and type(v) is type(own[name])}
        assert {name: own[name] for name in same} == same
        compared |= same.keys()
    assert len(compared) > 20


@pytest.mark.soak
@on("mariadb")
def test_a_registry_that_is_away_delays_its_pipeline(
    server: Server,
    database: str,
    new_pipeline: PipelineFactory,
    broker: Broker,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Nothing is lost; `check` names it."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)")
    with schema_server(tmp_path_factory.mktemp("registry")) as registry:
        pipeline = _pipeline(new_pipeline, server, database, broker, registry, "avro")
        runner = pipeline.start_streaming()
        registry.stop()
        refused = pipeline.command("check")
        assert "The schema registry does not answer" in refused.stdout
        server.execute(f"INSERT INTO {database}.t VALUES (1, 1), (2, 2)")
        pipeline.wait_for(lambda: bool(pipeline.events("store.away")), runner)
        registry.start()
        read = _Reader(registry)
        pipeline.wait_for(lambda: _has_rows(broker, f"{database}.t.avro", read, 2), runner)
        pipeline.finish(runner)


def _has_rows(broker: Broker, topic: str, read: _Reader, count: int) -> bool:
    return len(_rows(kafka.messages(broker.address, topic, parse=read), "avro")) >= count


@on("mysql")
def test_a_schema_that_is_refused_stops_its_table_and_is_ended_as_the_hint_says(
    server: Server, database: str, new_pipeline: PipelineFactory, broker: Broker, registry: SchemaServer
) -> None:
    """Added and dropped columns are permitted, another type is not. The others continue."""
    for table in ("t", "other"):
        server.execute(f"CREATE TABLE {database}.{table} (id INT PRIMARY KEY, v INT)")
        server.execute(f"INSERT INTO {database}.{table} VALUES (1, 1)")
    pipeline = _pipeline(new_pipeline, server, database, broker, registry, "avro")
    runner = pipeline.start_streaming()
    read, topic = _Reader(registry), f"{database}.t.avro"
    pipeline.wait_for(lambda: _has_rows(broker, topic, read, 1), runner)
    _set_compatibility(registry, f"{topic}-value", "FULL")
    server.execute(f"ALTER TABLE {database}.t ADD COLUMN more INT")
    server.execute(f"INSERT INTO {database}.t VALUES (3, 3, 3)")
    pipeline.wait_for(lambda: _has_rows(broker, topic, read, 2), runner)
    server.execute(f"ALTER TABLE {database}.t DROP COLUMN more")
    server.execute(f"INSERT INTO {database}.t VALUES (4, 4)")
    pipeline.wait_for(lambda: _has_rows(broker, topic, read, 3), runner)
    server.execute(f"ALTER TABLE {database}.t MODIFY v VARCHAR(20)")
    server.execute(f"INSERT INTO {database}.t VALUES (2, 'text')")
    server.execute(f"INSERT INTO {database}.other VALUES (2, 2)")
    pipeline.wait_for(lambda: "refuses the schema" in str(pipeline.status()["tables"]), runner)
    pipeline.wait_for(lambda: _has_rows(broker, f"{database}.other.avro", read, 2), runner)
    _set_compatibility(registry, f"{topic}-value", "NONE")
    assert pipeline.command("redump", "--table", f"{database}.t").returncode == 0
    pipeline.wait_for(lambda: _has_rows(broker, topic, read, 4), runner)
    pipeline.finish(runner)


def _set_compatibility(registry: SchemaServer, subject: str, level: str) -> None:
    answer = httpx.put(f"{registry.url}/config/{subject}", json={"compatibility": level}, timeout=30)
    answer.raise_for_status()

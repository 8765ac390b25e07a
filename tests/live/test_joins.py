"""A sink in a server that joins a pipeline, and loses its connection between the beginning of the copy and its rows."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import DestinationError
from engine.base.store_errors import StoreAwayError
from engine.destination import further_sink
from engine.destination.database.table import DatabaseTable
from engine.destination.destination_protocol import CHUNKS
from engine.destination.kafka import snapshot_messages
from engine.destination.kafka.snapshot_messages import SnapshotMessages
from engine.destination.kafka.table import KafkaTable
from engine.spec.sink_settings import Sink
from tests.servers.kafka_broker import kafka_broker
from tests.support import database as databases
from tests.support import kafka
from tests.unit.destination.sink_run import Run, first_alone, insert
from tests.unit.destination.support import DATABASE, World, mirror, schema_of, story, topic_rule, wait_for

ERRORS = {"away": StoreAwayError, "refused": DestinationError}


def _joined(monkeypatch: pytest.MonkeyPatch, folder: Path, sink: Sink, table: Any, error: str) -> None:
    """A run in which it joins, with one error, and follows."""
    monkeypatch.setattr(further_sink, "_RETRY_S", 0.05)
    monkeypatch.setattr(further_sink, "_AGAIN_S", 0.2)
    story(world := World(folder))
    first_alone(folder, world)
    append, failed = table.append, list[int]()

    def once(self: Any, kind: str, epoch: int, files: Any) -> Any:
        if kind == CHUNKS and not failed:
            failed.append(epoch)
            raise ERRORS[error]("the connection is lost, or a row is refused")
        return append(self, kind, epoch, files)

    monkeypatch.setattr(table, "append", once)
    run = Run(folder, world, sink=sink)
    assert wait_for(lambda: failed and run.further.error)
    insert(run, world, 8)
    assert wait_for(lambda: run.further.error is None and run.further.through == run.state.epoch)
    insert(run, world, 9)
    run.end(drains=True)
    assert run.further.error is None


@pytest.mark.parametrize("error", list(ERRORS))
@pytest.mark.parametrize("database_address", ["mysql", "mariadb", "postgresql"], indirect=True)
def test_a_database(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    database_address: databases.Address,
    database_kind: str,
    error: str,
) -> None:
    """It has the rows of before, and those of after."""
    place = {**json.loads(os.environ[DATABASE]), "table": f"{schema_of(tmp_path)}.{{table}}"}
    fields = {"type": database_kind, "name": schema_of(tmp_path), "path": tmp_path / "files", "database": place}
    _joined(monkeypatch, tmp_path, Sink.model_validate(fields), DatabaseTable, error)
    assert sorted(databases.rows_of(database_address, schema_of(tmp_path), "t", ["id", "v"])) == mirror(tmp_path)


@pytest.mark.parametrize("error", list(ERRORS))
def test_a_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, error: str
) -> None:
    """So has the topic."""
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as broker:
        place = {"servers": broker.address, "topic": topic_rule(tmp_path)}
        fields = {"type": "kafka", "name": "files", "path": tmp_path / "files", "kafka": place}
        _joined(monkeypatch, tmp_path, Sink.model_validate(fields), KafkaTable, error)
        rows = dict[int, int]()
        for message in kafka.messages(broker.address, f"{tmp_path.name}.d.t"):
            row = message.value["after"]
            rows[row["id"]] = row["v"]
    assert sorted(rows.items()) == mirror(tmp_path)


def test_half_a_copy_is_no_part_of_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Rows that are read back again come in other files. They are another generation, which has each row once."""
    monkeypatch.setattr(further_sink, "_RETRY_S", 0.05)
    monkeypatch.setattr(snapshot_messages, "_MESSAGES", 1)
    story(world := World(tmp_path))
    first_alone(tmp_path, world)
    commit, commits = SnapshotMessages._commit, list[int]()

    def some(self: Any, records: Any) -> None:
        commit(self, records)
        if any(" chunks " in key for key in records):
            commits.append(1)
            if len(commits) == 2:
                raise StoreAwayError("the connection is lost")

    with kafka_broker(tmp_path_factory.mktemp("kafka")) as broker:
        monkeypatch.setattr(SnapshotMessages, "_commit", some)
        place = {"servers": broker.address, "topic": topic_rule(tmp_path)}
        fields = {"type": "kafka", "name": "files", "path": tmp_path / "files", "kafka": place}
        run = Run(tmp_path, world, sink=Sink.model_validate(fields))
        assert wait_for(lambda: len(commits) > 2 and run.further.through == run.state.epoch)
        run.end(drains=True)
        found = kafka.messages(broker.address, f"{tmp_path.name}.d.t")
    newest = kafka.newest_generation(found)
    rows = sorted((one.value["after"]["id"], one.value["after"]["v"]) for one in newest if one.value["op"] == "r")
    assert rows == mirror(tmp_path)
    assert len(found) > len(newest)

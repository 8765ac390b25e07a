"""The contract of destinations, on a broker of Kafka (`tests.unit.destination.test_contract`)."""

import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from engine.base.errors import DestinationError, PipelineHeldError, SpecError
from engine.base.store_errors import StoreAwayError
from engine.capture.binlog.row_changes import log_schema
from engine.capture.files import DataFile, FileWriter
from engine.decode.arrow_schema import arrow_schema
from engine.decode.schema import Column
from engine.destination.destination_protocol import CHANGES, CHUNKS, EpochEnd
from engine.destination.kafka import snapshot_messages
from engine.destination.kafka.destination import KafkaDestination
from engine.destination.kafka.epoch_transaction import TransactionalProducer
from engine.destination.kafka.table import KafkaTable
from engine.destination.publisher import Publisher
from engine.journal import Journal
from engine.ledger.state import Owner
from engine.ledger.store import Ledger
from tests.servers.kafka_broker import Broker, kafka_broker
from tests.support import kafka
from tests.support.patience import PATIENCE_S
from tests.unit.destination.support import (
    BARE,
    BROKER,
    ID,
    OLD,
    PLAN,
    WHOLE_SPLIT,
    Kind,
    World,
    publish_story,
    story,
    switch,
    taken,
    world_files,
)
from tests.unit.destination.test_contract import (
    changes,
    table_rows,
    test_a_column_comes_and_another_one_goes,
    test_a_failed_table_fails_alone_and_stays_as_it_was,
    test_a_failed_table_is_repaired_by_a_resnapshot,
    test_a_pipeline_that_copies_nothing_empties_the_table,
    test_a_resnapshot_replaces_the_table_whenever_the_publisher_is_killed,
    test_an_earlier_resnapshot_is_not_begun_again_with_wider_columns,
    test_an_epoch_that_is_applied_again_changes_nothing,
    test_what_a_destination_cannot_do_is_absent,
    test_what_is_not_published_is_not_seen,
)

__all__ = [
    "test_a_column_comes_and_another_one_goes",
    "test_a_failed_table_fails_alone_and_stays_as_it_was",
    "test_a_failed_table_is_repaired_by_a_resnapshot",
    "test_a_pipeline_that_copies_nothing_empties_the_table",
    "test_a_resnapshot_replaces_the_table_whenever_the_publisher_is_killed",
    "test_an_earlier_resnapshot_is_not_begun_again_with_wider_columns",
    "test_an_epoch_that_is_applied_again_changes_nothing",
    "test_what_a_destination_cannot_do_is_absent",
    "test_what_is_not_published_is_not_seen",
]


@pytest.fixture(scope="module", autouse=True)
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for the tests of this file."""
    with pytest.MonkeyPatch.context() as patch, kafka_broker(tmp_path_factory.mktemp("kafka")) as running:
        patch.setenv(BROKER, running.address)
        yield running


@pytest.fixture
def kind() -> Kind:
    """This destination."""
    return "kafka"


def test_an_earlier_term_sends_nothing_more(tmp_path: Path) -> None:
    """What it has in its open transaction is never seen, and what it publishes later is refused."""
    story(world := World(tmp_path, kind="kafka"))
    publish_story(world, tmp_path, ())
    earlier = taken(world, "a", 1)
    table = earlier.table(Owner("L"), OLD, PLAN)
    table.open(must_exist=True)
    before = changes("kafka", tmp_path)
    table.append(CHANGES, 4, world_files(world.changes(OLD, [("+I", 9, 9)])))
    taken(world, "b", 2)
    with pytest.raises(PipelineHeldError):
        earlier.publish(EpochEnd(4, "b:1", ""))
    with pytest.raises(PipelineHeldError):
        earlier.terms.check()
    assert changes("kafka", tmp_path) == before


def test_a_runner_that_is_late_to_take_its_term_does_not_end_the_later_one(tmp_path: Path) -> None:
    """It fences the later one for a moment; that one sends its epoch again."""
    story(world := World(tmp_path, kind="kafka"))
    publish_story(world, tmp_path, ())
    later = taken(world, "b", 2)
    table = later.table(Owner("L"), OLD, PLAN)
    table.open(must_exist=True)
    table.append(CHANGES, 4, world_files(world.changes(OLD, [("+I", 9, 9)])))
    with pytest.raises(PipelineHeldError):
        taken(world, "a", 1)
    later.publish(EpochEnd(4, "b:1", ""))
    assert changes("kafka", tmp_path)[-1] == ("+I", 9, 9)


def test_a_term_that_readers_do_not_see_yet_is_not_lost(tmp_path: Path) -> None:
    """A broker answers a commit before readers see it. Here the open transaction of somebody else delays them."""
    story(world := World(tmp_path, kind="kafka"))
    publish_story(world, tmp_path, ())
    taken(world, "a", 1)
    somebody = Producer({"bootstrap.servers": os.environ[BROKER], "transactional.id": "somebody"})
    somebody.init_transactions()
    somebody.begin_transaction()
    somebody.produce(topic := f"_tidemark.L.{tmp_path.name}", b"{}", b"theirs")
    somebody.flush()
    with ThreadPoolExecutor() as pool:
        taking = pool.submit(taken, world, "b", 2)
        _wait_until_written(topic, b'"run":"b"')
        with pytest.raises(TimeoutError):
            taking.result(0.5)
        somebody.abort_transaction()
        later = taking.result()
    assert later.terms.check() == 2


def _wait_until_written(topic: str, part: bytes) -> None:
    """Wait until a message has a part, committed or not."""
    settings = {"bootstrap.servers": os.environ[BROKER], "group.id": "w", "isolation.level": "read_uncommitted"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    deadline_s = time.monotonic() + PATIENCE_S
    while (message := consumer.poll(0.2)) is None or part not in (message.value() or b""):
        assert time.monotonic() < deadline_s
    consumer.close()


def test_a_runner_that_was_taken_over_does_not_come_back(tmp_path: Path) -> None:
    """Its transaction was aborted while the brokers were away; it does not fence the later one to send it again."""
    story(world := World(tmp_path, kind="kafka"))
    publish_story(world, tmp_path, ())
    earlier = taken(world, "a", 1)
    table = earlier.table(Owner("L"), OLD, PLAN)
    table.open(must_exist=True)
    part = world_files(world.changes(OLD, [("+I", 9, 9)]))
    table.append(CHANGES, 4, part)
    later = taken(world, "b", 2)
    other = later.table(Owner("L"), OLD, PLAN)
    other.open(must_exist=True)
    other.append(CHANGES, 4, part)
    other.append(CHANGES, 5, world_files(world.changes(OLD, [("-D", 9, 9)])))
    later.publish(EpochEnd(5, "b:1", ""))
    earlier._shared.transaction._producer.abort()  # type: ignore[attr-defined]
    with pytest.raises(PipelineHeldError):
        earlier.publish(EpochEnd(4, "b:1", ""))
    with pytest.raises(PipelineHeldError):
        earlier._shared.snapshots.write({"x": {}})  # type: ignore[attr-defined]
    assert changes("kafka", tmp_path)[-2:] == [("+I", 9, 9), ("-D", 9, 9)]
    assert world.destination().table(Owner("L"), OLD).last_epoch(CHANGES) == 5


def test_a_copy_continues_where_it_was_with_whatever_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between two transactions; the next run gets the files of another epoch with them."""
    monkeypatch.setattr(snapshot_messages, "_MESSAGES", 2)
    world = World(tmp_path, kind="kafka")
    destination = taken(world, "a", 1)
    table = destination.table(Owner("L"), OLD, PLAN)
    table.open(must_exist=False)
    first = world_files(world.chunk(OLD, [(1, 1), (2, 2), (3, 3)]))
    second = world_files(world.chunk(OLD, [(4, 4), (5, 5)]))
    commit, commits = TransactionalProducer.commit, [0]

    def killed(self: TransactionalProducer) -> None:
        commits[0] += 1
        if commits[0] == 2:
            raise RuntimeError("killed")
        commit(self)

    with monkeypatch.context() as patch:
        patch.setattr(TransactionalProducer, "commit", killed)
        with pytest.raises(RuntimeError):
            table.append(CHUNKS, 1, first)
    table = taken(world, "b", 2).table(Owner("L"), OLD, PLAN)
    table.open(must_exist=True)
    assert table.append(CHUNKS, 2, [*second, *first])
    found = kafka.messages(os.environ[BROKER], f"{tmp_path.name}.d.t")
    assert sorted(one.value["after"]["id"] for one in found) == [1, 2, 3, 4, 5]


def test_tables_with_one_topic_are_refused(tmp_path: Path) -> None:
    """Their names differ only in what a topic's name cannot have."""
    world = World(tmp_path, kind="kafka")
    destination = taken(world, "a", 1)
    first, second = (replace(OLD, name=name) for name in ("ä", "ö"))
    destination.table(Owner("L"), first, PLAN).open(must_exist=False)
    other = destination.table(Owner("L"), second, PLAN)
    with pytest.raises(SpecError, match=re.escape("is the one of d.ä, too")):
        other.check(None, second)
    with pytest.raises(SpecError, match=re.escape("is the one of d.ä, too")):
        other.open(must_exist=False)


def test_a_table_without_a_key_is_read_back_as_changes(tmp_path: Path) -> None:
    """A sink that joins later gets its change log, in which rows were deleted."""
    world = World(tmp_path, kind="kafka")
    destination = taken(world, "a", 1)
    table = destination.table(Owner("L"), BARE, PLAN)
    table.open(must_exist=False)
    landing = destination.landing
    (file,) = world_files(world.changes(BARE, [("+I", 1, 1), ("-U", 1, 1), ("+U", 1, 2), ("-D", 1, 2)]))
    with landing.changes(BARE).open(file.name) as data:
        landing.chunks(BARE).write(file.name, data.read())
    table.append(CHUNKS, 1, [file])
    found = kafka.messages(os.environ[BROKER], f"{tmp_path.name}.d.t")
    operations = {one.value["op"]: one.value for one in found}
    assert [one.value["op"] for one in found] == ["c", "d", "c", "d"], "other rows have other keys"
    assert operations["d"]["before"] == {"id": 1, "v": 2}


def test_a_topic_that_is_gone_is_not_begun_again_in_silence(tmp_path: Path) -> None:
    """Nor is another one of its name taken for it."""
    story(world := World(tmp_path, kind="kafka"))
    publish_story(world, tmp_path, ())
    destination = world.destination()
    topics = destination._topics  # type: ignore[attr-defined]
    topic = f"{tmp_path.name}.d.t"
    topics.delete(topic)
    table = world.destination().table(Owner("L"), OLD, PLAN)
    assert "is gone" in table.read_state().fault
    topics.create_for_table(topic)
    table = world.destination().table(Owner("L"), OLD, PLAN)
    assert "was deleted and created again" in table.read_state().fault
    with pytest.raises(DestinationError, match="deleted and created again"):
        table.open(must_exist=True)


def test_a_table_that_was_dropped_leaves_nothing(tmp_path: Path) -> None:
    """Its topic goes; it can join again."""
    story(world := World(tmp_path, kind="kafka"))
    publish_story(world, tmp_path, ())
    destination = taken(world, "a", 1)
    destination.table(Owner("L"), OLD, PLAN).drop()
    again = world.destination().table(Owner("L"), OLD, PLAN)
    assert not again.is_there
    again.check(None, OLD)
    destination = taken(world, "b", 2)
    again = destination.table(Owner("L"), OLD, PLAN)
    assert again.open(must_exist=False).applied_epochs[CHANGES] == -1
    assert again.append(CHANGES, 9, world_files(world.changes(OLD, [("+I", 7, 7)])))
    destination.publish(EpochEnd(9, "b:1", ""))
    assert table_rows("kafka", tmp_path) == [(7, 7)]


def _wide(name: str, folder: Path, destination: KafkaDestination) -> tuple[KafkaTable, list[DataFile]]:
    """A table whose topic takes small messages alone, and a file with a large row."""
    table = replace(OLD, name=name, columns=(ID, Column("v", "varchar", length=9000, charset="utf8mb4")))
    topic = f"{folder.name}.d.{name}"
    destination._topics.create(topic, 1, 1, {"max.message.bytes": "2000"})
    opened = destination.table(Owner("L"), table, PLAN)
    opened.open(must_exist=False)
    schema = log_schema(arrow_schema(table))
    row = {"id": 1, "v": "".join(map(str, range(3000))), "_tm_kind": "+I", "_tm_seq": 1}
    with FileWriter(destination.landing.changes(table), "changes", schema, ("id", "_tm_seq")) as writer:
        writer.write(pa.Table.from_pylist([row], schema=schema))
        return opened, writer.close()


def _appended(table: KafkaTable, files: list[DataFile]) -> object:
    """As the publisher does it: brokers that cannot take something for now are asked again."""
    while True:
        try:
            return table.append(CHANGES, 1, files)
        except StoreAwayError:
            time.sleep(0.1)


def test_tables_that_are_refused_at_once_fail_each_by_themselves(tmp_path: Path) -> None:
    """By the broker; a third one is published, and what was refused is never blamed on it.

    What was sent again, because the other one's failure had ended the transaction, may be refused with the next commit.
    """
    world = World(tmp_path, kind="kafka")
    destination = taken(world, "a", 1)
    assert isinstance(destination, KafkaDestination)
    good = destination.table(Owner("L"), OLD, PLAN)
    good.open(must_exist=False)
    good.append(CHANGES, 1, world_files(world.changes(OLD, [("+I", 7, 7)])))
    refused = [_wide(name, tmp_path, destination) for name in ("wide", "wider")]
    with ThreadPoolExecutor(2) as pool:
        results = [pool.submit(_appended, table, files) for table, files in refused]
    errors = [error for one in results if (error := one.exception()) is not None]
    while len(errors) < len(refused):
        with pytest.raises(DestinationError, match="too large") as raised:
            destination.publish(EpochEnd(1, "b:1", ""))
        errors.append(raised.value)
    assert {type(error) for error in errors} == {DestinationError}
    destination.publish(EpochEnd(1, "b:1", ""))
    assert changes("kafka", tmp_path) == [("+I", 7, 7)]
    assert [table.last_epoch(CHANGES) for table in (good, *(one for one, _ in refused))] == [1, -1, -1]


def test_a_copy_that_is_refused_hides_nothing(tmp_path: Path) -> None:
    """Its transaction is aborted at once, so readers of committed messages get past it."""
    world = World(tmp_path, kind="kafka")
    destination = taken(world, "a", 1)
    assert isinstance(destination, KafkaDestination)
    good = destination.table(Owner("L"), OLD, PLAN)
    good.open(must_exist=False)
    wide, (file,) = _wide("wide", tmp_path, destination)
    landing = destination.landing
    with landing.changes(wide.table).open(file.name) as data:
        landing.chunks(wide.table).write(file.name, data.read())
    with pytest.raises(DestinationError, match="too large"):
        wide.append(CHUNKS, 1, [file])
    good.append(CHANGES, 1, world_files(world.changes(OLD, [("+I", 7, 7)])))
    destination.publish(EpochEnd(1, "b:1", ""))
    assert changes("kafka", tmp_path) == [("+I", 7, 7)]
    assert world.destination().table(Owner("L"), OLD).last_epoch(CHANGES) == 1


def test_a_copy_that_is_not_complete_deletes_no_key(tmp_path: Path) -> None:
    """A run that starts during a resnapshot applies the end of the first copy again."""
    world = World(tmp_path, kind="kafka")
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1), (2, 2)])], copied=True)
    world.epoch(changes=world.changes(OLD, [("+I", 3, 3)]), resnapshot=switch(OLD, OLD))
    world.epoch(split=WHOLE_SPLIT)
    publish_story(world, tmp_path, (3,))
    ledger, journal = Ledger(tmp_path / "ledger"), Journal(tmp_path / "j.jsonl", "s")
    publisher = Publisher(world.sink(1000.0), world.destination(), ledger, journal)
    assert ledger.state is not None
    publisher.tables.open_all(ledger.state)
    publisher.recover()
    publisher.finish()
    journal.close()
    found = kafka.messages(os.environ[BROKER], f"{tmp_path.name}.d.t")
    assert sorted(one.value["op"] for one in found) == ["c", "r", "r"]

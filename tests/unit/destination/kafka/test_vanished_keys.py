"""What a new copy no longer has, by the messages of its topic. A consumer of the tests has them in any order."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, TopicPartition

from engine.decode.schema import Column, Table
from engine.destination.kafka.epoch_transaction import KafkaMessage
from engine.destination.kafka.row_events import rows_read
from engine.destination.kafka.table_messages import TableMessages
from engine.destination.kafka.vanished_keys import VanishedKeys
from engine.spec.kafka_settings import KafkaSettings, MessageFormat


class _Registry:
    """Gives each schema a number."""

    def __init__(self) -> None:
        self._schemas: list[Any] = []

    def prefix(self, _: str, schema: Any, __: str) -> bytes:
        """As of `SchemaRegistry`."""
        if schema not in self._schemas:
            self._schemas.append(schema)
        return b"\x00" + self._schemas.index(schema).to_bytes(4, "big")

    def schema_of(self, message: bytes) -> Any:
        """As of `SchemaRegistry`."""
        return self._schemas[int.from_bytes(message[1:5], "big")]


@dataclass
class _Topic:
    """Messages by partition."""

    partitions: dict[int, list[KafkaMessage]] = field(default_factory=dict)

    def add(self, messages: Sequence[KafkaMessage], partition: int = 0) -> None:
        """Append some."""
        self.partitions.setdefault(partition, []).extend(messages)

    def consumer(self) -> "_Consumer":
        """Reads it."""
        return _Consumer(self)

    def asked(self, action: Any) -> Any:
        """As of `Clients`."""
        return action()


class _Consumer:
    def __init__(self, topic: _Topic) -> None:
        self._topic, self._left = topic, list[KafkaMessage]()

    def list_topics(self, name: str, timeout: float) -> Any:
        return SimpleNamespace(topics={name: SimpleNamespace(partitions=dict(self._topic.partitions))})

    def assign(self, places: list[TopicPartition]) -> None:
        self._left = list(self._topic.partitions[places[0].partition])

    def poll(self, _: float) -> Any:
        if not self._left:
            end = SimpleNamespace(code=lambda: KafkaError._PARTITION_EOF)
            return SimpleNamespace(error=lambda: end)
        one = self._left.pop(0)
        headers = [(k, v.encode() if isinstance(v, str) else v) for k, v in one.headers or []]
        return SimpleNamespace(
            error=lambda: None, key=lambda: one.key, value=lambda: one.value, headers=lambda: headers
        )

    def close(self) -> None:
        """Nothing."""


def _made(format_: MessageFormat, registry: Any, generation: int, key_type: str = "int", **more: Any) -> TableMessages:
    table = Table("shop", "t", (Column("id", key_type, nullable=False), Column("v", "varchar", length=9)), ("id",))
    of_registry = {} if registry is None else {"registry": {"url": "http://r:8081"}}
    fields = {"servers": "b:9092", "format": format_, **of_registry, **more}
    return TableMessages(table, KafkaSettings.model_validate(fields), "sink", "shop.t", 1, generation, registry)


def _copy(made: TableMessages, kind: pa.DataType, ids: Sequence[int]) -> list[KafkaMessage]:
    rows = pa.table({"id": pa.array(ids, kind), "v": ["a"] * len(ids)})
    return list(made.of([(made.maker, rows_read(rows, made.maker.keys(rows)))]))


@pytest.mark.parametrize("partition", [0, 1])
@pytest.mark.parametrize("format_", ["debezium-avro", "avro", "json-schema"])
def test_a_key_with_another_schema_is_the_same_key(format_: MessageFormat, partition: int) -> None:
    """Its bytes are others, and so may be its partition."""
    registry, topic = _Registry(), _Topic()
    topic.add(_copy(_made(format_, registry, 0), pa.int32(), [1, 2]))
    made = _made(format_, registry, 1, "bigint")
    topic.add(_copy(made, pa.int64(), [1]), partition)
    deletions = list(VanishedKeys(topic, made).messages())  # type: ignore[arg-type]
    assert [one.key for one in deletions] == [topic.partitions[0][1].key]
    swapped = _Topic({1 - number: messages for number, messages in topic.partitions.items()})
    assert [one.key for one in VanishedKeys(swapped, made).messages()] == [one.key for one in deletions]  # type: ignore[arg-type]


@pytest.mark.parametrize("stored", [0, 1, 2])
def test_a_deletion_whose_tombstone_is_lacking_gets_it(stored: int) -> None:
    """Messages that are sent at least once may end between the two."""
    topic = _Topic()
    more: dict[str, Any] = {"tombstones": True, "delivery": "at_least_once"}
    topic.add(_copy(_made("debezium-json", None, 0, **more), pa.int32(), [1, 2]))
    made = _made("debezium-json", None, 1, **more)
    topic.add(_copy(made, pa.int32(), [1]))
    first = list(VanishedKeys(topic, made).messages())  # type: ignore[arg-type]
    assert [one.value is None for one in first] == [False, True]
    topic.add(first[:stored])
    again = list(VanishedKeys(topic, made).messages())  # type: ignore[arg-type]
    assert [(one.key, one.value is None) for one in again] == [(one.key, one.value is None) for one in first[stored:]]


@pytest.mark.parametrize("swapped", [False, True])
def test_each_form_of_a_vanished_key_that_has_a_row_is_deleted(swapped: bool) -> None:
    """The forms are in two partitions, and nobody knows which messages came first."""
    registry = _Registry()
    before, after = (_made("avro", registry, n, kind) for n, kind in enumerate(("int", "bigint")))
    old, new = _copy(before, pa.int32(), [1, 2]), _copy(after, pa.int64(), [1, 2])
    deletion = KafkaMessage(before.topic, old[0].key, None, before.headers_of("-D"))
    topic = _Topic({int(swapped): [*old, deletion], int(not swapped): new})
    made = _made("avro", registry, 2, "bigint")
    deletions = list(VanishedKeys(topic, made).messages())  # type: ignore[arg-type]
    assert {one.key for one in deletions} == {new[0].key, old[1].key, new[1].key}
    topic.add(_copy(made, pa.int64(), [2]), int(not swapped))
    deletions = list(VanishedKeys(topic, made).messages())  # type: ignore[arg-type]
    assert [one.key for one in deletions] == [new[0].key]


@pytest.mark.parametrize("format_", ["debezium-json", "avro"])
def test_a_late_message_of_an_earlier_generation_deletes_nothing(format_: MessageFormat) -> None:
    """A runner that was replaced may still send some, at least once."""
    registry = _Registry() if format_ == "avro" else None
    topic, made = _Topic(), _made(format_, registry, 1)
    topic.add([*_copy(made, pa.int32(), [1]), *_copy(_made(format_, registry, 0), pa.int32(), [1, 2])])
    assert [one.key for one in VanishedKeys(topic, made).messages()] == [topic.partitions[0][-1].key]  # type: ignore[arg-type]

"""Reads topics as a plain consumer of committed messages does."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.support.patience import PATIENCE_S


@dataclass(frozen=True)
class Read:
    """One message."""

    key: str | None
    value: Any
    """Parsed; None without a value."""
    headers: dict[str, str]
    partition: int
    offset: int


def messages(
    servers: str, topic: str, *, isolation: str = "read_committed", parse: Callable[[bytes], Any] = json.loads
) -> list[Read]:
    """All messages of a topic, by partition, in order; none if it is not there. parse: of values."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "tests",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    try:
        numbers = sorted(consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
        found, ended = list[Read](), set[int]()
        while len(ended) < len(numbers):
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"{topic} was not read to its end"
            fault, number, offset = message.error(), message.partition(), message.offset()
            assert number is not None
            assert offset is not None
            if fault is not None:
                assert fault.code() == KafkaError._PARTITION_EOF, fault
                ended.add(number)
                continue
            value, key = message.value(), message.key()
            pairs: Any = message.headers() or []
            headers = {name: content.decode() for name, content in pairs}
            parsed = None if value is None else parse(value)
            found.append(
                Read(None if key is None else key.decode(errors="backslashreplace"), parsed, headers, number, offset)
            )
        return found
    finally:
        consumer.close()


def newest_generation(found: list[Read]) -> list[Read]:
    """The messages of a table's newest generation."""
    newest = max((int(one.headers["generation"]) for one in found), default=0)
    return [one for one in found if int(one.headers["generation"]) == newest]


def replayed(found: list[Read], key: str = "id") -> dict[Any, dict[str, Any]]:
    """The table as messages in Debezium's format leave it, by key."""
    rows = dict[Any, dict[str, Any]]()
    for one in found:
        if one.value["op"] == "d":
            rows.pop(one.value["before"][key], None)
        else:
            rows[one.value["after"][key]] = one.value["after"]
    return rows

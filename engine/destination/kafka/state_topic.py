"""Which epochs the topics have, and which runner may write: a compacted topic of the pipeline.

Its name is `_tidemark.<ledger>`, and it has one partition. A record is JSON under a key:

    term                              the newest term of a runner (`destination.fence.Term`)
    <application> chunks <table>      `sent_records.SentChunks`
    <application> changes <table>     `sent_records.SentChanges`
    topic <table>                     `sent_records.UsedTopic`

The application names the count of epochs (`ledger.state.Owner`). A record is written in the transaction of the messages
that it tells of. Only the last one of a key is kept, so the topic is small however long a pipeline runs.
"""

import json
import threading
from collections.abc import Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from engine.base import clock
from engine.base.store_errors import StoreAwayError
from engine.destination.kafka.client import ANSWER_S, Clients
from engine.destination.kafka.topics import Topics

_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "segment.ms": str(24 * 3600 * 1000),
    "min.cleanable.dirty.ratio": "0.2",
    "delete.retention.ms": str(24 * 3600 * 1000),
}
StateRecord = Mapping[str, Any]


class StateTopic:
    """The records of one ledger. May be used by several threads.

    The runner that holds the term writes all of them, and notes here what it has committed: the topic is read once, and
    again where somebody else may have written.
    """

    def __init__(self, clients: Clients, topics: Topics, ledger: str) -> None:
        self.name = f"_tidemark.{ledger}"
        self._clients = clients
        self._topics = topics
        self._records: dict[str, StateRecord] = {}
        self._consumer: Consumer | None = None
        self._is_read = False
        self._read_s = 0.0
        self._is_at_end = False
        self._next = 0
        self._lock = threading.Lock()

    def create(self) -> None:
        """Create it if it is not there."""
        if self.name not in self._topics.all():
            self._topics.create(self.name, 1, self._clients.settings.replication, _SETTINGS)

    def record(self, key: str) -> StateRecord | None:
        """A record as it was read or noted last."""
        if not self._is_read:
            self.read()
        return self._records.get(key)

    def records(self) -> dict[str, StateRecord]:
        """All records as they were read or noted last."""
        if not self._is_read:
            self.read()
        with self._lock:
            return dict(self._records)

    def note(self, records: Mapping[str, StateRecord | None]) -> None:
        """Take records that this runner has committed."""
        with self._lock:
            for key, record in records.items():
                self._keep(key, record)

    def read(self, max_age_s: float = 0.0) -> dict[str, StateRecord]:
        """All committed records, by key; none if the topic is not there. Raises StoreAwayError, StoreAccessError.

        max_age_s: how old the last reading may be: who asks for a thousand tables need not read a thousand times.
        """
        with self._lock:
            if self._is_read and clock.monotonic_s() - self._read_s < max_age_s:
                return dict(self._records)
            if self._consumer is None:
                if self.name not in self._topics.all(newest=True):
                    return {}
                self._consumer = self._clients.consumer()
                self._consumer.assign([TopicPartition(self.name, 0, self._next or OFFSET_BEGINNING)])
            try:
                self._read_to_end(self._consumer)
            except BaseException:  # what it has fetched may be old: the next read begins with another one
                self._consumer.close()
                self._consumer = None
                self._is_at_end = False
                raise
            self._is_read = True
            self._read_s = clock.monotonic_s()
            return dict(self._records)

    def _read_to_end(self, consumer: Consumer) -> None:
        deadline_s = clock.monotonic_s() + ANSWER_S
        at_end = self._is_at_end
        self._is_at_end = False
        if at_end:  # librdkafka reports the end of a partition once, so seek to get it again
            consumer.seek(TopicPartition(self.name, 0, self._next))
        while not self._is_at_end:
            try:
                message = consumer.poll(1.0)
            except KafkaException as error:
                raise self._clients.explained(error.args[0]) from error
            if message is None:
                if clock.monotonic_s() > deadline_s:
                    raise StoreAwayError(f"The store does not answer: Kafka at {self._clients.settings.servers}")
                continue
            fault = message.error()
            if fault is not None and fault.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                self._is_at_end = True
            elif fault is not None:
                raise self._clients.explained(fault)
            else:
                self._take(message)
                deadline_s = clock.monotonic_s() + ANSWER_S

    def _take(self, message: Any) -> None:
        value = message.value()
        self._next = message.offset() + 1
        self._keep(message.key().decode(), None if value is None else json.loads(value))

    def _keep(self, key: str, record: StateRecord | None) -> None:
        if record is None:
            self._records.pop(key, None)
        else:
            self._records[key] = record

    def forget(self) -> None:
        """Read everything again: another runner may have written, or the topic may be another one."""
        with self._lock:
            consumer = self._consumer
            self._consumer = None
            self._records = {}
            self._is_read = False
            self._is_at_end = False
            self._next = 0
        if consumer is not None:
            consumer.close()


def encoded(record: StateRecord | None) -> bytes | None:
    """A record as it is sent; None deletes."""
    return None if record is None else json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()

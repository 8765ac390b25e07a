"""Deletions for the keys that a new copy of a table no longer has: read back from the table's own topic.

The topic has the keys of earlier generations, and by then all rows of the new one. What is left is kept on disk while
it is read, one partition after the other, so memory does not grow with the table.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, TopicPartition

from engine.base import clock
from engine.base.store_errors import StoreAwayError
from engine.destination.kafka.client import ANSWER_S, Clients
from engine.destination.kafka.epoch_transaction import KafkaMessage
from engine.destination.kafka.registered_messages import envelope_deletion
from engine.destination.kafka.table_messages import TableMessages
from engine.spec.kafka_settings import ROW_FORMATS

_BATCH = 10_000


class _MessageFacts(NamedTuple):
    """The headers of a message."""

    table: bytes = b""
    kind: bytes = b""
    generation: bytes = b""

    @staticmethod
    def of(message: Any) -> "_MessageFacts":
        """Those of a message that another program has sent may be missing."""
        own = {name: value for name, value in message.headers() or () if name in _MessageFacts._fields}
        return _MessageFacts(**own)


@dataclass(frozen=True)
class _Envelope:
    """Debezium's."""

    before: Any
    after: Any
    source: dict[str, Any]
    op: str
    ts_ms: int
    transaction: Any


@dataclass(frozen=True, eq=False)
class VanishedKeys:
    """The deletions of one copy. made: of its last epoch and generation."""

    clients: Clients
    made: TableMessages

    @property
    def topic(self) -> str:
        """That of the table."""
        return self.made.topic

    def messages(self) -> Iterator[KafkaMessage]:
        """A deletion for each key that the copy lacks, and a tombstone if the spec wants them."""
        now_ms, settings = int(clock.unix_s() * 1000), self.made.settings
        headers = self.made.headers_of("-D")
        with closing(self.clients.consumer()) as consumer:
            answer = self.clients.asked(lambda: consumer.list_topics(self.topic, timeout=ANSWER_S))
            for number in answer.topics[self.topic].partitions:
                consumer.assign([TopicPartition(self.topic, number, 0)])
                for key, value in self._left(consumer):
                    deletion = deletion_of(self.made, value, now_ms)
                    yield KafkaMessage(self.topic, key, deletion, headers)
                    if settings.tombstones and deletion is not None:
                        yield KafkaMessage(self.topic, key, None, headers)

    def _left(self, consumer: Any) -> Iterator[tuple[bytes, bytes]]:
        """The keys of a partition that have no message of the new generation and are not deleted, with their rows."""
        with TemporaryDirectory(prefix="tidemark-keys-") as folder, closing(_database(Path(folder))) as database:
            batch = dict[bytes, bytes | None]()
            for key, value in self._states(consumer):
                batch[key] = value
                if len(batch) >= _BATCH:
                    _store(database, batch)
                    batch.clear()
            _store(database, batch)
            yield from database.execute("SELECT key, value FROM left_over")

    def _states(self, consumer: Any) -> Iterator[tuple[bytes, bytes | None]]:
        """For each message its key and row; None if the key is deleted, or the new copy has it."""
        table, newest = self.made.table.full_name.encode(), str(self.made.generation).encode()
        deadline_s = clock.monotonic_s() + ANSWER_S
        while True:
            message = consumer.poll(1.0)
            if message is None:
                if clock.monotonic_s() > deadline_s:
                    raise StoreAwayError(f"The store does not answer: Kafka at {self.clients.settings.servers}")
                continue
            deadline_s = clock.monotonic_s() + ANSWER_S
            if (fault := message.error()) is not None:
                if fault.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    return
                raise self.clients.explained(fault)
            facts = _MessageFacts.of(message)
            if facts.table == table and message.key() is not None and facts.kind != b"-U":
                is_gone = facts.kind == b"-D" or facts.generation == newest
                yield message.key(), None if is_gone else message.value()


def deletion_of(made: TableMessages, value: bytes, now_ms: int) -> bytes | None:
    """The message that deletes the row of another message. now_ms: milliseconds since 1970."""
    format_ = made.settings.format
    if format_ in ROW_FORMATS:
        return None
    if made.registry is not None:
        return envelope_deletion(made.registry, value, now_ms)
    row = json.loads(value)
    match format_:
        case "debezium-json":
            envelope = _Envelope(**row)
            source = envelope.source | {"snapshot": "false"}
            return _json(vars(_Envelope(envelope.after, None, source, "d", now_ms, None)))
        case "changelog-json":
            return _json(row | {"op": "-D"})
        case "canal-json":
            return _json(row | {"type": "DELETE", "old": None, "es": now_ms, "ts": now_ms})
        case _:
            row.pop("old", None)
            return _json(row | {"type": "delete", "ts": now_ms // 1000})


def _json(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()


def _database(folder: Path) -> sqlite3.Connection:
    database = sqlite3.connect(folder / "keys", isolation_level=None)
    database.execute("PRAGMA journal_mode = OFF")
    database.execute("PRAGMA synchronous = OFF")
    database.execute("CREATE TABLE left_over (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
    return database


def _store(database: sqlite3.Connection, batch: dict[bytes, bytes | None]) -> None:
    database.execute("BEGIN")
    there = [(key, value) for key, value in batch.items() if value is not None]
    database.executemany("INSERT OR REPLACE INTO left_over VALUES (?, ?)", there)
    database.executemany(
        "DELETE FROM left_over WHERE key = ?", [(key,) for key, value in batch.items() if value is None]
    )
    database.execute("COMMIT")

"""Deletions for the keys that a new copy of a table no longer has: read back from the table's own topic.

The topic has the keys of earlier generations, and by then all rows of the new one. What is left is kept on disk while
it is read, one partition after the other, so memory does not grow with the table.

With a registry, a key has other bytes under another schema, and these may be in another partition. Nothing tells which
of two partitions' messages came first. So keys are compared by their bytes; equal ones are in one partition, in order.
A key that the new generation has is not deleted in any form: a deletion could reach a consumer after the row. One that
it lacks is deleted in each form that has a row.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
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
from engine.destination.kafka.schema_registry import PREFIX_BYTES
from engine.destination.kafka.table_messages import TableMessages
from engine.spec.kafka_settings import ROW_FORMATS

_BATCH = 10_000
_LEFT = """
SELECT key, value FROM keys AS one WHERE (value IS NOT NULL OR lacks_tombstone)
AND NOT EXISTS (SELECT 1 FROM keys AS other WHERE other.identity = one.identity AND other.is_there)"""


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


class _KeyState(NamedTuple):
    """What a message says of its key."""

    key: bytes
    identity: bytes
    """The key without the number of its schema."""
    value: bytes | None
    """The row of an earlier generation; None if it is deleted, or the newest generation has the key."""
    is_new: bool
    """Whether it is of the newest generation."""
    is_there: bool
    """Whether the newest generation has the key."""
    lacks_tombstone: bool
    """Whether it deletes the key, and a message without a value must follow."""


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
            numbers = list(answer.topics[self.topic].partitions)
            groups = [[number] for number in numbers] if self.made.registry is None else [numbers]
            for group in groups:
                for key, value in self._left(consumer, group):
                    deletion = None if value is None else deletion_of(self.made, value, now_ms)
                    if value is not None:
                        yield KafkaMessage(self.topic, key, deletion, headers)
                    if value is None or (settings.tombstones and deletion is not None):
                        yield KafkaMessage(self.topic, key, None, headers)

    def _left(self, consumer: Any, partitions: Sequence[int]) -> Iterator[tuple[bytes, bytes | None]]:
        """The keys that have no message of the new generation and are not deleted, with their rows.

        Without a row: a key whose deletion is there, and its tombstone is not.
        """
        with TemporaryDirectory(prefix="tidemark-keys-") as folder, closing(_database(Path(folder))) as database:
            batch = list[_KeyState]()
            for number in partitions:
                consumer.assign([TopicPartition(self.topic, number, 0)])
                for one in self._states(consumer):
                    batch.append(one)
                    if len(batch) >= _BATCH:
                        _store(database, batch)
                        batch.clear()
            _store(database, batch)
            database.execute("CREATE INDEX there ON keys (identity) WHERE is_there")
            yield from database.execute(_LEFT)

    def _states(self, consumer: Any) -> Iterator[_KeyState]:
        """What each message says of its key."""
        table, newest = self.made.table.full_name.encode(), str(self.made.generation).encode()
        begin = 0 if self.made.registry is None else PREFIX_BYTES
        tombstones = self.made.settings.tombstones and self.made.settings.format not in ROW_FORMATS
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
            facts, key, value = _MessageFacts.of(message), message.key(), message.value()
            if facts.table == table and key is not None and facts.kind != b"-U":
                is_new, is_deleted = facts.generation == newest, facts.kind == b"-D"
                row = None if is_new or is_deleted else value
                lacks_tombstone = is_deleted and tombstones and value is not None
                yield _KeyState(key, key[begin:], row, is_new, is_new and not is_deleted, lacks_tombstone)


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
    database.execute(
        "CREATE TABLE keys (key BLOB PRIMARY KEY, identity BLOB, value BLOB, is_new INT, is_there INT, "
        "lacks_tombstone INT) WITHOUT ROWID"
    )
    return database


def _store(database: sqlite3.Connection, batch: Sequence[_KeyState]) -> None:
    """Take what messages say, in order. An earlier generation says nothing of a key that the newest one has."""
    database.execute("BEGIN")
    database.executemany(
        "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, "
        "is_new = excluded.is_new, is_there = excluded.is_there, lacks_tombstone = excluded.lacks_tombstone "
        "WHERE excluded.is_new OR NOT keys.is_new",
        batch,
    )
    database.execute("COMMIT")

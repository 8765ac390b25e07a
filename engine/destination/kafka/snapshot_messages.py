"""The rows of chunks, in transactions of bounded size, with how far they are.

A copy may be larger than any transaction may last. Each one has the number of rows that the topic has of the files of
an epoch, so that a killed runner continues there. The files are named with it: of others, nothing was sent.
"""

import threading
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Protocol

from engine.destination.kafka.epoch_transaction import Message, TransactionalProducer
from engine.destination.kafka.sent_records import SentChunks
from engine.destination.kafka.state_topic import Record, StateTopic, encoded

_MESSAGES = 200_000
"""Of one transaction."""


class Rows(Protocol):
    """The rows of an epoch's chunks of one table."""

    @property
    def identity(self) -> str: ...
    def messages(self, after: int) -> Iterator[Message]: ...


class SnapshotMessages:
    """May be used by several threads: one sends at a time."""

    def __init__(self, producer: TransactionalProducer, state: StateTopic) -> None:
        self._producer = producer
        self._state = state
        self._is_doubtful = True
        """Whether the topic may have another state than was noted: a commit's outcome is not known."""
        self._lock = threading.Lock()

    def send(self, key: str, epoch: int, rows: Rows) -> int:
        """Send rows, durably; key: of their record in the state topic. Returns how many were sent now."""
        with self._lock:
            self._producer.begin()  # whatever became of an earlier transaction, it has ended before the state is read
            before = SentChunks.from_json(self._known(key))
            done = before.rows_of(epoch, rows.identity)
            messages, sent = rows.messages(done), 0
            while True:
                count = self._producer.send(islice(messages, _MESSAGES))
                sent += count
                if count < _MESSAGES:
                    self._commit({key: SentChunks(epoch).to_json()})
                    return sent
                part = SentChunks(before.epoch, epoch, rows.identity, done + sent)
                self._commit({key: part.to_json()})
                self._producer.begin()

    def write(self, records: Mapping[str, Any]) -> None:
        """Write records of the state, durably; None deletes one."""
        with self._lock:
            self._producer.begin()
            self._commit(records)

    def _known(self, key: str) -> Record | None:
        if self._is_doubtful:
            self._state.read()
            self._is_doubtful = False
        return self._state.record(key)

    def _commit(self, records: Mapping[str, Any]) -> None:
        self._producer.send(Message(self._state.name, key.encode(), encoded(one)) for key, one in records.items())
        self._producer.flush()
        self._producer.raise_fault()
        self._is_doubtful = True
        self._producer.commit()
        self._state.note(records)
        self._is_doubtful = False

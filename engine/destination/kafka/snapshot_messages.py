"""The rows of chunks, in transactions of bounded size, with how far they are.

A copy may be larger than any transaction may last. Each one has the number of rows that the topic has of each file, so
that a killed runner continues there, also if it gets the files of more epochs at once. After an error, the transaction
is aborted at once: an open one would hide later messages of the topic, and of the state, from readers.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Protocol

from engine.capture.files import DataFile
from engine.destination.kafka.epoch_transaction import KafkaMessage, TransactionalProducer
from engine.destination.kafka.sent_records import SentChunks
from engine.destination.kafka.state_topic import StateRecord, StateTopic, encoded

_MESSAGES = 200_000
"""Of one transaction."""


class CopiedRows(Protocol):
    """The rows of an epoch's chunks of one table."""

    @property
    def files(self) -> Sequence[DataFile]: ...
    def messages(self, file: DataFile, after: int) -> Iterator[KafkaMessage]: ...


class SnapshotMessages:
    """May be used by several threads: one sends at a time."""

    def __init__(self, producer: TransactionalProducer, state: StateTopic) -> None:
        self._producer = producer
        self._state = state
        self._is_doubtful = True
        """Whether the topic may have another state than was noted: a commit's outcome is not known."""
        self._lock = threading.Lock()

    def send(self, key: str, epoch: int, rows: CopiedRows) -> int:
        """Send rows, durably; key: of their record in the state topic. Returns how many were sent now."""
        with self._lock, self._aborting():
            self._producer.begin()  # whatever became of an earlier transaction, it has ended before the state is read
            before = SentChunks.from_json(self._known(key))
            done, sent, in_transaction = dict(before.files), 0, 0
            for file in rows.files:
                messages = rows.messages(file, done.get(file.name, 0))
                while count := self._producer.send(islice(messages, _MESSAGES - in_transaction)):
                    done[file.name] = done.get(file.name, 0) + count
                    sent += count
                    in_transaction += count
                    if in_transaction >= _MESSAGES:
                        self._commit({key: SentChunks(before.epoch, done).to_json()})
                        self._producer.begin()
                        in_transaction = 0
            self._commit({key: SentChunks(epoch).to_json()})
            return sent

    def write(self, records: Mapping[str, Any]) -> None:
        """Write records of the state, durably; None deletes one."""
        with self._lock, self._aborting():
            self._producer.begin()
            self._commit(records)

    def settle(self) -> None:
        """End whatever is open, so that nothing of it hides what others have committed."""
        with self._lock, self._aborting():
            self._producer.begin()
            self._producer.abort()

    @contextmanager
    def _aborting(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._producer.abort()
            raise

    def _known(self, key: str) -> StateRecord | None:
        if self._is_doubtful:
            self._state.read()
            self._is_doubtful = False
        return self._state.record(key)

    def _commit(self, records: Mapping[str, Any]) -> None:
        self._producer.send(KafkaMessage(self._state.name, key.encode(), encoded(one)) for key, one in records.items())
        self._producer.flush()
        self._producer.raise_fault()
        self._is_doubtful = True
        self._producer.commit()
        self._state.note(records)
        self._is_doubtful = False

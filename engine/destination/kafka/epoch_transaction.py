"""The messages of all tables since the last `publish`, in one transaction of Kafka.

`add` sends the messages of a part at once: they stay in the open transaction, which readers do not see. If anything
goes wrong, the transaction is aborted, and the parts that were complete are sent again in the next one: their files are
there until the epoch is published.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer

from engine.base import clock
from engine.base.errors import DestinationError, PipelineHeldError
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.destination.kafka.client import ANSWER_S, OF_MESSAGES, Clients, FencedError
from engine.destination.kafka.state_topic import StateTopic, encoded

_PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)  # noqa: SLF001
"""Messages of a transaction that was aborted."""
_STALL_S = 30.0
"""So long may the queue of a producer be full before the brokers count as away."""


@dataclass(frozen=True)
class KafkaMessage:
    """One message."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]] | None = None


class MessagePart(Protocol):
    """What one table gets: its messages, made again each time."""

    @property
    def topic(self) -> str: ...
    def messages(self) -> Iterable[KafkaMessage]: ...


class TransactionalProducer:
    """A producer with a transactional identifier, which is made again after fatal errors. Not thread-safe.

    check_term: raises PipelineHeldError if a later runner has taken over.
    """

    def __init__(self, clients: Clients, identity: str, check_term: Callable[[], object]) -> None:
        self._clients = clients
        self._identity = identity
        self._check_term = check_term
        self._producer: Producer | None = None
        self._faults: list[tuple[Any, KafkaError]] = []
        self.is_open = False
        """Whether a transaction is open."""

    @property
    def servers(self) -> str:
        """The brokers, for messages."""
        return self._clients.settings.servers

    def fence(self) -> None:
        """End what earlier producers of this identity have open; they can commit nothing more."""
        self._producer = None
        self.is_open = False
        with self._explaining():
            self._initialised()

    def begin(self) -> None:
        """Begin a transaction; an open one is aborted first."""
        if self.is_open:
            self.abort()
        with self._explaining():
            self._ready().begin_transaction()
        self._faults.clear()
        self.is_open = True

    def _ready(self) -> Producer:
        if self._producer is not None:
            return self._producer
        self._check_term()  # a runner that was taken over must not fence the later one
        producer = self._initialised()
        self._check_term()  # it may have been taken over meanwhile, and then nothing is sent
        return producer

    def _initialised(self) -> Producer:
        producer = self._clients.producer(self._identity, self._delivered)
        producer.init_transactions(ANSWER_S)
        self._producer = producer
        self._clients.fatal = None
        return producer

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._faults.append((message, error))

    def send(self, messages: Iterable[KafkaMessage]) -> int:
        """Send messages in the open transaction. Returns how many. Waits while the queue is full."""
        count = 0
        with self._explaining():
            for one in messages:
                producer = self._producer_of(one.topic)
                while True:
                    try:
                        producer.produce(one.topic, one.value, one.key, headers=one.headers)
                        break
                    except BufferError:
                        _wait_for_room(producer, self.servers)
                count += 1
                if not count & 1023:
                    producer.poll(0)
                    self.raise_fault(one.topic)
        return count

    def _producer_of(self, topic: str) -> Producer:
        """The one that sends the messages of a topic."""
        assert self._producer is not None
        return self._producer

    def flush(self) -> None:
        """Wait until the messages of all threads are stored, or refused. May be called by any thread."""
        for producer in self._producers():
            with self._explaining():
                waiting = producer.flush(_STALL_S)
            if waiting:
                raise StoreAwayError(f"The store does not answer: Kafka at {self.servers} takes no messages.")

    def _producers(self) -> list[Producer]:
        return [] if self._producer is None else [self._producer]

    def raise_fault(self, topic: str | None = None) -> None:
        """Raise what the first refusal of a topic's message means. topic: None for any."""
        for message, error in list(self._faults):
            if topic in (None, message.topic()) and error.code() not in _PURGED:
                raise self._failed(error)

    @property
    def has_failures(self) -> bool:
        """Whether messages of the open transaction failed, other than those that were taken as refused."""
        return any(error.code() not in _PURGED for _, error in list(self._faults))

    def take_refusals(self) -> dict[str, Exception]:
        """By topic, the errors of messages that the brokers rejected for good. Each is returned once."""
        refusals = dict[str, Exception]()
        for fault in list(self._faults):
            if fault[1].code() in OF_MESSAGES:
                self._faults.remove(fault)  # in place: another thread may add some meanwhile
                refusals[fault[0].topic()] = self._clients.explained(fault[1])
        return refusals

    def commit(self) -> None:
        """Commit the open transaction. After an error, it may have been committed or not."""
        assert self._producer is not None
        with self._explaining():
            self._producer.commit_transaction(ANSWER_S)
        self.is_open = False

    def abort(self) -> None:
        """Abort the open transaction. A producer that cannot is given up: the next one's begin aborts it."""
        producer, self.is_open = self._producer, False
        if producer is None:
            return
        try:
            producer.purge()
            producer.abort_transaction(ANSWER_S)
        except KafkaException:
            self._producer = None

    def close(self) -> None:
        """Abort what is open."""
        if self.is_open:
            self.abort()
        self._producer = None

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise self._failed(error.args[0]) from error
        except SystemError as error:  # the client met a fatal error, called back, and lost its own exception meanwhile
            fatal = self._clients.fatal
            if isinstance(error.__cause__, KafkaException):
                fatal = error.__cause__.args[0]
            if fatal is not None:
                raise self._failed(fatal) from error
            self._producer = None
            self.is_open = False
            self._check_term()  # it may have been taken over, which is the usual reason
            raise StoreAwayError(f"The store does not answer: Kafka at {self.servers} has failed: {error}.") from error

    def _failed(self, error: KafkaError) -> Exception:
        """The error for the pipeline. A fenced producer ends the run only if a later runner has taken over."""
        ours = self._clients.explained(error)
        if error.fatal() or isinstance(ours, FencedError):
            self._producer = None
            self.is_open = False
        if not isinstance(ours, FencedError):
            return ours
        try:
            self._check_term()
        except (PipelineHeldError, StoreAwayError, StoreAccessError) as takeover:
            return takeover
        return StoreAwayError(
            f"The store does not answer: Kafka at {self.servers} has ended the transaction: {error.str()}."
        )


def _wait_for_room(producer: Producer, servers: str) -> None:
    waiting, deadline_s = len(producer), clock.monotonic_s() + _STALL_S
    while waiting and len(producer) >= waiting:
        producer.poll(0.1)
        if clock.monotonic_s() > deadline_s:
            raise StoreAwayError(f"The store does not answer: Kafka at {servers} takes no more messages.")


@dataclass(frozen=True, eq=False)
class _Added:
    """What one table added: records of the state, and the part with the messages that they tell of."""

    records: Mapping[str, Any]
    part: MessagePart


class EpochTransaction:
    """The open transaction of a runner, with the records of the state that it writes. For several threads."""

    def __init__(self, producer: TransactionalProducer, state: StateTopic, settle: Callable[[], None]) -> None:
        """settle: ends what the other producer has open, which would hide the newest records of the state topic."""
        self._producer = producer
        self._state = state
        self._settle = settle
        self._added: list[_Added] = []
        self._doubtful: Mapping[str, Any] | None = None
        """The records of a commit whose outcome is not known."""
        self._number = 0
        """Counts the transactions."""
        self._refused: dict[str, Exception] = {}
        """By topic, the error of a rejected part. It is raised by the next `add` for that topic, or by `publish`."""
        self._lock = threading.RLock()

    def record(self, key: str) -> Mapping[str, Any] | None:
        """A record as the next commit leaves it, or as the state topic has it."""
        with self._lock:
            for one in reversed(self._added):
                if key in one.records:
                    record: Mapping[str, Any] = one.records[key]
                    return record
        return self._state.record(key)

    def has(self, keys: Collection[str]) -> bool:
        """Whether it has something with records of these keys."""
        with self._lock:
            return any(not one.records.keys().isdisjoint(keys) for one in self._added)

    def add(self, part: MessagePart, records: Mapping[str, Any]) -> int:
        """Send a part's messages; they are durable, with their records, once `commit` returns. Returns how many."""
        added = _Added(records, part)
        with self._lock:
            self._raise_refusal(part.topic)
            self._ensure_open()
            try:
                count = self._producer.send(part.messages())
            except BaseException:
                self._producer.abort()
                raise
            self._added.append(added)
            number = self._number
        try:
            self._producer.flush()  # the threads of several tables wait at the same time
            with self._lock:
                self._refused |= self._producer.take_refusals()
                if self._producer.has_failures:
                    self._producer.abort()  # another table's refusal has, and nothing is known of this part
                if number != self._number or not self._producer.is_open:
                    self._ensure_open()  # another table's failure has ended the transaction: is this part refused, too?
                self._raise_refusal(part.topic)
        except BaseException:
            self._take_back(added)
            raise
        return count

    def _raise_refusal(self, topic: str) -> None:
        if (error := self._refused.pop(topic, None)) is not None:
            raise error

    def _take_back(self, added: _Added) -> None:
        """Leave out a part that failed: its table stops, or adds it again."""
        with self._lock:
            self._added = [one for one in self._added if one is not added]
            if self._producer.is_open and self._doubtful is None:
                self._producer.abort()

    def leave_out(self, keys: Collection[str]) -> None:
        """Send nothing more of a table that is dropped. keys: of its records."""
        with self._lock:
            dropped = [one for one in self._added if not one.records.keys().isdisjoint(keys)]
            if dropped:
                self._added = [one for one in self._added if one not in dropped]
                if self._producer.is_open and self._doubtful is None:
                    self._producer.abort()

    def commit(self) -> None:
        """Commit what was added. Does nothing without."""
        with self._lock:
            if self._doubtful is not None:
                self._ensure_open()  # it may have been committed
            if not self._added:
                return
            records = self._sent_records()
            while records is None:
                records = self._sent_records()
            self._doubtful = records
            self._producer.commit()
            self._is_committed(records)

    def raise_rejected(self) -> None:
        """Raise the error of a part that was accepted, and rejected when it was sent again. Called after a commit."""
        with self._lock:
            for topic in list(self._refused):
                self._raise_refusal(topic)

    def _sent_records(self) -> dict[str, Any] | None:
        """The records of all parts, sent behind them. None if a part was refused: it is left out from now on."""
        self._ensure_open()
        records = {key: one for added in self._added for key, one in added.records.items()}
        try:
            self._producer.send(
                KafkaMessage(self._state.name, key.encode(), encoded(one)) for key, one in records.items()
            )
            self._producer.flush()
            self._refused |= self._producer.take_refusals()
            self._producer.raise_fault()
        except BaseException:
            self._producer.abort()
            raise
        if any(one.part.topic in self._refused for one in self._added):
            self._producer.abort()
            return None
        return records

    def _is_committed(self, records: Mapping[str, Any]) -> None:
        self._doubtful = None
        self._added.clear()
        self._state.note(records)

    def _ensure_open(self) -> None:
        """Have a transaction with the messages of all parts."""
        if self._producer.is_open and self._doubtful is None:
            return
        self._refused |= self._producer.take_refusals()
        self._number += 1
        self._producer.begin()  # ends the one before, whatever became of it
        if self._doubtful is not None:
            self._settle()
            now = self._state.read()
            if all(now.get(key) == one for key, one in self._doubtful.items()):
                self._is_committed(self._doubtful)
            self._doubtful = None
        while not self._is_sent_again():
            self._producer.begin()

    def _is_sent_again(self) -> bool:
        """Send what was added in the new transaction. False if a part was refused, and is left out from now on."""
        self._added = [one for one in self._added if one.part.topic not in self._refused]
        part: MessagePart | None = None
        try:
            for one in self._added:
                part = one.part
                self._producer.send(part.messages())
            part = None
            self._producer.flush()
            self._producer.raise_fault()
        except BaseException as error:
            self._producer.abort()
            if isinstance(error, DestinationError) and part is not None:
                self._refused[part.topic] = error
            self._refused |= self._producer.take_refusals()
            if all(one.part.topic not in self._refused for one in self._added):
                raise
            return False
        return True

    def forget(self) -> None:
        """Give up what was not committed."""
        with self._lock:
            self._added.clear()
            self._refused.clear()
            self._doubtful = None
            self._producer.close()

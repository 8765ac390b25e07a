"""Clients of librdkafka, and what their errors mean."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from engine.base.errors import DestinationError
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.spec.kafka_settings import KafkaSettings

ANSWER_S = 15.0
"""How long a broker has for an answer; then it counts as away."""
_QUEUE_KIB = 64 << 10
_LOGGER = logging.getLogger("tidemark.kafka")
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.propagate = False  # what it logs comes as an error, too
_QUIET: dict[str, Any] = {"log_level": 0, "logger": _LOGGER}
_FENCED = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}  # noqa: SLF001
_REFUSED = {
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,  # noqa: SLF001
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
}
_AWAY = {
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
    KafkaError._RESOLVE,  # noqa: SLF001
    KafkaError._SSL,  # noqa: SLF001
    KafkaError._PURGE_QUEUE,  # noqa: SLF001
    KafkaError._PURGE_INFLIGHT,  # noqa: SLF001
    KafkaError._STATE,  # noqa: SLF001
    KafkaError._INCONSISTENT,  # noqa: SLF001
    KafkaError._FATAL,  # noqa: SLF001
    KafkaError.INVALID_TXN_STATE,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
    KafkaError.UNKNOWN_PRODUCER_ID,
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.CONCURRENT_TRANSACTIONS,
}
GONE = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
}
_TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}
OF_MESSAGES = {*GONE, *_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.POLICY_VIOLATION, KafkaError.TOPIC_EXCEPTION}
"""Errors of one message or its topic: it is refused again, however often it is sent."""
T = TypeVar("T")


class FencedError(Exception):
    """Another producer has this one's transactional identifier now."""


class Clients:
    """Makes the clients of one destination. Raises SpecError if a secret is missing."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self._cause: KafkaError | None = None
        """The last error of a connection that says more than that nobody answers: of TLS, or of a login."""
        self.fatal: KafkaError | None = None
        """The last error that a producer cannot survive."""

    def _common(self) -> dict[str, Any]:
        return {**self.settings.client(), **_QUIET, "error_cb": self._met}

    def _met(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal = error
        if error.code() in _REFUSED or error.code() == KafkaError._SSL:  # noqa: SLF001
            self._cause = error

    def asked(self, action: Callable[[], T], client: AdminClient | Consumer | Producer | None = None) -> T:
        """What a client answers. Raises what `explained` returns."""
        self._cause = None
        try:
            return action()
        except KafkaException as error:
            if client is not None and not isinstance(client, Consumer):
                client.poll(0)  # calls back with what became of its connections
            raise self.explained(error.args[0]) from error

    def explained(self, error: KafkaError) -> Exception:
        """What an error means for the pipeline."""
        cause = self._cause if self._cause is not None and error.code() in _AWAY else error
        return explained(cause, self.settings.servers)

    def producer(self, identity: str, on_delivery: Callable[[KafkaError | None, Any], None]) -> Producer:
        """A producer.

        identity: of its transactions; "" for one without. on_delivery: called for each message that was not stored. It
        holds at most 64 MiB of messages: what is produced beyond waits. Equal keys get the partitions that Kafka's
        own clients give them.
        """
        settings = self.settings
        timeout = {"transaction.timeout.ms": settings.transaction_timeout_s * 1000}
        return Producer(
            {
                **self._common(),
                **({"transactional.id": identity, **timeout} if identity else {"enable.idempotence": True}),
                "message.timeout.ms": settings.transaction_timeout_s * 1000,
                "compression.type": settings.compression,
                "message.max.bytes": settings.max_message_bytes + (16 << 10),
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "batch.size": 1 << 20,
                "queue.buffering.max.kbytes": max(_QUEUE_KIB, settings.max_message_bytes >> 8),
                "queue.buffering.max.messages": 500_000,
                "delivery.report.only.error": True,
                "on_delivery": on_delivery,
            }
        )

    def consumer(self) -> Consumer:
        """A consumer of committed messages, which belongs to no group."""
        return Consumer(
            {
                **self._common(),
                "group.id": "tidemark",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
            }
        )

    def admin(self) -> AdminClient:
        """A client that creates topics."""
        return AdminClient(self._common())


def explained(error: KafkaError, servers: str) -> Exception:
    """What an error of a client means for the pipeline."""
    code, text = error.code(), error.str()
    if code in _FENCED:
        return FencedError(text)
    if code in _REFUSED:
        return StoreAccessError(f"The store refuses the credentials: Kafka at {servers}: {text}")
    if code == KafkaError.KAFKA_STORAGE_ERROR:
        return StoreAwayError(
            f"The store does not answer: Kafka at {servers} cannot write to its own disk, which may be full: {text}"
        )
    if code in _AWAY or error.retriable() or (error.txn_requires_abort() and code not in OF_MESSAGES):
        return StoreAwayError(f"The store does not answer: Kafka at {servers}: {text}")
    return _final(code, f"{text} ({error.name()})", servers)


def _final(code: int, text: str, servers: str) -> DestinationError:
    if code in GONE:
        return DestinationError(
            f"A topic at {servers} is gone: {text}.",
            detail="Its messages went with it. Nothing is sent to another topic of its name in silence.",
            hint="Resnapshot the table into a new topic: tidemark redump SPEC --table …",
        )
    if code in _TOO_LARGE:
        return DestinationError(
            f"Kafka at {servers} refuses a message as too large: {text}.",
            detail="The table stops; the others continue.",
            hint="Give the topic, the brokers and sink.kafka.max_message_bytes room for the largest row, then "
            "resnapshot the table: tidemark redump SPEC --table …",
        )
    return DestinationError(
        f"Kafka at {servers} refuses what was asked: {text}.",
        detail="Readers with read_committed do not see what this epoch had sent, if delivery is exactly_once.",
        hint="Look at the brokers' logs, then start the pipeline again.",
    )

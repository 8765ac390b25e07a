"""Finds, creates and deletes topics."""

import threading
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from engine.base import clock
from engine.base.errors import DestinationError
from engine.destination.kafka.client import ANSWER_S, GONE, Clients
from engine.spec.periods import period_s

_LOOKS, _LOOK_S = 6, 0.5
"""How often a topic that is not there is looked for, and the seconds between two looks."""


class Topics:
    """The topics of a cluster. May be used by several threads."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._settings = clients.settings
        self._admin: AdminClient | None = None
        self._names: frozenset[str] | None = None
        self._lock = threading.Lock()

    def _client(self) -> AdminClient:
        if self._admin is None:  # it must live until its answers are there
            self._admin = self._clients.admin()
        return self._admin

    def all(self, *, newest: bool = False) -> frozenset[str]:
        """The names of all topics. newest: ask the brokers; else as they said last."""
        with self._lock:
            if newest or self._names is None:
                answer = self._clients.asked(lambda: self._client().list_topics(timeout=ANSWER_S), self._client())
                self._names = frozenset(answer.topics)
            return self._names

    def create(self, name: str, partitions: int, replication: int, settings: Mapping[str, str]) -> None:
        """Create a topic, and wait until it is there. One that is there already stays as it is."""
        topic = NewTopic(name, partitions, replication, config=dict(settings))
        future = self._client().create_topics([topic], request_timeout=ANSWER_S)[name]
        self._done(future, KafkaError.TOPIC_ALREADY_EXISTS)
        with self._lock:
            self._names = None

    def create_for_table(self, name: str) -> None:
        """Create a topic for a table's messages, as the spec says."""
        spec = self._settings
        settings = {"max.message.bytes": str(spec.max_message_bytes + (64 << 10))}
        if spec.compaction:
            settings["cleanup.policy"] = "compact"
        if spec.retention is not None:
            forever = spec.retention == "forever"
            settings["retention.ms"] = "-1" if forever else str(int(period_s(spec.retention) * 1000))
        self.create(name, spec.partitions, spec.replication, settings)

    def delete(self, name: str) -> None:
        """Delete a topic, if it is there."""
        self._done(
            self._client().delete_topics([name], request_timeout=ANSWER_S)[name], KafkaError.UNKNOWN_TOPIC_OR_PART
        )
        with self._lock:
            self._names = None

    def identity(self, name: str) -> str:
        """What tells a topic from a later one of its name; "" if it is not there.

        A broker may not know yet what another one has just created, so it is asked a few times before that is said.
        """
        for attempt in range(_LOOKS):
            clock.sleep(_LOOK_S if attempt else 0.0)
            try:
                return self._described(name)
            except DestinationError as error:
                cause = error.__cause__
                if not isinstance(cause, KafkaException) or cause.args[0].code() not in GONE:
                    raise
        return ""

    def _described(self, name: str) -> str:
        future = self._client().describe_topics(TopicCollection([name]), request_timeout=ANSWER_S)[name]
        return str(self._clients.asked(lambda: future.result(ANSWER_S), self._client()).topic_id)

    def is_empty(self, name: str) -> bool:
        """Whether a topic has never had a message."""
        consumer = self._clients.consumer()
        try:
            answer = self._clients.asked(lambda: consumer.list_topics(name, timeout=ANSWER_S))
            partitions = [TopicPartition(name, number) for number in answer.topics[name].partitions]
            ends = self._clients.asked(
                lambda: [consumer.get_watermark_offsets(one, timeout=ANSWER_S) for one in partitions]
            )
        finally:
            consumer.close()
        return all(high == 0 for _, high in ends)

    def _done(self, future: Any, harmless: int) -> None:
        try:
            self._clients.asked(lambda: future.result(ANSWER_S), self._client())
        except DestinationError as error:
            cause = error.__cause__
            if not isinstance(cause, KafkaException) or cause.args[0].code() != harmless:
                raise

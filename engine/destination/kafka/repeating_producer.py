"""A producer for `delivery = "at_least_once"`: messages are there when they are sent, the state is in transactions.

The state is committed after the messages that it tells of. So after an error or a kill, messages are sent again, and
none is missing. A run has one for changes and one for rows of copies, and each waits for what the other has sent. So
the messages of a key stay in order: what is sent again comes after what was sent before.
"""

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, Producer

from engine.destination.kafka.client import Clients
from engine.destination.kafka.epoch_transaction import TransactionalProducer


class RepeatingProducer(TransactionalProducer):
    """state_topic: whose records are in transactions."""

    def __init__(self, clients: Clients, identity: str, check_term: Callable[[], object], state_topic: str) -> None:
        super().__init__(clients, identity, check_term)
        self._state_topic = state_topic
        self._plain: Producer | None = None

    def _producer_of(self, topic: str) -> Producer:
        if topic == self._state_topic:
            return super()._producer_of(topic)
        if self._plain is None:
            self._plain = self._clients.producer("", self._delivered)
        return self._plain

    def _producers(self) -> list[Producer]:
        """The messages come first: the state tells of them."""
        return [*([] if self._plain is None else [self._plain]), *super()._producers()]

    def _failed(self, error: KafkaError) -> Exception:
        if error.fatal():
            self.give_up()
        return super()._failed(error)

    def give_up(self) -> None:
        """Forget the messages that wait: a later producer may send newer ones of their keys."""
        producer, self._plain = self._plain, None
        if producer is not None:
            producer.purge()

    def close(self) -> None:
        """What is not stored yet is given up."""
        super().close()
        self.give_up()

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None and error.fatal():
            self.give_up()
        super()._delivered(error, message)

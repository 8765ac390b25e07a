"""What the tables of one Kafka destination share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.capture.landing import Landing
from engine.destination.kafka.epoch_transaction import EpochTransaction
from engine.destination.kafka.kafka_terms import KafkaTerms
from engine.destination.kafka.snapshot_messages import SnapshotMessages
from engine.destination.kafka.state_topic import StateTopic
from engine.destination.kafka.topics import Topics
from engine.ledger.state import Owner
from engine.spec.kafka_settings import KafkaSettings


@dataclass(frozen=True)
class SharedTopics:
    """One for each destination and owner."""

    settings: KafkaSettings
    name: str
    """Of the sink."""
    owner: Owner
    landing: Landing
    topics: Topics
    state: StateTopic
    terms: KafkaTerms
    transaction: EpochTransaction
    snapshots: SnapshotMessages
    unpublished: dict[str, Any]
    """The records of the state that the next commit writes, by key."""

    def record(self, key: str) -> Mapping[str, Any] | None:
        """A record as the next commit leaves it, or as the topic has it."""
        return self.unpublished.get(key) or self.state.record(key)

"""What the tables of one Kafka destination share."""

from dataclasses import dataclass

from engine.capture.landing import Landing
from engine.destination.kafka.client import Clients
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
    clients: Clients
    topics: Topics
    state: StateTopic
    terms: KafkaTerms
    transaction: EpochTransaction
    snapshots: SnapshotMessages

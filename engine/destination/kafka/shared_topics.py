"""What the tables of one Kafka destination share."""

import threading
from dataclasses import dataclass, field

from engine.capture.landing import Landing
from engine.destination.kafka.client import Clients
from engine.destination.kafka.epoch_transaction import EpochTransaction
from engine.destination.kafka.kafka_terms import KafkaTerms
from engine.destination.kafka.schema_registry import SchemaRegistry
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
    registry: SchemaRegistry | None = None
    """Of the schemas of messages."""
    opening: threading.Lock = field(default_factory=threading.Lock)
    """Held while a table begins to use a topic: two of them must not take one."""
    looked_s: dict[str, float] = field(default_factory=dict)
    """When a topic was looked at last, by name."""

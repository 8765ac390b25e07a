"""The Kafka destination: change logs as messages. An epoch of all tables is one transaction.

It has no mirrors, and readers' files are not taken as they are: they are staged below `sink.path`, or lie where the
first destination of the pipeline has them.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

from engine.capture.landing import Landing
from engine.decode.schema import Table
from engine.destination.destination_protocol import CHANGES, DestinationTable, EpochEnd
from engine.destination.fence import Term
from engine.destination.kafka.client import Clients
from engine.destination.kafka.epoch_transaction import EpochTransaction, TransactionalProducer
from engine.destination.kafka.kafka_terms import KafkaTerms
from engine.destination.kafka.repeating_producer import RepeatingProducer
from engine.destination.kafka.schema_registry import SchemaRegistry
from engine.destination.kafka.sent_records import SentChanges
from engine.destination.kafka.shared_topics import SharedTopics
from engine.destination.kafka.snapshot_messages import SnapshotMessages
from engine.destination.kafka.state_topic import StateTopic
from engine.destination.kafka.table import KafkaTable
from engine.destination.kafka.topics import Topics
from engine.destination.staged_landing import StagedLanding
from engine.ledger.state import Owner
from engine.plan.chunks import Plan
from engine.spec.sink_settings import Sink


class KafkaDestination:
    """landing: where the readers' files are; None: they are staged in the sink's folder."""

    def __init__(self, sink: Sink, landing: Landing | None = None) -> None:
        assert sink.kafka is not None, "the spec requires it"
        self._sink = sink
        self._settings = sink.kafka
        self._staged_landing = None if landing is not None else StagedLanding(sink.folder)
        self._landing = landing or StagedLanding(sink.folder)
        self._clients = Clients(self._settings)
        self._registry = None if self._settings.registry is None else SchemaRegistry(self._settings.registry)
        self._topics = Topics(self._clients)
        self._states: dict[str, StateTopic] = {}
        self._producers: dict[str, tuple[TransactionalProducer, TransactionalProducer]] = {}
        self._shared: SharedTopics | None = None
        self._lock = threading.RLock()
        self._terms = KafkaTerms(self._state, self._producers_of)

    @property
    def root(self) -> Path | str:
        """The brokers, and the rule for topics."""
        return self._settings.place

    @property
    def landing(self) -> Landing:
        """Where readers put files."""
        return self._landing

    @property
    def terms(self) -> KafkaTerms:
        """In the state topic."""
        return self._terms

    def _state(self, ledger: str) -> StateTopic:
        with self._lock:
            if ledger not in self._states:
                self._states[ledger] = StateTopic(self._clients, self._topics, f"{ledger}{self._suffix}")
            return self._states[ledger]

    @property
    def _suffix(self) -> str:
        return f".{self._sink.name}" if self._sink.name else ""

    def _producers_of(self, ledger: str) -> Sequence[TransactionalProducer]:
        """Those of the epochs and of snapshots."""
        with self._lock:
            if ledger not in self._producers:
                identity, check = f"tidemark-{ledger}{self._suffix}", self._terms.check_now
                make: Callable[[Clients, str, Callable[[], object]], TransactionalProducer] = TransactionalProducer
                if self._settings.delivery == "at_least_once":
                    make = partial(RepeatingProducer, state_topic=self._state(ledger).name)
                names = (identity, f"{identity}-snapshot")
                epochs, snapshots = (make(self._clients, name, check) for name in names)
                self._producers[ledger] = epochs, snapshots
            return self._producers[ledger]

    def recall(self, newest: Term | None) -> None:
        """The state topic is read again: another run may have written since."""
        with self._lock:
            if self._shared is not None:
                self._shared.transaction.forget()
                self._shared = None
            for state in self._states.values():
                state.forget()
            self._topics.all(newest=True)

    def give_up(self) -> None:
        """Messages that wait for a broker must not come after those of the next opening."""
        with self._lock:
            for producers in self._producers.values():
                for producer in producers:
                    if isinstance(producer, RepeatingProducer):  # others are fenced
                        producer.give_up()

    def table(self, owner: Owner, table: Table, plan: Plan | None = None) -> KafkaTable:
        """Its topic, and its records in the state topic."""
        return KafkaTable(self._shared_topics(owner), table)

    def _shared_topics(self, owner: Owner) -> SharedTopics:
        with self._lock:  # several tables are opened at the same time
            if self._shared is None or self._shared.owner != owner:
                epochs, snapshots = self._producers_of(owner.ledger)
                state = self._state(owner.ledger)
                snapshot_messages = SnapshotMessages(snapshots, state)
                self._shared = SharedTopics(
                    self._settings,
                    self._sink.name or "tidemark",
                    owner,
                    self._landing,
                    self._clients,
                    self._topics,
                    state,
                    self._terms,
                    EpochTransaction(epochs, state, snapshot_messages.settle),
                    snapshot_messages,
                    self._registry,
                )
            return self._shared

    def publish(self, end: EpochEnd) -> None:
        """Commit the transaction, if there is anything in it."""
        if self._shared is not None:
            self._terms.check()
            self._shared.transaction.commit()
            self._shared.transaction.raise_rejected()

    def fence_earlier_runners(self, owner: Owner, tables: Iterable[Table], epochs: Collection[int]) -> None:
        """`terms.take` has done it."""

    def largest_seq(self, owner: Owner, tables: Iterable[Table]) -> int:
        """By the state topic, whatever the count of epochs."""
        names = {table.full_name for table in tables}
        of_tables = [
            SentChanges.from_json(record)
            for key, record in self._state(owner.ledger).read().items()
            if key.partition(f" {CHANGES} ")[2] in names
        ]
        return max((sent.largest_seq for sent in of_tables), default=0)

    def delete_orphans(
        self, opened_tables: Iterable[DestinationTable], committed_names: Collection[str], after_ns: int
    ) -> int:
        """Delete staged files that no epoch names. Messages of a killed runner were aborted."""
        return 0 if self._staged_landing is None else self._staged_landing.delete_orphans(committed_names)

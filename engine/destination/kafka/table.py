"""One captured table in Kafka: its topic, and the messages of its files."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.base import clock
from engine.base.errors import DestinationError, SpecError
from engine.capture.batches import batches, parquet_file
from engine.capture.files import DataFile, check_files
from engine.capture.landing import Landing
from engine.decode.schema import TM_POSITION, TM_SEQ, TM_TX, Table
from engine.destination.destination_protocol import CHANGES, CHUNKS, MERGE, CopyStart, OpenedTable, StoredState
from engine.destination.kafka.epoch_transaction import EpochTransaction, Message
from engine.destination.kafka.kafka_terms import KEY, KafkaTerms
from engine.destination.kafka.message_formats import MessageMaker, Messages
from engine.destination.kafka.row_events import RowEvents, complete_rows, row_events, rows_read
from engine.destination.kafka.snapshot_messages import SnapshotMessages
from engine.destination.kafka.state_topic import StateTopic
from engine.destination.kafka.topics import Topics
from engine.journal.destination_events import SinkApplied
from engine.ledger.state import Owner
from engine.plan.chunks import Plan
from engine.spec.kafka_settings import KafkaSettings


@dataclass(frozen=True)
class Progress:
    """What the topics have of a table's changes."""

    epoch: int = -1
    largest_seq: int = 0
    generation: int = 0
    """Counts the resnapshots."""
    begun: int = -1
    """The epoch after which the generation began; -1 for the first one."""


@dataclass(frozen=True)
class SharedTopics:
    """What the tables of one destination share."""

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

    def record(self, key: str) -> dict[str, Any] | None:
        """A record as the next commit leaves it, or as the topic has it."""
        return self.unpublished.get(key) or dict(self.state.record(key) or {}) or None


class KafkaTable:
    """Sends the rows of files. `SharedTopics.unpublished` collects the records for the next commit."""

    def __init__(self, shared: SharedTopics, table: Table) -> None:
        self._shared = shared
        self.table = table
        self._topic = shared.settings.topic_of(table.database, table.name)
        name = table.full_name
        self._changes_key = f"{shared.owner.application} {CHANGES} {name}"
        self._chunks_key = f"{shared.owner.application} {CHUNKS} {name}"
        self._topic_key = f"topic {name}"

    @property
    def mirror(self) -> None:
        """There is none."""

    @property
    def place(self) -> str:
        """Its topic."""
        return f"topic {self._topic} at {self._shared.settings.servers}"

    @property
    def is_there(self) -> bool:
        """Whether this pipeline has used the topic, and it is there."""
        return self._shared.record(self._topic_key) is not None and self._topic in self._shared.topics.all()

    def last_epoch(self, kind: str) -> int:
        """By the state topic; without the lineage's floor."""
        records = self._shared.state.read()
        if kind == CHUNKS:
            return int((records.get(self._chunks_key) or {}).get("epoch", -1))
        return _progress(records.get(self._changes_key)).epoch

    def read_state(self) -> StoredState:
        """By the state topic, and whether its topic is the one that it was."""
        term = self._shared.state.record(KEY)
        terms = frozenset({int(term["number"])}) if term else frozenset[int]()
        return StoredState(self._epochs(), terms, self._fault(self._shared.state.record(self._topic_key)))

    def _fault(self, known_topic: Any) -> str:
        if known_topic is None:
            return f"{self.place} was never used by this pipeline"
        if known_topic["topic"] not in self._shared.topics.all():
            return f"{self.place} is gone"
        if self._shared.topics.identity(known_topic["topic"]) != known_topic["id"]:
            return f"{self.place} was deleted and created again"
        return ""

    def check(self, before: Table | None, after: Table) -> None:
        """Any columns will do. A table that joins needs a topic without messages of others."""
        if before is None and not self._shared.settings.has_one_topic:
            self._check_topic()

    def _check_topic(self) -> None:
        settings = self._shared.settings
        if self._shared.record(self._topic_key) is not None or self._topic not in self._shared.topics.all(newest=True):
            return
        if settings.existing_topics == "refuse" and not self._shared.topics.is_empty(self._topic):
            raise SpecError(
                f"The {self.place} exists already, and has messages that this pipeline has not sent.",
                detail="Its readers would get the rows of both; nothing was sent.",
                hint='Choose another sink.kafka.topic, delete that topic, or set existing_topics = "append" in '
                "[sink.kafka].",
            )

    def open(self, *, must_exist: bool, copied_as: Table | None = None) -> OpenedTable:
        """Create its topic if it is not there."""
        shared = self._shared
        known_topic = shared.record(self._topic_key)
        fault = self._fault(known_topic) if known_topic is not None else ""
        if copied_as is not None:
            self.table = copied_as
        elif must_exist and (known_topic is None or fault):
            raise DestinationError(
                f"The {fault or self._fault(None)}, but the ledger has published rows to it.",
                detail="Continuing would leave a topic without those messages; nothing was sent.",
                hint=f"Resnapshot the table into a new topic: tidemark redump SPEC --table {self.table.full_name}",
            )
        shared.terms.check()
        shared.state.create()
        is_new = known_topic is None or bool(fault)
        if is_new:
            self._begin_topic()
        return OpenedTable(self._epochs(), is_new=is_new)

    def _begin_topic(self) -> None:
        shared, settings = self._shared, self._shared.settings
        if not settings.has_one_topic:
            self._check_topic()
        if self._topic not in shared.topics.all(newest=True):
            if not settings.create_topics:
                raise DestinationError(
                    f"The {self.place} is not there.",
                    detail="The table stops; nothing of it was sent. create_topics is false.",
                    hint=f"Create the topic, then: tidemark redump SPEC --table {self.table.full_name}",
                )
            shared.topics.create_for_table(self._topic)
        topic_record = {"topic": self._topic, "id": shared.topics.identity(self._topic)}
        shared.snapshots.write({self._topic_key: topic_record})

    def append(self, kind: str, epoch: int, files: Sequence[DataFile]) -> SinkApplied | None:
        """Send the rows of readers' files: changes with the epoch, rows of chunks at once."""
        shared, began_s = self._shared, time.monotonic()
        if not files or max(self._epochs()[kind], shared.owner.floor) >= epoch:
            return None
        shared.terms.check()
        folder = shared.landing.chunks(self.table) if kind == CHUNKS else shared.landing.changes(self.table)
        check_files(folder, files)
        if kind == CHUNKS:
            chunks = _ChunkPart(self, epoch, sorted(files, key=lambda file: file.name))
            count = shared.snapshots.send(self._chunks_key, epoch, chunks)
        else:
            ordered = sorted(files, key=lambda file: file.low.get(TM_SEQ, 0))
            count = shared.transaction.add(_ChangePart(self, epoch, ordered))
            largest = max((file.high.get(TM_SEQ, 0) for file in files), default=0)
            progress = self._progress()
            largest = max(progress.largest_seq, largest)
            shared.unpublished[self._changes_key] = vars(replace(progress, epoch=epoch, largest_seq=largest))
        return SinkApplied(
            sink="kafka",
            table=self.table.full_name,
            kind="append",
            through_epoch=epoch,
            rows=count,
            files=len(files),
            duration_s=round(time.monotonic() - began_s, 6),
        )

    def alter(self, table: Table, epoch: int, *, copy_follows: bool) -> None:
        """Later messages have the new columns."""
        self.table = table

    def begin_copy(self, table: Table, plan: Plan, epoch: int, until: str) -> CopyStart:
        """Begin a generation, which the headers of its messages name."""
        self.table = table
        progress = self._progress()
        if progress.begun < epoch:
            after = replace(progress, generation=progress.generation + 1, begun=epoch, epoch=max(progress.epoch, epoch))
            self._shared.unpublished[self._changes_key] = vars(after)
        return CopyStart(max(progress.begun, epoch))

    def drop(self) -> None:
        """Delete its topic, unless other tables share it, and what the state topic has of it."""
        shared = self._shared
        known_topic = shared.record(self._topic_key)
        if known_topic is None:
            return
        shared.terms.check_now()
        keys = (self._changes_key, self._chunks_key, self._topic_key)
        for key in keys:
            shared.unpublished.pop(key, None)
        if not shared.settings.has_one_topic:
            shared.topics.delete(known_topic["topic"])
        shared.snapshots.write(dict.fromkeys(keys))

    def _progress(self) -> Progress:
        return _progress(self._shared.record(self._changes_key))

    def _epochs(self) -> dict[str, int]:
        chunks = int((self._shared.state.record(self._chunks_key) or {}).get("epoch", -1))
        changes, floor = self._progress().epoch, self._shared.owner.floor
        return {CHUNKS: max(chunks, floor), CHANGES: max(changes, floor), MERGE: max(changes, floor)}

    def batches(self, kind: str, file: DataFile) -> Iterator[pa.Table]:
        """The rows of a file."""
        folder = self._shared.landing.chunks(self.table) if kind == CHUNKS else self._shared.landing.changes(self.table)
        with folder.open(file.name) as data, parquet_file(data) as parquet:
            for _, batch in batches(parquet):
                yield batch

    @property
    def maker(self) -> MessageMaker:
        """Makes its messages."""
        return MessageMaker(self.table, self._shared.settings, self._shared.name)

    def sent(self, messages: Messages, epoch: int) -> Iterator[Message]:
        """Messages as they are sent."""
        settings = self._shared.settings
        self._check_size(messages)
        headers = _headers(messages, self.table.full_name, epoch, self._progress().generation)
        tombstones = settings.tombstones and settings.format != "json"
        keys, values = messages.keys.to_pylist(), messages.values.to_pylist()
        all_headers: Iterable[Any] = headers if settings.headers else [None] * len(keys)
        for key, value, deletes, own in zip(keys, values, messages.is_deletion.tolist(), all_headers, strict=True):
            yield Message(self._topic, key, value, own)
            if deletes and tombstones:
                yield Message(self._topic, key, None, own)

    def _check_size(self, messages: Messages) -> None:
        largest = pc.max(pc.binary_length(messages.values)).as_py() or 0
        if largest > self._shared.settings.max_message_bytes:
            raise DestinationError(
                f"A row of {self.table.full_name} is a message of {largest:,} bytes; sink.kafka.max_message_bytes is "
                f"{self._shared.settings.max_message_bytes:,}.",
                detail="The table stops before this epoch; the others continue.",
                hint="Raise it, and max.message.bytes of the topic and message.max.bytes of the brokers with it. Then: "
                f"tidemark redump SPEC --table {self.table.full_name}",
            )

    @property
    def topic(self) -> str:
        """The name of its topic."""
        return self._topic


@dataclass(frozen=True, eq=False)
class _ChangePart:
    """The changes of some epochs."""

    table: KafkaTable
    epoch: int
    files: Sequence[DataFile]

    @property
    def topic(self) -> str:
        return self.table.topic

    def messages(self) -> Iterator[Message]:
        maker, now_ms = self.table.maker, int(clock.unix_s() * 1000)
        for events in self._events(maker):
            yield from self.table.sent(maker.messages(events, now_ms), self.epoch)

    def _events(self, maker: MessageMaker) -> Iterator[RowEvents]:
        rest: pa.Table | None = None
        for file in self.files:
            for batch in self.table.batches(CHANGES, file):
                rows = batch if rest is None else pa.concat_tables([rest, batch], promote_options="default")
                count = complete_rows(rows)
                rest = rows.slice(count)
                yield self._of(rows.slice(0, count), maker)
        if rest is not None and rest.num_rows:
            yield self._of(rest, maker)

    def _of(self, rows: pa.Table, maker: MessageMaker) -> RowEvents:
        ordered = rows.sort_by(TM_SEQ)
        return row_events(ordered, maker.keys(ordered) if self.table.table.key else None)


@dataclass(frozen=True, eq=False)
class _ChunkPart:
    """The rows of chunks."""

    table: KafkaTable
    epoch: int
    files: Sequence[DataFile]

    @property
    def identity(self) -> str:
        """Tells these files from others of the same epoch."""
        return " ".join(f"{file.name}:{file.rows}" for file in self.files)

    def messages(self, after: int) -> Iterator[Message]:
        """Their messages, without the first `after` ones."""
        maker, now_ms = self.table.maker, int(clock.unix_s() * 1000)
        for file in self.files:
            if after >= file.rows:
                after -= file.rows
                continue
            for batch in self.table.batches(CHUNKS, file):
                rows = batch.slice(min(after, batch.num_rows))
                after -= min(after, batch.num_rows)
                if rows.num_rows:
                    yield from self.table.sent(maker.messages(rows_read(rows), now_ms), self.epoch)


def _progress(record: Any) -> Progress:
    return Progress(**record) if record else Progress()


def _headers(
    messages: Messages, table: str, epoch: int, generation: int
) -> Iterator[list[tuple[str, str | bytes | None]]]:
    constant: list[tuple[str, str | bytes | None]] = [
        ("table", table.encode()),
        ("epoch", str(epoch).encode()),
        ("generation", str(generation).encode()),
    ]
    kinds = messages.kinds.to_pylist()
    if not messages.images.num_columns:
        return ([*constant, ("kind", kind.encode())] for kind in kinds)
    facts = messages.images
    texts = (facts[TM_POSITION].to_pylist(), facts[TM_TX].to_pylist(), facts[TM_SEQ].to_pylist())
    return (
        [
            *constant,
            ("kind", kind.encode()),
            ("position", (position or "").encode()),
            ("gtid", (gtid or "").encode()),
            ("sequence", str(seq).encode()),
        ]
        for kind, position, gtid, seq in zip(kinds, *texts, strict=True)
    )

"""One captured table in Kafka."""

import time
from collections.abc import Sequence
from dataclasses import replace

from engine.base.errors import DestinationError
from engine.base.wording import shell_word
from engine.capture.files import DataFile, check_files
from engine.decode.schema import TM_SEQ, Table
from engine.destination.destination_protocol import CHANGES, CHUNKS, MERGE, CopyStart, OpenedTable, StoredState
from engine.destination.kafka.kafka_terms import term_in
from engine.destination.kafka.sent_records import SentChanges, SentChunks
from engine.destination.kafka.shared_topics import SharedTopics
from engine.destination.kafka.table_messages import ChangePart, ChunkPart, TableMessages
from engine.destination.kafka.table_topic import TableTopic
from engine.destination.kafka.vanished_keys import VanishedKeys
from engine.journal.destination_events import SinkApplied
from engine.plan.chunks import Plan

_FRESH_S = 1.0
"""How old the state may be for who only looks."""


class KafkaTable:
    """Sends the rows of files. `SharedTopics.transaction` collects what the next commit has."""

    def __init__(self, shared: SharedTopics, table: Table) -> None:
        self._shared = shared
        self.table = table
        self._topic = TableTopic(shared, table)
        self._changes_key = f"{shared.owner.application} {CHANGES} {table.full_name}"
        self._chunks_key = f"{shared.owner.application} {CHUNKS} {table.full_name}"

    @property
    def mirror(self) -> None:
        """There is none."""

    @property
    def place(self) -> str:
        """Its topic."""
        return self._topic.place

    @property
    def is_there(self) -> bool:
        """Whether this pipeline has used its topic, and it is there."""
        return self._topic.is_there

    def last_epoch(self, kind: str) -> int:
        """By the state topic, which is read; without the lineage's floor."""
        records = self._shared.state.read(_FRESH_S)
        if kind == CHUNKS:
            return SentChunks.from_json(records.get(self._chunks_key)).epoch
        return SentChanges.from_json(records.get(self._changes_key)).epoch

    def read_state(self) -> StoredState:
        """By the state topic, and whether its topic is the one that it was."""
        term = term_in(self._shared.state)
        return StoredState(self._epochs(), frozenset({term.number} if term else ()), self._topic.fault())

    def check(self, before: Table | None, after: Table) -> None:
        """Any columns will do. A table that joins needs a topic without messages of others."""
        if before is None:
            self._topic.require_own()

    def open(self, *, must_exist: bool, copied_as: Table | None = None) -> OpenedTable:
        """Create its topic if it is not there."""
        fault = self._topic.fault()
        if copied_as is not None:
            self.table = copied_as
        elif must_exist and fault:
            raise DestinationError(
                f"The {fault}, but the ledger has published rows to it.",
                detail="Continuing would leave a topic without those messages; nothing was sent.",
                hint="Resnapshot the table into a new topic: tidemark redump SPEC --table "
                f"{shell_word(self.table.full_name)}",
            )
        self._shared.terms.check()
        self._shared.state.create()
        if fault:
            self._topic.begin()
        return OpenedTable(self._epochs(), is_new=bool(fault))

    def append(self, kind: str, epoch: int, files: Sequence[DataFile]) -> SinkApplied | None:
        """Send the rows of readers' files: changes with the epoch, rows of chunks at once."""
        shared, began_s = self._shared, time.monotonic()
        if not files or max(self._epochs()[kind], shared.owner.floor) >= epoch:
            return None
        shared.terms.check()
        self._topic.require_same()
        folder = shared.landing.chunks(self.table) if kind == CHUNKS else shared.landing.changes(self.table)
        check_files(folder, files)
        if kind == CHUNKS and shared.transaction.has((self._changes_key,)):
            shared.transaction.commit()  # changes of earlier epochs stand before these rows
        sent = self._sent_changes()
        made = self._made(epoch, sent.generation)
        if kind == CHUNKS:
            part = ChunkPart(made, folder, files)
            count = shared.snapshots.send(self._chunks_key, epoch, part)
        else:
            largest = max(sent.largest_seq, *(file.high.get(TM_SEQ, 0) for file in files))
            record = replace(sent, epoch=epoch, largest_seq=largest).to_json()
            count = shared.transaction.add(ChangePart(made, folder, files), {self._changes_key: record})
        return _event(self.table, epoch, count, len(files), began_s)

    def alter(self, table: Table, epoch: int, *, copy_follows: bool) -> None:
        """Later messages have the new columns."""
        self.table = table

    def begin_copy(self, table: Table, plan: Plan, epoch: int, until: str) -> CopyStart:
        """Begin a generation, which the headers of its messages name. It is durable before its first row is sent."""
        self.table = table
        self._shared.transaction.commit()  # what belongs to the generation before
        sent = self._sent_changes()
        if sent.begun < epoch:
            used = replace(self._topic.used, generation=self._topic.used.generation + self._has_sent())
            after = replace(sent, generation=used.generation, begun=epoch, epoch=max(sent.epoch, epoch))
            chunks = SentChunks.from_json(self._shared.state.record(self._chunks_key))
            records = {self._topic.key: used.to_json(), self._changes_key: after.to_json()}
            if chunks.epoch < epoch - 1:  # files of earlier copies are not for this one
                records[self._chunks_key] = SentChunks(epoch - 1).to_json()
            self._shared.snapshots.write(records)
        return CopyStart(max(sent.begun, epoch))

    def complete_copy(self, epoch: int) -> SinkApplied | None:
        """Delete the keys that the new generation lacks. The first copy has nothing to delete.

        What this table has in the open transaction is committed first, because it is read back. What other tables have
        left open would hide it.
        """
        sent, shared, began_s = self._sent_changes(), self._shared, time.monotonic()
        if not sent.generation or not self.table.key or not shared.settings.headers:
            return None
        if sent.completed >= epoch or epoch < sent.begun:  # a later copy has begun since this epoch
            return None
        shared.terms.check()
        shared.transaction.commit()
        shared.snapshots.settle()
        made = self._made(epoch, sent.generation)
        record = replace(self._sent_changes(), completed=epoch).to_json()
        count = shared.transaction.add(VanishedKeys(shared.clients, made), {self._changes_key: record})
        return _event(self.table, epoch, count, 0, began_s) if count else None

    def drop(self) -> None:
        """Delete its topic, unless other tables share it, and what the state topic has of it."""
        if not self._topic.used.topic:
            return
        self._shared.terms.check_now()
        keys = (self._changes_key, self._chunks_key, self._topic.key)
        self._shared.transaction.leave_out(keys)
        self._topic.delete()
        self._shared.snapshots.write(dict.fromkeys(keys))

    def forget_rows(self) -> None:
        """Begin another generation if the topic has some rows of files that do not come again."""
        shared, sent = self._shared, self._sent_changes()
        chunks = SentChunks.from_json(shared.state.record(self._chunks_key))
        if not chunks.files:
            return
        used = replace(self._topic.used, generation=self._topic.used.generation + 1)
        after = replace(sent, generation=used.generation)
        records = {self._topic.key: used.to_json(), self._changes_key: after.to_json()}
        shared.snapshots.write({**records, self._chunks_key: SentChunks(chunks.epoch).to_json()})

    def _made(self, epoch: int, generation: int) -> TableMessages:
        shared = self._shared
        return TableMessages(
            self.table, shared.settings, shared.name, self._topic.name, epoch, generation, shared.registry
        )

    def _has_sent(self) -> bool:
        """Whether anything of the table was ever sent, in any earlier count of epochs."""
        ends = tuple(f" {kind} {self.table.full_name}" for kind in (CHANGES, CHUNKS))
        return any(key.endswith(ends) for key in self._shared.state.records())

    def _sent_changes(self) -> SentChanges:
        record = self._shared.transaction.record(self._changes_key)
        return SentChanges.from_json(record) if record else SentChanges(generation=self._topic.used.generation)

    def _epochs(self) -> dict[str, int]:
        chunks, floor = SentChunks.from_json(self._shared.state.record(self._chunks_key)), self._shared.owner.floor
        changes = max(self._sent_changes().epoch, floor)
        return {CHUNKS: max(chunks.epoch, floor), CHANGES: changes, MERGE: changes}


def _event(table: Table, epoch: int, rows: int, files: int, began_s: float) -> SinkApplied:
    return SinkApplied(
        sink="kafka",
        table=table.full_name,
        kind="append",
        through_epoch=epoch,
        rows=rows,
        files=files,
        duration_s=round(time.monotonic() - began_s, 6),
    )

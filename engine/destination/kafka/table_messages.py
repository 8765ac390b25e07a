"""The messages of a table's files: of changes, and of rows of chunks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.base import clock
from engine.base.errors import DestinationError
from engine.base.wording import shell_word
from engine.capture.batches import batches, parquet_file
from engine.capture.files import DataFile
from engine.decode.schema import TM_KIND, TM_POSITION, TM_SEQ, TM_TX, Table
from engine.destination.kafka.epoch_transaction import KafkaMessage
from engine.destination.kafka.message_formats import MadeMessages, MessageMaker
from engine.destination.kafka.registered_messages import RegisteredMessages
from engine.destination.kafka.row_events import RowEvents, complete_rows, row_events, rows_read
from engine.destination.kafka.schema_registry import SchemaRegistry
from engine.spec.kafka_settings import ROW_FORMATS, KafkaSettings
from engine.store.folder import Folder

MessageHeaders = list[tuple[str, str | bytes | None]]


@dataclass(frozen=True)
class TableMessages:
    """Makes the messages of one epoch of a table. name: of the sink. topic: the table's. registry: of schemas."""

    table: Table
    settings: KafkaSettings
    name: str
    topic: str
    epoch: int
    generation: int
    registry: SchemaRegistry | None = None

    def of(self, events: Iterable[tuple[MessageMaker, RowEvents]]) -> Iterator[KafkaMessage]:
        """The messages of events, as they are sent."""
        now_ms = int(clock.unix_s() * 1000)
        for maker, some in events:
            yield from self._sent(maker.messages(some, now_ms))

    @property
    def maker(self) -> MessageMaker:
        """Makes messages of events."""
        registry = self.registry
        arguments = self.table, self.settings, self.name
        registered = None if registry is None else RegisteredMessages(*arguments, registry, self.topic)
        return MessageMaker(*arguments, registered)

    def _sent(self, messages: MadeMessages) -> Iterator[KafkaMessage]:
        self._check_size(messages)
        tombstones = self.settings.tombstones and self.settings.format not in ROW_FORMATS
        keys, values = messages.keys.to_pylist(), messages.values.to_pylist()
        headers: Iterable[Any] = self._headers(messages) if self.settings.headers else [None] * len(keys)
        for key, value, deletes, own in zip(keys, values, messages.is_deletion.tolist(), headers, strict=True):
            yield KafkaMessage(self.topic, key, value, own)
            if deletes and tombstones:
                yield KafkaMessage(self.topic, key, None, own)

    def _check_size(self, messages: MadeMessages) -> None:
        largest = pc.max(pc.binary_length(messages.values)).as_py() or 0
        if largest > self.settings.max_message_bytes:
            raise DestinationError(
                f"A row of {self.table.full_name} is a message of {largest:,} bytes; sink.kafka.max_message_bytes is "
                f"{self.settings.max_message_bytes:,}.",
                detail="The table stops before this epoch; the others continue.",
                hint="Raise it, and max.message.bytes of the topic and message.max.bytes of the brokers with it. Then: "
                f"tidemark redump SPEC --table {shell_word(self.table.full_name)}",
            )

    def headers_of(self, kind: str) -> MessageHeaders:
        """The headers of a message that no image stands behind."""
        return [
            ("table", self.table.full_name.encode()),
            ("epoch", str(self.epoch).encode()),
            ("generation", str(self.generation).encode()),
            ("kind", kind.encode()),
        ]

    def _headers(self, messages: MadeMessages) -> Iterator[MessageHeaders]:
        constant = self.headers_of("")[:-1]
        kinds, facts = [("kind", kind) for kind in _bytes(messages.kinds)], messages.images
        if not facts.num_columns:
            return ([*constant, kind] for kind in kinds)
        texts = [_bytes(facts[name]) for name in (TM_POSITION, TM_TX, TM_SEQ)]
        return (
            [*constant, kind, ("position", position), ("gtid", gtid), ("sequence", seq)]
            for kind, position, gtid, seq in zip(kinds, *texts, strict=True)
        )


@dataclass(frozen=True, eq=False)
class ChangePart:
    """The changes of some epochs, from readers' files in a folder."""

    made: TableMessages
    folder: Folder
    files: Sequence[DataFile]

    @property
    def topic(self) -> str:
        """That of the table."""
        return self.made.topic

    def messages(self) -> Iterator[KafkaMessage]:
        """Their messages, in the order of the changes."""
        return self.made.of(self._events())

    def _events(self) -> Iterator[tuple[MessageMaker, RowEvents]]:
        maker, rest = self.made.maker, None
        for file in sorted(self.files, key=lambda file: file.low.get(TM_SEQ, 0)):
            for batch in _batches(self.folder, file):
                rows = batch if rest is None else pa.concat_tables([rest, batch], promote_options="default")
                count = complete_rows(rows)
                rest = rows.slice(count)
                yield maker, self._of(rows.slice(0, count), maker)
        if rest is not None and rest.num_rows:
            yield maker, self._of(rest, maker)

    def _of(self, rows: pa.Table, maker: MessageMaker) -> RowEvents:
        return row_events(rows, maker.keys(rows))


@dataclass(frozen=True, eq=False)
class ChunkPart:
    """The rows of chunks, from readers' files in a folder.

    Those of a table without a key, read back from a change log, are images of changes.
    """

    made: TableMessages
    folder: Folder
    files: Sequence[DataFile]

    def messages(self, file: DataFile, after: int) -> Iterator[KafkaMessage]:
        """The messages of a file, without the first `after` ones."""
        return islice(self.made.of(self._events(file)), after, None)

    def _events(self, file: DataFile) -> Iterator[tuple[MessageMaker, RowEvents]]:
        maker, rest = self.made.maker, None
        for batch in _batches(self.folder, file):
            if TM_KIND not in batch.column_names:
                yield maker, rows_read(batch, maker.keys(batch))
                continue
            rows = batch if rest is None else pa.concat_tables([rest, batch], promote_options="default")
            count = complete_rows(rows)
            rest = rows.slice(count)
            changes = rows.slice(0, count)
            yield maker, row_events(changes, maker.keys(changes))
        if rest is not None and rest.num_rows:
            yield maker, row_events(rest, maker.keys(rest))


def _batches(folder: Folder, file: DataFile) -> Iterator[pa.Table]:
    with folder.open(file.name) as data, parquet_file(data) as parquet:
        for _, batch in batches(parquet):
            yield batch


def _bytes(column: pa.ChunkedArray) -> list[bytes]:
    """The values as texts in UTF-8; empty for NULL."""
    values: list[bytes] = pc.fill_null(column.cast(pa.string()), "").cast(pa.binary()).to_pylist()
    return values

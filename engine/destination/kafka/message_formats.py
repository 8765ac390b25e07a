"""Row events as messages. Each format is a column of texts over the events; NULL is a message without a value.

The formats are those that Flink's readers of the same name take: its documentation, "Formats", and the projects'
own (Debezium, "Change event values"; Canal, `FlatMessage`; Maxwell, "Data format").
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.decode.schema import TM_POSITION, TM_SEQ, TM_TS, TM_TX, Table
from engine.destination.kafka.json_values import joined, json_objects, json_text, quoted
from engine.destination.kafka.registered_messages import EnvelopeFacts, RegisteredMessages
from engine.destination.kafka.row_events import NONE, Indexes, RowEvents, halves
from engine.spec.kafka_settings import KafkaSettings, MessageFormat


@dataclass(frozen=True)
class MadeMessages:
    """Messages of one table, in order. keys, values: binary; a NULL value deletes."""

    keys: pa.ChunkedArray
    values: pa.ChunkedArray
    is_deletion: npt.NDArray[np.bool_]
    kinds: pa.ChunkedArray
    """`+I`, `+U` or `-D`, for headers; `r` for rows of a snapshot."""
    images: pa.Table
    """The facts of each message: its image with the columns of a change log. Without columns for a snapshot."""


class MessageMaker:
    """Makes the messages of one table. name: of the destination, for Debezium's `source`."""

    def __init__(
        self, table: Table, settings: KafkaSettings, name: str, registered: RegisteredMessages | None = None
    ) -> None:
        """registered: makes the keys and values of a format with schemas."""
        self._registered = registered
        self._table = table
        self._settings = settings
        self._name = name
        self._iso = settings.timestamps == "iso"

    def keys(self, rows: pa.Table) -> pa.ChunkedArray:
        """The keys of rows, as JSON; without a key, a digest of the row, so that equal rows are in one partition."""
        if self._table.key:
            return json_objects(rows, self._table.key, iso=self._iso)
        columns = self._columns(rows)
        return json_objects(rows, columns, iso=self._iso)

    def messages(self, events: RowEvents, now_ms: int) -> MadeMessages:
        """The messages of events. now_ms: the time, in milliseconds since 1970."""
        if self._settings.format == "changelog-json":
            events = halves(events)
        keys = events.keys.take(pa.array(events.last))
        is_deletion = (events.after == NONE) if events.is_half is None else (events.after == NONE) & ~events.is_half
        facts = events.images.take(pa.array(events.last)) if not events.is_snapshot else pa.table({})
        kind = "r" if events.is_snapshot else ""
        kinds = _by_kind(events, _KindWords("+I", "+U", "-D", kind))
        if events.is_half is not None and not events.is_snapshot:
            kinds = _halved(events, kinds)
        keys = _digested(keys, keyed=bool(self._table.key))
        if self._registered is None:
            image = _EventImages(self._rows(events), events)
            values = _FORMATS[self._settings.format](self, image, facts, now_ms)
        else:
            keys = self._registered.keys(events, keys)
            columns, envelope = self._columns(events.images), _envelope_facts(events, facts)
            values = self._registered.values(events, columns, facts, envelope, now_ms)
        return MadeMessages(keys, values.cast(pa.binary()), is_deletion, kinds, facts)

    def _rows(self, events: RowEvents) -> pa.ChunkedArray:
        """The images as JSON."""
        if not self._table.key:  # then the keys are the rows
            return events.keys
        return json_objects(events.images, self._columns(events.images), iso=self._iso)

    def _columns(self, rows: pa.Table) -> list[str]:
        return [column.name for column in self._table.columns if column.name in rows.column_names]

    def _debezium(self, image: "_EventImages", facts: pa.Table, now_ms: int) -> pa.ChunkedArray:
        events = image.events
        op = _by_kind(events, _KindWords("c", "u", "d", "r"))
        return joined(
            '{"before":', image.before(), ',"after":', image.after(), ',"source":', self._source(events, facts),
            ',"op":"', op, f'","ts_ms":{now_ms},"transaction":', _transaction(events, facts), "}",
        )  # fmt: skip

    def _source(self, events: RowEvents, facts: pa.Table) -> pa.ChunkedArray:
        constant = f'{{"version":"tidemark","connector":"mysql","name":{json_text(self._name)},"db":'
        place = f'{constant}{json_text(self._table.database)},"table":{json_text(self._table.name)}'
        if events.is_snapshot:
            return _constant(f'{place},"snapshot":"true","ts_ms":0}}', len(events))
        file, offset = _position(facts)
        return joined(
            f'{place},"snapshot":"false","ts_ms":', _ms(facts), ',"gtid":', _or_null(facts[TM_TX]), ',"file":"', file,
            '","pos":', offset, ',"row":0,"sequence":', facts[TM_SEQ].cast(pa.string()), "}",
        )  # fmt: skip

    def _changelog(self, image: "_EventImages", facts: pa.Table, now_ms: int) -> pa.ChunkedArray:
        events = image.events
        op = _halved(events, _by_kind(events, _KindWords("+I", "+U", "-D", "+I")))
        return joined('{"data":', image.last(), ',"op":"', op, '"}')

    def _canal(self, image: "_EventImages", facts: pa.Table, now_ms: int) -> pa.ChunkedArray:
        events = image.events
        type_ = _by_kind(events, _KindWords("INSERT", "UPDATE", "DELETE", "INSERT"))
        old = pc.if_else(pa.array(image.is_update), joined("[", image.before(), "]"), "null")
        at = _ms(facts) if not events.is_snapshot else _constant(str(now_ms), len(events))
        names = f'"database":{json_text(self._table.database)},"table":{json_text(self._table.name)}'
        keys = ",".join(map(json_text, self._table.key))
        return joined(
            '{"data":[', image.last(), '],"old":', old, f',{names},"pkNames":[{keys}],"type":"', type_,
            '","isDdl":false,"es":', at, f',"ts":{now_ms}}}',
        )  # fmt: skip

    def _maxwell(self, image: "_EventImages", facts: pa.Table, now_ms: int) -> pa.ChunkedArray:
        events = image.events
        type_ = _by_kind(events, _KindWords("insert", "update", "delete", "insert"))
        old = pc.if_else(pa.array(image.is_update), joined(',"old":', image.before()), "")
        at = _s(facts) if not events.is_snapshot else str(now_ms // 1000)
        place = f'{{"database":{json_text(self._table.database)},"table":{json_text(self._table.name)},"type":"'
        return joined(place, type_, '","ts":', at, ',"data":', image.last(), old, "}")

    def _plain(self, image: "_EventImages", facts: pa.Table, now_ms: int) -> pa.ChunkedArray:
        return image.taken(image.events.after, none=None)


class _EventImages:
    """The rows of events, as JSON."""

    def __init__(self, rows: pa.ChunkedArray, events: RowEvents) -> None:
        self._rows = rows
        self.events = events

    @property
    def is_update(self) -> npt.NDArray[np.bool_]:
        is_update: npt.NDArray[np.bool_] = (self.events.before != NONE) & (self.events.after != NONE)
        return is_update

    def before(self) -> pa.ChunkedArray:
        return self.taken(self.events.before)

    def after(self) -> pa.ChunkedArray:
        return self.taken(self.events.after)

    def last(self) -> pa.ChunkedArray:
        return self.taken(self.events.last)

    def taken(self, indexes: Indexes, none: str | None = "null") -> pa.ChunkedArray:
        """The rows by number. none: what stands for no row."""
        rows = self._rows.take(pa.array(indexes, mask=indexes == NONE))
        return rows if none is None else pc.fill_null(rows, none)


@dataclass(frozen=True)
class _KindWords:
    """What a format calls the kinds of events."""

    created: str
    updated: str
    deleted: str
    read: str


def _by_kind(events: RowEvents, words: _KindWords) -> pa.ChunkedArray:
    """A word for each event."""
    if events.is_snapshot:
        return _constant(words.read, len(events))
    old, new = pa.array(events.before != NONE), pa.array(events.after != NONE)
    chosen = pc.if_else(pc.and_(old, new), words.updated, pc.if_else(new, words.created, words.deleted))
    return pa.chunked_array([chosen])


def _halved(events: RowEvents, kinds: pa.ChunkedArray) -> pa.ChunkedArray:
    """Kinds of images: a half of an update is `-U` or `+U`."""
    return pc.if_else(pa.array(events.is_half), _by_kind(events, _KindWords("+U", "+U", "-U", "+I")), kinds)


def _constant(text: str, count: int) -> pa.ChunkedArray:
    return pa.chunked_array([pa.repeat(pa.scalar(text), count)])


def _envelope_facts(events: RowEvents, facts: pa.Table) -> EnvelopeFacts:
    op = _by_kind(events, _KindWords("c", "u", "d", "r"))
    file, offset = (op, op) if events.is_snapshot else _position(facts)
    return EnvelopeFacts(op, file, offset)


def _position(facts: pa.Table) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    position = pc.fill_null(facts[TM_POSITION], ":0")
    return (
        pc.replace_substring_regex(position, r":\d+$", ""),
        pc.replace_substring_regex(position, r"^.*:", ""),
    )


def _ms(facts: pa.Table) -> pa.ChunkedArray:
    """When the change was committed, in milliseconds since 1970."""
    return pc.fill_null(pc.divide(facts[TM_TS].cast(pa.int64()), 1000), 0).cast(pa.string())


def _s(facts: pa.Table) -> pa.ChunkedArray:
    """The same in seconds."""
    return pc.fill_null(pc.divide(facts[TM_TS].cast(pa.int64()), 1_000_000), 0).cast(pa.string())


def _or_null(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(quoted(texts), "null")


def _transaction(events: RowEvents, facts: pa.Table) -> pa.ChunkedArray:
    if events.is_snapshot:
        return _constant("null", len(events))
    return pc.fill_null(joined('{"id":', quoted(facts[TM_TX]), "}"), "null")


def _digested(keys: pa.ChunkedArray, *, keyed: bool) -> pa.ChunkedArray:
    if keyed:
        return keys.cast(pa.binary())
    from hashlib import blake2b

    digests = [blake2b(key.encode(), digest_size=16).hexdigest().encode() for key in keys.to_pylist()]
    return pa.chunked_array([pa.array(digests, pa.binary())])


_MakeValues = Callable[[MessageMaker, _EventImages, pa.Table, int], pa.ChunkedArray]
_FORMATS: dict[MessageFormat, _MakeValues] = {
    "debezium-json": MessageMaker._debezium,  # noqa: SLF001 - the table of the class above
    "changelog-json": MessageMaker._changelog,  # noqa: SLF001
    "canal-json": MessageMaker._canal,  # noqa: SLF001
    "maxwell-json": MessageMaker._maxwell,  # noqa: SLF001
    "json": MessageMaker._plain,  # noqa: SLF001
}

"""Decodes row images to Arrow: many row events together, column by column.

A row event is: table id (6 bytes), flags (2), in version 2 extra data with its length (2), the number of columns, a
bitmap of the columns that are present (two for updates), and then images until its end. An image is a bitmap of the
NULL columns and the values that are not NULL ("Rows_event", MySQL source, libs/mysql/binlog/event/rows_event.h).
Inserts have after-images, deletes before-images, updates pairs of both. All have the same layout, so they are decoded
alike, in two steps:

    find them      one cursor per event, on its first image; move it past the image (`extents`); drop the cursors that
                   have reached the end of their event; continue with the second images; and so on;
    decode them    all images of all events at once, column by column, in binlog order.

The second step proves the first: each image must end where the first step found its end.

Partial updates have additional data between their images. They are decoded in the first step, round by round, and put
in order afterwards.
"""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.base.errors import DecodeError, DoubtfulRowsError, TableStoppedError
from engine.base.wording import shell_word
from engine.decode.binlog_events import DELETES, METADATA_BYTES, ROWS_V2, UPDATES, Headers, Kind, TableMap, among
from engine.decode.extents import ends
from engine.decode.framing import Bytes, Offsets, words
from engine.decode.partial import PartialDocuments
from engine.decode.schema import Column, Table
from engine.decode.types import value_type
from engine.decode.types.base import Mapped, RecordBuffer, null_bits

INSERT, BEFORE, AFTER, DELETE = 0, 1, 2, 3
GONE = ("-U", "-D")
"""The kinds that leave no row under their image's key."""


@dataclass(frozen=True)
class Images:
    """Decoded images, in binlog order."""

    rows: list[pa.Array]
    """One array per column of the table."""
    event: Offsets
    """For each image, the index of its event among the headers."""
    place: Offsets
    """For each image, its number within the event."""
    kind: npt.NDArray[np.int8]
    """For each image: INSERT, BEFORE, AFTER or DELETE."""


def check_table_map(table: Table, mapped: TableMap) -> None:
    """Raises TableStoppedError if the columns in the binlog differ from the captured ones."""
    names = tuple(column.name for column in table.columns)
    fits = len(mapped.columns) == len(names) and all(map(_fits, table.columns, mapped.columns))
    if fits and mapped.names in (None, names):
        return
    raise TableStoppedError(
        f"{table.full_name}: the binlog describes other columns than those captured.",
        detail=f"Captured: {', '.join(names)}. In the binlog: {len(mapped.columns)} columns"
        + (f" ({', '.join(mapped.names)})." if mapped.names else ".")
        + " The table was altered. Published data is correct up to the change; nothing after it was guessed.",
        hint=f"Resnapshot it: tidemark redump SPEC --table {shell_word(table.full_name)}",
    )


def _fits(column: Column, mapped: Mapped) -> bool:
    """Whether the binlog announces the column's own type, with the layout that its decoder expects."""
    entry = value_type(column)
    return (
        mapped.code in entry.binlog
        and len(mapped.metadata) == METADATA_BYTES.get(mapped.code, 0)
        and entry.fits(column, mapped)
    )


def decode_images(
    buffer: Bytes,
    headers: Headers,
    chosen: Offsets,
    table: Table,
    mapped: TableMap,
    nulled: Counter[str] | None = None,
) -> Images:
    """Decode the row events `chosen` (indexes into `headers`), which all belong to `table`.

    nulled: counts invalid dates that became NULL, by column. Raises DecodeError if the bytes are not such images,
    TableStoppedError for images that lack columns.
    """
    at, updates = _first_images(buffer, headers, chosen, table)
    records = RecordBuffer.over(buffer, headers.end[chosen], Counter() if nulled is None else nulled)
    kind = np.where(updates, BEFORE, np.where(among(headers.kind[chosen], DELETES), DELETE, INSERT)).astype(np.int8)
    partial = headers.kind[chosen] == Kind.PARTIAL_UPDATE_ROWS
    if not partial.any():
        return _decode_whole(records, at, chosen, kind, table, mapped)
    rounds = _Rounds(table, mapped)
    for some, documents in ((~partial, None), (partial, PartialDocuments(table.columns))):
        if some.any():
            rounds.decode(records.rows(some), at[some], chosen[some], kind[some], documents)
    return rounds.ordered()


def count_images(buffer: Bytes, headers: Headers, chosen: Offsets, table: Table, mapped: TableMap) -> Offsets:
    """The number of images in each of the row events `chosen`, which all belong to `table`. An update has two images.

    Much cheaper than decoding them, unless they are partial updates. Raises as `decode_images`.
    """
    counts = np.zeros(len(chosen), np.int64)
    partial = headers.kind[chosen] == Kind.PARTIAL_UPDATE_ROWS
    if not partial.all():
        whole = chosen[~partial]
        at, _ = _first_images(buffer, headers, whole, table)
        _, _, of, _ = _extents(RecordBuffer.over(buffer, headers.end[whole], Counter()), at, table, mapped)
        counts[~partial] = np.bincount(of, minlength=len(whole))
    if partial.any():
        decoded = decode_images(buffer, headers, chosen[partial], table, mapped)
        counts[partial] = np.bincount(np.searchsorted(chosen[partial], decoded.event), minlength=int(partial.sum()))
    return counts


def _decode_whole(
    records: RecordBuffer, first: Offsets, event: Offsets, kind: npt.NDArray[np.int8], table: Table, mapped: TableMap
) -> Images:
    """Decode events without additional data, given the cursors on their first images.

    kind: of each event's first image.
    """
    start, end, of, place = _extents(records, first, table, mapped)
    updates = kind[of] == BEFORE
    if (np.bincount(of, minlength=len(kind))[kind == BEFORE] & 1).any():
        raise _lone_image(table)
    rows, after = _decode_round(replace(records, end=end), start, table.columns, mapped.columns, None)
    if (after != end).any():
        raise DecodeError(
            f"{table.full_name}: a row image in the binlog has another length than its columns.",
            detail="Nothing of it was used.",
            hint="Report this with the server's version.",
        )
    kinds = np.where(updates & (place & 1 == 1), AFTER, kind[of]).astype(np.int8)
    return Images(rows, event[of], place, kinds)


def _extents(
    records: RecordBuffer, at: Offsets, table: Table, mapped: TableMap
) -> tuple[Offsets, Offsets, Offsets, Offsets]:
    """For all images of some events, in binlog order, where each is.

    Where it starts and ends, its event's number, and its place in the event.
    """
    number, count = np.arange(len(at)), np.zeros(len(at), np.int64)
    rounds = []
    while len(number):
        end = ends(records, at, table.columns, mapped.columns)
        rounds.append((at, end, number))
        count[number] += 1
        at, more = end, end < records.end
        if not more.all():
            records, at, number = records.rows(more), end[more], number[more]
    first = np.cumsum(count) - count
    start, end = np.empty(int(count.sum()), np.int64), np.empty(int(count.sum()), np.int64)
    for place, (begins, after, number) in enumerate(rounds):
        slot = first[number] + place
        start[slot], end[slot] = begins, after
    of = np.repeat(np.arange(len(count)), count)
    return start, end, of, np.arange(len(of)) - first[of]


class _Rounds:
    """The images of row events that include partial updates, decoded round by round."""

    def __init__(self, table: Table, mapped: TableMap) -> None:
        self._table = table
        self._mapped = mapped
        self._batches: list[list[pa.Array]] = []
        self._events: list[Offsets] = []
        self._places: list[Offsets] = []
        self._kinds: list[npt.NDArray[np.int8]] = []

    def decode(
        self,
        records: RecordBuffer,
        at: Offsets,
        event: Offsets,
        kind: npt.NDArray[np.int8],
        documents: PartialDocuments | None,
    ) -> None:
        """Decode all images of some events, given the cursors on their first images.

        documents: set for partial updates only.
        """
        place = np.zeros(len(at), np.int64)
        while len(at):
            if documents is not None:
                at = documents.open(records, at, after=bool(kind[0] == AFTER))
            batch, at = _decode_round(records, at, self._table.columns, self._mapped.columns, documents)
            self._batches.append(batch)
            self._events.append(event)
            self._places.append(place)
            self._kinds.append(kind)
            more = at < records.end
            if (~more & (kind == BEFORE)).any():
                raise _lone_image(self._table)
            records, at, event, place = records.rows(more), at[more], event[more], place[more] + 1
            kind = kind[more]
            kind = np.where(kind == BEFORE, AFTER, np.where(kind == AFTER, BEFORE, kind)).astype(np.int8)

    def ordered(self) -> Images:
        """All images, in binlog order."""
        event, place, kind = np.concatenate(self._events), np.concatenate(self._places), np.concatenate(self._kinds)
        if len(self._batches) == 1:
            return Images(self._batches[0], event, place, kind)
        order = np.lexsort((place, event))
        slots = pa.array(order)
        arrays = [pa.concat_arrays(column).take(slots) for column in zip(*self._batches, strict=True)]
        return Images(arrays, event[order], place[order], kind[order])


def _lone_image(table: Table) -> DecodeError:
    return DecodeError(
        f"{table.full_name}: an update in the binlog has no after-image.", detail="Nothing of it was used."
    )


def _first_images(
    buffer: Bytes, headers: Headers, chosen: Offsets, table: Table
) -> tuple[Offsets, npt.NDArray[np.bool_]]:
    """The cursors on each event's first image, and a mask of the updates."""
    kinds, end = headers.kind[chosen], headers.end[chosen]
    at = headers.body[chosen] + 8
    version_2 = among(kinds, ROWS_V2)
    updates = among(kinds, UPDATES)
    extra = buffer[at].astype(np.int64) | buffer[at + 1].astype(np.int64) << 8
    at = at + np.where(version_2, extra, 0)
    count, bitmap = len(table.columns), (len(table.columns) + 7) // 8
    size = 1 if count < 251 else 3
    bitmaps = at + size
    first = bitmaps + bitmap * np.where(updates, 2, 1)
    if (first > end).any():
        raise DecodeError(
            f"{table.full_name}: a row event in the binlog is shorter than its header.",
            detail="Nothing of it was used.",
        )
    announced = words(buffer)[at] & np.uint64((1 << 8 * size) - 1)
    if (announced != np.uint64(count if size == 1 else 0xFC | count << 8)).any():
        raise DecodeError(
            f"{table.full_name}: a row event in the binlog has another number of columns than its table map.",
            detail="Nothing of it was used.",
        )
    _check_complete(buffer, bitmaps, np.where(updates, 2, 1), bitmap, table)
    return first, updates


def _check_complete(buffer: Bytes, at: Offsets, sets: Offsets, bitmap: int, table: Table) -> None:
    last = (1 << (len(table.columns) - 1) % 8 + 1) - 1
    for n in range(2 * bitmap):
        need = last if n % bitmap == bitmap - 1 else 0xFF
        there = sets > n // bitmap
        if ((buffer[at[there] + n] & need) != need).any():
            raise DoubtfulRowsError(
                f"{table.full_name}: the binlog contains a row image that lacks columns.",
                detail="A session wrote with binlog_row_image other than FULL. The missing values are unknown, "
                "and none was guessed.",
                hint="Set binlog_row_image = FULL on the source (`tidemark check SPEC` shows the statement), and end "
                "the sessions that set it otherwise.",
            )


def _decode_round(
    records: RecordBuffer,
    at: Offsets,
    columns: tuple[Column, ...],
    mapped: tuple[Mapped, ...],
    documents: PartialDocuments | None,
) -> tuple[list[pa.Array], Offsets]:
    """Decode the image at every cursor. Returns the columns and the cursors after the images."""
    start, arrays = at, []
    at = at + (len(columns) + 7) // 8
    if (at > records.end).any():
        raise DecodeError("A row image is shorter than its NULL bitmap.", detail="Nothing of it was used.")
    nulls = null_bits(records.buffer, start, len(columns))
    for n, (column, announced, null) in enumerate(zip(columns, mapped, nulls, strict=True)):
        if documents is not None and column.type == "json":
            array, at = documents.decode(n, records, at, null, column, announced)
        else:
            array, at = value_type(column).image(records, at, null, column, announced)
        arrays.append(array)
    return arrays, at

"""Reads a change log in the order of `_tm_seq`, in bounded memory, from a position of the binlog on.

The files' statistics say which `_tm_seq` each file has. Ours are sorted and do not overlap, so they are read one after
the other, in batches. Files of another tool may overlap or be unsorted: they are read in windows of `_tm_seq`. A binary
search finds the first file that reaches the position; files before it are not read.
"""

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from engine.capture.batches import batches_of, parquet_file, widest_row
from engine.capture.landing import PLACES
from engine.capture.position_order import orders_of
from engine.decode.schema import TM_POSITION, TM_REDUMP, TM_SEQ, TM_TS
from engine.destination.delta.log.table_opening import open_table
from engine.destination.delta.read.file_rows import rows_of
from engine.store.folder import Folder

BATCH_ROWS = 5_000
_BATCH_BYTES = 16 << 20
_NARROW = {*PLACES, TM_REDUMP}
_SAMPLED_FILES = 64


@dataclass(frozen=True)
class _Segment:
    """Files whose numbers do not overlap with those of other segments.

    `low` and `high`: the least and the largest `_tm_seq`.
    """

    low: int
    high: int
    rows: int
    files: tuple[str, ...]


class ChangeLog:
    """One version of a change log, whatever is committed meanwhile."""

    def __init__(self, folder: Folder) -> None:
        delta = open_table(folder)
        self.version = delta.version()
        self._folder = folder
        self._rows = rows_of(delta, folder)
        self._segments = list(_segments(delta, folder))

    def first(self) -> tuple[int, int] | None:
        """The position, packed, and the `_tm_seq` of its first change; None for an empty log."""
        for segment in self._segments:
            for part in self._changes(segment):
                if part.num_rows:
                    return orders_of(part[TM_POSITION].slice(0, 1).to_pylist())[0], part[TM_SEQ][0].as_py()
        return None

    def row_bytes(self) -> int:
        """The average bytes of a row in memory where they are widest, by some of its files."""
        files = [name for segment in self._segments for name in segment.files]
        return _row_bytes(self._folder, files[:: len(files) // _SAMPLED_FILES + 1])

    def since(self, order: int, columns: Sequence[str], seq: int = 0) -> Generator[pa.Table, None, None]:
        """Yield the rows in the order of `_tm_seq`, from the first segment on that has changes after this position.

        seq: the least `_tm_seq` that is wanted. Positions before it may be those of another server. Some earlier rows
        are yielded.
        """
        segments = [segment for segment in self._segments if segment.high >= seq]
        first = bisect_right(range(len(segments)), order, key=lambda n: self._last(segments[: n + 1]))
        for segment in segments[first:]:
            yield from self._read_files(segment, columns)

    def _last(self, segments: Sequence[_Segment]) -> int:
        """The position of the last change in these segments; -1 if there is none."""
        orders_by_segment = (self._orders(segment) for segment in reversed(segments))
        return next((max(orders) for orders in orders_by_segment if orders), -1)

    def _orders(self, segment: _Segment) -> list[int]:
        """The positions of a segment's changes."""
        return [order for part in self._changes(segment) for order in orders_of(part[TM_POSITION].to_pylist())]

    def _changes(self, segment: _Segment) -> Iterator[pa.Table]:
        """Yield the places of a segment's changes, without rows that were read from the table."""
        for part in self._read_files(segment, PLACES):
            yield part.filter(pc.is_valid(part[TM_TS]))

    def _read_files(self, segment: _Segment, columns: Sequence[str]) -> Iterator[pa.Table]:
        if (
            len(segment.files) == 1
            and self._rows.deletes[segment.files[0]] is None
            and _is_sorted(self._folder, segment.files[0])
        ):
            yield from self._stream(segment.files[0], columns)
            return
        most = _rows_at_once(self._folder, segment.files, columns)
        step = (segment.high - segment.low) // (segment.rows // most + 1) + 1
        for low in range(segment.low, segment.high + 1, step):
            inside = (pc.field(TM_SEQ) >= low) & (pc.field(TM_SEQ) < min(low + step, segment.high + 1))
            yield self._rows.table(columns, inside).sort_by(TM_SEQ)

    def _stream(self, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The rows of a sorted file. It may lack columns of the table, or have narrower types."""
        schema = pa.schema([self._rows.schema.field(column) for column in columns])
        rows = _rows_at_once(self._folder, [name], columns)
        with self._folder.open(name) as source:
            yield from batches_of(source, schema, rows)


def _row_bytes(folder: Folder, files: Sequence[str]) -> int:
    return int(widest_row(_metadata(folder, name) for name in files)) + 1


def _metadata(folder: Folder, name: str) -> pq.FileMetaData:
    with folder.open(name) as source:
        return pq.read_metadata(source)


def _numbers(folder: Folder, name: str) -> pa.ChunkedArray:
    with folder.open(name) as source, parquet_file(source) as file:
        return file.read(columns=[TM_SEQ])[TM_SEQ]


def _rows_at_once(folder: Folder, files: Sequence[str], columns: Sequence[str]) -> int:
    if set(columns) <= _NARROW:
        return BATCH_ROWS
    return max(min(BATCH_ROWS, _BATCH_BYTES // _row_bytes(folder, files)), 1)


def _is_sorted(folder: Folder, name: str) -> bool:
    numbers = _numbers(folder, name).combine_chunks().to_numpy()
    return bool((numbers[1:] >= numbers[:-1]).all())


def _segments(delta: DeltaTable, folder: Folder) -> Iterator[_Segment]:
    """The files, those that overlap together, in the order of `_tm_seq`."""
    segment: _Segment | None = None
    for low, high, rows, name in sorted(_bounds(pa.table(delta.get_add_actions(flatten=True)), folder)):
        if segment is None or low > segment.high:
            if segment is not None:
                yield segment
            segment = _Segment(low, high, rows, (name,))
        else:
            segment = _Segment(segment.low, max(segment.high, high), segment.rows + rows, (*segment.files, name))
    if segment is not None:
        yield segment


def _bounds(files: pa.Table, folder: Folder) -> Iterator[tuple[int, int, int, str]]:
    """Least and largest `_tm_seq`, rows and name of each file that has rows."""
    names = ("min._tm_seq", "max._tm_seq", "num_records")
    described = [files[name].to_pylist() if name in files.column_names else [None] * files.num_rows for name in names]
    for path, low, high, rows in zip(files["path"].to_pylist(), *described, strict=True):
        file = unquote(path)
        if None not in (low, high, rows):
            yield low, high, rows, file
        elif rows := _metadata(folder, file).num_rows:  # a file of another tool
            numbers = _numbers(folder, file)
            yield pc.min(numbers).as_py(), pc.max(numbers).as_py(), rows, file

"""Copy on write: rewrites a mirror's files when changes are merged into them.

`MirrorFiles` has the files that the mirror will have after the commit in preparation. Chunks are added and changes are merged in
any number of steps; then one commit takes the mirror to the result. So no version ever shows part of a step, such as half of an
update that moves a row to another key, or one of several ranges.

`sink.delta` commits the result with a transaction identifier, which makes a merge exactly-once (`sink.owned`).

A merge of change files, in binlog order:

1. The newest image of each key decides. Only the keys are kept in memory, however wide the rows are.
2. For a mirror file whose statistics allow one of the keys, only the key columns are read. A file without any of the keys is left
   alone. Otherwise its other rows are written to a new file.
3. Newest images of existing rows are written to new files, ordered by key. Small touched files are rewritten together with them, so
   that merges do not leave ever more small files.

The result for a key does not depend on how many rows the mirror has of it: all are removed, one is added.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.capture.chunk.backfill import among, last_of_each
from engine.capture.files import DataFile, FileWriter
from engine.decode.arrow_schema import conformed
from engine.decode.images import GONE
from engine.decode.schema import Table
from engine.errors import MissingFilesError
from engine.sink.evolution import mirror_schema

BATCH_ROWS = 64 << 10
SMALL_BYTES = 8 << 20
"""Smaller touched files are rewritten together with others."""
TARGET_BYTES = 64 << 20
_MIN_ROWS, _MAX_ROWS = 10_000, 2_000_000
_SORTED_ROWS = 500_000
_WRITERS = min(os.cpu_count() or 1, 4)
_ROW_BYTES = 100
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Newest:
    """The newest image of each key in some change files."""

    keys: pa.Table
    """The key columns, one row per key."""
    rows: tuple[npt.NDArray[np.int64], ...]
    """By file, the ascending numbers of the newest images that are existing rows."""

    @cached_property
    def first(self) -> npt.NDArray[np.int64] | None:
        """The values of the first key column in order; None unless it is an integer."""
        column = self.keys.columns[0]
        return np.sort(column.to_numpy()) if pa.types.is_integer(column.type) else None

    def may_be_in(self, file: DataFile) -> bool:
        """Whether a file's statistics allow one of the keys."""
        name = self.keys.column_names[0]
        if not self.keys.num_rows or self.first is None or name not in file.low or name not in file.high:
            return bool(self.keys.num_rows)
        ends = np.searchsorted(self.first, file.low[name]), np.searchsorted(self.first, file.high[name], side="right")
        return bool(ends[0] < ends[1])


@dataclass
class MirrorFiles:
    """The files of a mirror after the commit in preparation."""

    folder: Path
    """The folder of the files."""
    schema: pa.Schema
    """The mirror's columns, including those that the source has dropped."""
    table: Table
    """The table as currently published."""
    before: Sequence[DataFile]
    """The files of the version that the commit is based on."""
    files: dict[str, DataFile] = field(init=False)
    _written: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.files = {file.name: file for file in self.before}

    def clear(self) -> None:
        """Remove all files."""
        self.files = {}

    def add(self, files: Sequence[DataFile]) -> None:
        """Add chunks, whose rows the mirror does not have."""
        self.files.update({file.name: file for file in files})

    @property
    def added(self) -> list[DataFile]:
        """The files that the commit adds."""
        known = {file.name for file in self.before}
        return [file for file in self.files.values() if file.name not in known]

    @property
    def removed(self) -> list[DataFile]:
        """The files that the commit removes."""
        return [file for file in self.before if file.name not in self.files]

    def merge(self, paths: Sequence[Path]) -> int:
        """Merge the changes of these files, in order, into the mirror. Returns the number of keys."""
        newest = newest_images(paths, self.table)
        touched = {name: mask for name, file in self.files.items() if (mask := self._mask(file, newest)) is not None}
        small = [name for name in touched if self.files[name].bytes < SMALL_BYTES]
        most = self._file_rows()
        with ThreadPoolExecutor(_WRITERS) as pool:
            large = [pool.submit(self._write, self._other_rows(n, touched[n]), most) for n in touched if n not in small]
            try:
                rows = chain.from_iterable(self._other_rows(name, touched[name]) for name in small)
                written = self._write(self._ordered(chain(rows, self._images(paths, newest))), most)
            finally:
                parts = [job.result() for job in large]  # each job records its files even if another fails
        for name in touched:
            del self.files[name]
            self._forget(name)
        self.add([*chain.from_iterable(parts), *written])
        return int(newest.keys.num_rows)

    def discard(self) -> None:
        """Delete the files written for an abandoned commit."""
        for name in list(self._written):
            self._forget(name)

    def drop_unused(self) -> None:
        """After the commit: delete intermediate files that are not part of it."""
        for name in self._written - self.files.keys():
            self._forget(name)

    def _forget(self, name: str) -> None:
        if name in self._written:
            (self.folder / name).unlink(missing_ok=True)
            self._written.discard(name)

    def _mask(self, file: DataFile, newest: Newest) -> Mask | None:
        """Which rows of a file have one of the keys; None if no row has."""
        if not newest.may_be_in(file):
            return None
        found = among(self._read(file.name, self.table.key), newest.keys)
        return found if found.any() else None

    def _read(self, name: str, columns: Sequence[str]) -> pa.Table:
        """The key columns of a file, normalised for comparison."""
        schema = mirror_schema(self.table)
        wanted = pa.schema([schema.field(column) for column in columns])
        with _opened(self.folder / name) as file:
            return comparable(conformed(file.read(columns=list(columns)), wanted))

    def _other_rows(self, name: str, mask: Mask) -> Iterator[pa.Table]:
        """The rows of a file that remain."""
        begin = 0
        with _opened(self.folder / name) as file:
            for batch in file.iter_batches(BATCH_ROWS):
                stays = ~mask[begin : begin + batch.num_rows]
                begin += batch.num_rows
                if stays.any():
                    # Cast first: files by other tools may have types (string_view) that Arrow cannot filter.
                    yield conformed(pa.Table.from_batches([batch]), self.schema).filter(pa.array(stays))

    def _images(self, paths: Sequence[Path], newest: Newest) -> Iterator[pa.Table]:
        """The existing rows in the newest images. Columns that the source has dropped are NULL."""
        published = mirror_schema(self.table)
        for path, chosen in zip(paths, newest.rows, strict=True):
            begin = 0
            with _opened(path) as file:
                columns = [name for name in published.names if name in file.schema_arrow.names]
                for batch in file.iter_batches(BATCH_ROWS, columns=columns) if len(chosen) else ():
                    end = begin + batch.num_rows
                    here = chosen[np.searchsorted(chosen, begin) : np.searchsorted(chosen, end)] - begin
                    begin = end
                    if len(here):
                        rows = conformed(pa.Table.from_batches([batch]).take(pa.array(here)), published)
                        yield conformed(rows, self.schema)

    def _ordered(self, parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """The rows ordered by key, a bounded number at a time."""
        collected, rows = list[pa.Table](), 0
        for part in parts:
            collected.append(part)
            rows += part.num_rows
            if rows >= _SORTED_ROWS:
                yield self._sorted(collected)
                collected, rows = [], 0
        if collected:
            yield self._sorted(collected)

    def _sorted(self, parts: Sequence[pa.Table]) -> pa.Table:
        return pa.concat_tables(parts).sort_by([(name, "ascending") for name in self.table.key])

    def _write(self, parts: Iterable[pa.Table], most: int) -> list[DataFile]:
        """Write rows to files of at most `most` rows."""
        done, writer, rows = list[DataFile](), self._writer(), 0
        try:
            for part in parts:
                for begin in range(0, part.num_rows, BATCH_ROWS):
                    batch = part.slice(begin, BATCH_ROWS)
                    writer.write(batch)
                    rows += batch.num_rows
                    if rows >= most:
                        done += self._closed(writer)
                        writer, rows = self._writer(), 0
            return done + self._closed(writer)
        except BaseException:
            writer.discard()
            raise

    def _closed(self, writer: FileWriter) -> list[DataFile]:
        files = writer.close()
        self._written.update(file.name for file in files)
        return files

    def _writer(self) -> FileWriter:
        return FileWriter(self.folder, "merge", self.schema, (*self.table.key, "_tm_seq"))

    def _file_rows(self) -> int:
        """The rows in a file of `TARGET_BYTES`, estimated from the existing files."""
        known = [file for file in self.files.values() if file.rows > 0]
        rows, size = sum(file.rows for file in known), sum(file.bytes for file in known)
        each = size / rows if rows > _MIN_ROWS else _ROW_BYTES
        return int(min(max(TARGET_BYTES / each, _MIN_ROWS), _MAX_ROWS))


def newest_images(paths: Sequence[Path], table: Table) -> Newest:
    """The newest image of each key in change files, given in binlog order. Raises MissingFilesError."""
    schema = mirror_schema(table)
    wanted = pa.schema([*(schema.field(name) for name in table.key), pa.field("_tm_kind", pa.string())])
    extra = [pa.field("\0file", pa.int64()), pa.field("\0row", pa.int64())]
    collected, waiting, rows = pa.schema([*wanted, *extra]).empty_table(), list[pa.Table](), 0
    for number, path in enumerate(paths):
        with _opened(path) as file:
            part = conformed(file.read(columns=wanted.names), wanted)
        where = np.full(part.num_rows, number), np.arange(part.num_rows)
        waiting.append(part.append_column(extra[0], pa.array(where[0])).append_column(extra[1], pa.array(where[1])))
        rows += part.num_rows
        if rows > max(collected.num_rows, BATCH_ROWS):
            collected, waiting, rows = _reduced([collected, *waiting], table), [], 0
    collected = _reduced([collected, *waiting], table)
    exists = collected.filter(pc.invert(pc.is_in(collected["_tm_kind"], pa.array(GONE))))
    files, numbers = exists["\0file"].to_numpy(), exists["\0row"].to_numpy()
    chosen = tuple(np.sort(numbers[files == number]) for number in range(len(paths)))
    return Newest(comparable(collected.select(table.key)), chosen)


def _reduced(parts: Sequence[pa.Table], table: Table) -> pa.Table:
    rows = pa.concat_tables(parts)
    return rows.take(pa.array(last_of_each(comparable(rows.select(table.key)))))


def comparable(keys: pa.Table) -> pa.Table:
    """Keys normalised for comparison: -0.0 is the same key as 0.0."""
    for n, column in enumerate(keys.columns):
        if pa.types.is_floating(column.type):
            keys = keys.set_column(n, keys.field(n), pc.add(column, 0.0))
    return keys


def _opened(path: Path) -> pq.ParquetFile:
    with suppress(FileNotFoundError):
        return pq.ParquetFile(path)
    raise MissingFilesError(
        f"The data file {path} is gone.",
        detail="It belongs to the table, or was about to: a VACUUM, a cleaner or a restore may have removed it. Its content is "
        "unknown; nothing was written.",
        hint="Restore the file from a copy, or resnapshot the table: tidemark redump SPEC --table …",
    )

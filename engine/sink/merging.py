"""Copy on write: what a mirror's files become when changes are merged into them.

`MirrorFiles` holds the files that a commit which is being prepared will leave. Chunks are added to it, and changes are merged into
it, in any number of steps; one commit then takes the mirror from the version before to what is left. So no version ever shows a
part of a step: neither half of an update that moves a row to another key, nor one of several ranges.

A merge of change files, which come in the order of the log:

1. the newest image of each key decides. Only the keys are held in memory, however wide the rows are;
2. a file of the mirror is read by its key columns alone, if its statistics allow that it holds one of the keys, and is left alone
   when it holds none. Else its other rows are written to a new file;
3. newest images of rows that exist are written to new files, ordered by key. Small files that a merge touches end up with them, so
   that merges do not leave ever more small files.

What is done for one key does not depend on how often the mirror has a row of it: all of them go, one comes.
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
"""A touched file that is smaller is written together with others."""
TARGET_BYTES = 64 << 20
_FEWEST_ROWS, _MOST_ROWS = 10_000, 2_000_000
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
    """For each file the numbers of the images that are rows of the source, ascending."""

    @cached_property
    def first(self) -> npt.NDArray[np.int64] | None:
        """The values of the first key column in order; None unless it is an integer."""
        column = self.keys.columns[0]
        return np.sort(column.to_numpy()) if pa.types.is_integer(column.type) else None

    def may_be_in(self, file: DataFile) -> bool:
        """Whether the statistics of a file allow that it holds one of the keys."""
        name = self.keys.column_names[0]
        if not self.keys.num_rows or self.first is None or name not in file.low or name not in file.high:
            return bool(self.keys.num_rows)
        ends = np.searchsorted(self.first, file.low[name]), np.searchsorted(self.first, file.high[name], side="right")
        return bool(ends[0] < ends[1])


@dataclass
class MirrorFiles:
    """The files of a mirror as the commit that is being prepared will leave them."""

    folder: Path
    """The folder in which they lie."""
    schema: pa.Schema
    """The mirror's columns, those included that the source has dropped."""
    table: Table
    """The table as it is published now."""
    before: Sequence[DataFile]
    """The files of the version that the commit rests on."""
    files: dict[str, DataFile] = field(init=False)
    _written: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.files = {file.name: file for file in self.before}

    def clear(self) -> None:
        """Leave nothing of what the mirror holds."""
        self.files = {}

    def add(self, files: Sequence[DataFile]) -> None:
        """Chunks, whose rows the mirror does not have."""
        self.files.update({file.name: file for file in files})

    @property
    def added(self) -> list[DataFile]:
        """What the commit adds."""
        known = {file.name for file in self.before}
        return [file for file in self.files.values() if file.name not in known]

    @property
    def removed(self) -> list[DataFile]:
        """What the commit removes."""
        return [file for file in self.before if file.name not in self.files]

    def merge(self, paths: Sequence[Path]) -> int:
        """Bring the changes of these files, in their order, into the mirror; returns how many keys they concern."""
        newest = newest_images(paths, self.table)
        touched = {name: mask for name, file in self.files.items() if (mask := self._mask(file, newest)) is not None}
        small = [name for name in touched if self.files[name].bytes < SMALL_BYTES]
        most = self._file_rows()
        with ThreadPoolExecutor(_WRITERS) as pool:
            large = [pool.submit(self._write, self._others(n, touched[n]), most) for n in touched if n not in small]
            try:
                rows = chain.from_iterable(self._others(name, touched[name]) for name in small)
                written = self._write(self._ordered(chain(rows, self._images(paths, newest))), most)
            finally:
                parts = [job.result() for job in large]  # each has noted what it wrote, whatever fails
        for name in touched:
            del self.files[name]
            self._forget(name)
        self.add([*chain.from_iterable(parts), *written])
        return int(newest.keys.num_rows)

    def discard(self) -> None:
        """The commit is not made: delete the files that were written for it."""
        for name in list(self._written):
            self._forget(name)

    def drop_unused(self) -> None:
        """The commit is made: delete files that were written on the way and are no part of it."""
        for name in self._written - self.files.keys():
            self._forget(name)

    def _forget(self, name: str) -> None:
        if name in self._written:
            (self.folder / name).unlink(missing_ok=True)
            self._written.discard(name)

    def _mask(self, file: DataFile, newest: Newest) -> Mask | None:
        """Which rows of a file have one of the keys; None when none has."""
        if not newest.may_be_in(file):
            return None
        found = among(self._read(file.name, self.table.key), newest.keys)
        return found if found.any() else None

    def _read(self, name: str, columns: Sequence[str]) -> pa.Table:
        """The key columns of a file, as they are compared."""
        schema = mirror_schema(self.table)
        wanted = pa.schema([schema.field(column) for column in columns])
        with _opened(self.folder / name) as file:
            return comparable(conformed(file.read(columns=list(columns)), wanted))

    def _others(self, name: str, mask: Mask) -> Iterator[pa.Table]:
        """The rows of a file that stay."""
        begin = 0
        with _opened(self.folder / name) as file:
            for batch in file.iter_batches(BATCH_ROWS):
                stays = ~mask[begin : begin + batch.num_rows]
                begin += batch.num_rows
                if stays.any():
                    # Cast first: files of other tools may have types (string_view) that Arrow does not filter.
                    yield conformed(pa.Table.from_batches([batch]), self.schema).filter(pa.array(stays))

    def _images(self, paths: Sequence[Path], newest: Newest) -> Iterator[pa.Table]:
        """The rows that the newest images say are there. Columns that the source has dropped are NULL in them."""
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
        """The rows in the order of their keys, a bounded number at a time."""
        held, rows = list[pa.Table](), 0
        for part in parts:
            held.append(part)
            rows += part.num_rows
            if rows >= _SORTED_ROWS:
                yield self._sorted(held)
                held, rows = [], 0
        if held:
            yield self._sorted(held)

    def _sorted(self, parts: Sequence[pa.Table]) -> pa.Table:
        return pa.concat_tables(parts).sort_by([(name, "ascending") for name in self.table.key])

    def _write(self, parts: Iterable[pa.Table], most: int) -> list[DataFile]:
        """Write rows to files of at most so many."""
        done, writer, rows = list[DataFile](), self._writer(), 0
        try:
            for part in parts:
                for begin in range(0, part.num_rows, BATCH_ROWS):
                    some = part.slice(begin, BATCH_ROWS)
                    writer.write(some)
                    rows += some.num_rows
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
        """How many rows a file of `TARGET_BYTES` has, by those that are there."""
        known = [file for file in self.files.values() if file.rows > 0]
        rows, size = sum(file.rows for file in known), sum(file.bytes for file in known)
        each = size / rows if rows > _FEWEST_ROWS else _ROW_BYTES
        return int(min(max(TARGET_BYTES / each, _FEWEST_ROWS), _MOST_ROWS))


def newest_images(paths: Sequence[Path], table: Table) -> Newest:
    """The newest image of each key in change files, which come in the order of the log. Raises MissingFilesError."""
    schema = mirror_schema(table)
    wanted = pa.schema([*(schema.field(name) for name in table.key), pa.field("_tm_kind", pa.string())])
    extra = [pa.field("\0file", pa.int64()), pa.field("\0row", pa.int64())]
    held, waiting, rows = pa.schema([*wanted, *extra]).empty_table(), list[pa.Table](), 0
    for number, path in enumerate(paths):
        with _opened(path) as file:
            part = conformed(file.read(columns=wanted.names), wanted)
        where = np.full(part.num_rows, number), np.arange(part.num_rows)
        waiting.append(part.append_column(extra[0], pa.array(where[0])).append_column(extra[1], pa.array(where[1])))
        rows += part.num_rows
        if rows > max(held.num_rows, BATCH_ROWS):
            held, waiting, rows = _reduced([held, *waiting], table), [], 0
    held = _reduced([held, *waiting], table)
    exists = held.filter(pc.invert(pc.is_in(held["_tm_kind"], pa.array(GONE))))
    files, numbers = exists["\0file"].to_numpy(), exists["\0row"].to_numpy()
    chosen = tuple(np.sort(numbers[files == number]) for number in range(len(paths)))
    return Newest(comparable(held.select(table.key)), chosen)


def _reduced(parts: Sequence[pa.Table], table: Table) -> pa.Table:
    rows = pa.concat_tables(parts)
    return rows.take(pa.array(last_of_each(comparable(rows.select(table.key)))))


def comparable(keys: pa.Table) -> pa.Table:
    """Keys as they are compared: -0.0 is the same key as 0.0."""
    for n, column in enumerate(keys.columns):
        if pa.types.is_floating(column.type):
            keys = keys.set_column(n, keys.field(n), pc.add(column, 0.0))
    return keys


def _opened(path: Path) -> pq.ParquetFile:
    with suppress(FileNotFoundError):
        return pq.ParquetFile(path)
    raise MissingFilesError(
        f"The data file {path} is gone.",
        detail="It is part of the table, or was to be: a VACUUM, a cleaner or a restore may have removed it. What it held is not "
        "known here; nothing was written.",
        hint="Restore the file from a copy, or resnapshot the table: tidemark redump SPEC --table …",
    )

"""Merges changes into a mirror's files: merge on read, or copy on write.

`MirrorFiles` has the files that the mirror will have after the commit in preparation. Chunks are added and changes are
merged in any number of steps; then one commit takes the mirror to the result. So no version ever shows part of a step,
such as half of an update that moves a row to another key, or one of several ranges.

`mirror_table` commits the result with a transaction identifier, which makes a merge exactly-once (`table_pair`).

A merge of change files, in binlog order:

1. The newest image of each key decides (`newest_images`). Only the keys are kept in memory, however wide the rows are,
   and those of a giant transaction in parts: the steps are then taken for one part after the other.
2. In a mirror file whose statistics allow one of the keys, the rows are found by an index (`key_index`), or, in a small
   file, by the key columns of the row groups that may have one. A file without any of the keys is left alone.
3. Merge on read: the file's deletion vector deletes the rows with these keys. Copy on write: the file's other rows are
   written to a new file.
4. Newest images of existing rows are written to new files, ordered by key. In copy on write, small touched files are
   rewritten together with them, so that merges do not leave ever more small files. In merge on read,
   `maintenance.optimize` does that.

The result for a key does not depend on how many rows the mirror has of it: all are removed, one is added.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap

from engine.capture.batches import BATCH_BYTES, BATCH_ROWS, batches, widest_row
from engine.capture.chunk.backfill import among
from engine.capture.files import DataFile, FileWriter
from engine.decode.arrow_schema import conformed
from engine.decode.framing import Mask
from engine.decode.schema import TM_SEQ, Table
from engine.destination.delta.log.deletion_vectors import Descriptor, positions, read_vector, write_vectors
from engine.destination.delta.log.delta_actions import StoredFile
from engine.destination.delta.merge.key_index import LEAST_ROWS, KeyIndex
from engine.destination.delta.merge.newest_images import ChangeFiles, Newest, comparable, newest_parts, open_parquet
from engine.destination.delta.schema_evolution import mirror_schema
from engine.spec.merge_numbers import COPIED, MOST_BYTES, MOST_ROWS
from engine.store.folder import Folder

SMALL_BYTES = 4 << 20
"""Copy on write: smaller touched files are rewritten together with others."""
_MIN_ROWS = 64
_KNOWN_ROWS = 10_000
"""The size of a row is estimated from so many rows, or from `SMALL_BYTES` of them."""
_SORTED_ROWS, _SORTED_BYTES, _REWRITTEN_BYTES = 500_000, 64 << 20, 128 << 20
"""Rows sorted at once, in merges and in rewrites, where one order leaves the narrowest files. They are in
memory twice."""
_WIDE_BYTES, _WIDE_SORTED_BYTES = 2 << 10, 16 << 20
"""Wide rows are few in a file, so their order narrows nothing: fewer bytes of them are sorted at once."""
_WRITERS = min(os.cpu_count() or 1, 4)
_ROW_BYTES = 100


@dataclass
class MirrorFiles:
    """The files of a mirror after the commit in preparation."""

    folder: Folder
    """The folder of the files."""
    schema: pa.Schema
    """The mirror's columns, including those that the source has dropped."""
    table: Table
    """The table as currently published."""
    before: Sequence[StoredFile]
    """The files of the version that the commit is based on."""
    on_read: bool = False
    """Whether changes are merged on read; otherwise on write."""
    index: KeyIndex | None = None
    """Finds rows in large files; without it, their keys are read."""
    files: dict[str, StoredFile] = field(init=False)
    _vectors: dict[str, BitMap] = field(default_factory=dict)
    """The deletion vectors that the commit changes, by data file."""
    _read_vectors: dict[Descriptor, BitMap] = field(default_factory=dict)
    """The deletion vectors of the version before, as far as they were read."""
    _vector_files: dict[str, bytes] = field(default_factory=dict)
    """The files that they were read from."""
    _written_files: dict[str, int] = field(default_factory=dict)
    """The files written for the commit, relative to the folder, and their bytes."""

    def __post_init__(self) -> None:
        self.files = {file.name: file for file in self.before}

    def clear(self) -> None:
        """Remove all files."""
        self.files = {}
        self._vectors = {}

    def add(self, files: Sequence[DataFile]) -> None:
        """Add files with rows that the mirror does not have, such as chunks."""
        self.files.update({file.name: StoredFile(**file.as_dict()) for file in files})

    @property
    def added_files(self) -> list[StoredFile]:
        """The files that the commit adds, also those with another deletion vector."""
        files_before = {file.name: file for file in self.before}
        return [
            file for file in self.files.values() if file.name not in files_before or files_before[file.name] != file
        ]

    @property
    def removed_files(self) -> list[StoredFile]:
        """The files that the commit removes, also those with another deletion vector."""
        return [file for file in self.before if self.files.get(file.name) != file]

    def merge(self, changes: ChangeFiles) -> int:
        """Merge the changes into the mirror. Returns the number of keys."""
        before, keys = list(self.files), 0
        for newest in newest_parts(changes, self.table):
            # Merge on read writes the rows of each part to files of their own, which have no keys of the next parts.
            candidates = [name for name in before if name in self.files] if self.on_read else list(self.files)
            touched_rows = {
                name: rows for name in candidates if (rows := self._rows_with_keys(self.files[name], newest))
            }
            if self.on_read:
                for name, rows in touched_rows.items():
                    self._delete(name, rows)
                self.add(self._write(self._order(self._images(changes, newest)), self.file_rows()))
            else:
                self._rewrite_touched(changes, newest, touched_rows)
            keys += newest.keys.num_rows
            del newest, touched_rows  # otherwise they are in memory while the next part is read
        return keys

    def _rewrite_touched(self, changes: ChangeFiles, newest: Newest, rows_of: Mapping[str, BitMap]) -> None:
        masks = {name: self._mask(name, rows) for name, rows in rows_of.items()}
        small_files = [name for name in masks if self.files[name].bytes < SMALL_BYTES]
        max_rows = self.file_rows()
        is_wide = any(self._is_wide(name) for name in masks)
        with ThreadPoolExecutor(1 if is_wide else _WRITERS) as pool:
            jobs = [
                pool.submit(self._write, self._other_rows(n, masks[n]), max_rows) for n in masks if n not in small_files
            ]
            if is_wide:
                wait(jobs)
            try:
                rows = chain.from_iterable(self._other_rows(name, masks[name]) for name in small_files)
                new_files = self._write(self._order(chain(rows, self._images(changes, newest))), max_rows)
            finally:
                parts = [job.result() for job in jobs]  # each job records its files even if another fails
        for name in masks:
            self._drop(name)
        self.add([*chain.from_iterable(parts), *new_files])

    def _is_wide(self, name: str) -> bool:
        with open_parquet(self.folder, name) as file:
            return widest_row([file.metadata]) > _WIDE_BYTES

    def rewrite(
        self, names: Sequence[str], key_range: tuple[Any, Any] | None = None, range_names: Sequence[str] = ()
    ) -> None:
        """Write the rows of files to new files, in key order, without deleted rows.

        key_range: the first and the last value of the first key column; rows in between are moved out of the files
        `range_names` too. A single file is not sorted again: it stays in its order.
        """
        rows = [self._other_rows(name, np.zeros(self._count(name), bool)) for name in names]
        moved_rows = (
            {name: self._mask_between(name, *key_range) for name in range_names} if key_range is not None else {}
        )
        rows += [self._other_rows(name, ~mask) for name, mask in moved_rows.items() if mask.any()]
        if len(rows) == 1:
            new_files = self._write(rows[0], self.file_rows())
        else:
            ordered_rows = self._order(chain.from_iterable(rows), _REWRITTEN_BYTES)
            new_files = self._write(ordered_rows, self.file_rows())
        for name in names:
            self._drop(name)
        for name, mask in moved_rows.items():
            if mask.any():
                self._delete(name, _positions_in(mask))
        self.add(new_files)

    def live_range(self, name: str) -> tuple[Any, Any]:
        """The smallest and the largest value of the first key column among a file's rows that are not deleted."""
        key = self.table.key[0]
        column = self._read_keys(name, [key])[key].filter(pa.array(self._live(name)))
        ends = pc.min_max(column).as_py()
        return ends["min"], ends["max"]

    def finish(self) -> None:
        """Write the changed deletion vectors. Call it before `added_files` and `removed_files`."""
        changed_vectors = {name: rows for name, rows in self._vectors.items() if name in self.files}
        for name, vector in zip(
            changed_vectors, write_vectors(self.folder, list(changed_vectors.values())), strict=True
        ):
            self.files[name] = replace(self.files[name], vector=vector)
            file = str(vector.file)  # one for all of them
            self._written_files[file] = max(self._written_files.get(file, 0), vector.end)
        self._vectors = {}

    def _drop(self, name: str) -> None:
        del self.files[name]
        self._vectors.pop(name, None)
        self._forget(name)

    def _delete(self, name: str, rows: BitMap) -> None:
        """Delete rows of a file by its deletion vector, and the file with its last row."""
        deleted_rows = self._deleted_rows(name) | rows
        if len(deleted_rows) == self._count(name):
            self._drop(name)
        else:
            self._vectors[name] = deleted_rows

    def _deleted_rows(self, name: str) -> BitMap:
        if name in self._vectors:
            return self._vectors[name]
        vector = self.files[name].vector
        if vector is None:
            return BitMap()
        if vector not in self._read_vectors:
            self._read_vectors[vector] = read_vector(self.folder, vector, self._vector_files)
        return self._read_vectors[vector]

    def _live(self, name: str) -> Mask:
        """Which rows of a file are not deleted."""
        return ~self._mask(name, self._deleted_rows(name))

    def _count(self, name: str) -> int:
        """The number of rows in a file, deleted ones included."""
        if (rows := self.files[name].rows) >= 0:
            return rows
        with open_parquet(self.folder, name) as file:
            return int(file.metadata.num_rows)

    @property
    def written_bytes(self) -> int:
        """The size of the files written for the commit, deletion vectors included."""
        return sum(self._written_files.values())

    def discard(self) -> None:
        """Delete the files written for an abandoned commit."""
        for name in list(self._written_files):
            self._forget(name)

    def drop_unused(self) -> None:
        """After the commit: delete intermediate files that are not part of it."""
        vectors = {file.vector.file for file in self.files.values() if file.vector is not None}
        for name in self._written_files.keys() - self.files.keys() - vectors:
            self._forget(name)

    def _forget(self, name: str) -> None:
        if name in self._written_files:
            self.folder.delete([name])
            del self._written_files[name]

    def _rows_with_keys(self, file: StoredFile, newest: Newest) -> BitMap:
        """The rows of a file that are not deleted and have one of the keys."""
        if not newest.may_be_in(file):
            return BitMap()
        matches = self._find_in_index(file, newest)
        if matches is None:
            matches = _positions_in(self._scan(file, newest))
        return matches - self._deleted_rows(file.name) if matches else matches

    def _find_in_index(self, file: StoredFile, newest: Newest) -> BitMap | None:
        """The rows with one of the keys, by the index; None if the file is not indexed."""
        if self.index is None or self._count(file.name) < LEAST_ROWS or newest.codes is None:
            return None
        rows = self.index.find(file.name, newest.codes, lambda: self._read_keys(file.name, self.table.key))
        return None if rows is None else BitMap(rows.astype(np.uint32))

    def _mask(self, name: str, rows: BitMap) -> Mask:
        """A file's rows as a mask."""
        mask = np.zeros(self._count(name), bool)
        mask[positions(rows)] = True
        return mask

    def _scan(self, file: StoredFile, newest: Newest) -> Mask:
        """Which rows have one of the keys, by the key columns of the row groups that may have one."""
        mask, begin = np.zeros(self._count(file.name), bool), 0
        with open_parquet(self.folder, file.name) as data:
            for group in range(data.num_row_groups):
                rows = data.metadata.row_group(group).num_rows
                if newest.may_be_in_group(data.metadata.row_group(group)):
                    keys = self._comparable(data.read_row_group(group, columns=list(self.table.key)), self.table.key)
                    mask[begin : begin + rows] = among(keys, newest.keys)
                begin += rows
        return mask

    def _mask_between(self, name: str, low: Any, high: Any) -> Mask:
        """Which rows of a file that are not deleted have a first key value from `low` to `high`."""
        column = self._read_keys(name, self.table.key[:1]).columns[0]
        within = pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high))
        return np.asarray(within.to_numpy(zero_copy_only=False), bool) & self._live(name)

    def _read_keys(self, name: str, columns: Sequence[str]) -> pa.Table:
        """Key columns of a file."""
        with open_parquet(self.folder, name) as file:
            return self._comparable(file.read(columns=list(columns)), columns)

    def _comparable(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        schema = mirror_schema(self.table)
        return comparable(conformed(rows, pa.schema([schema.field(column) for column in columns])))

    def _other_rows(self, name: str, mask: Mask) -> Iterator[pa.Table]:
        """The rows of a file that are neither in the mask nor deleted."""
        stay = ~mask & self._live(name)
        with open_parquet(self.folder, name) as file:
            for begin, batch in batches(file):
                stays = stay[begin : begin + batch.num_rows]
                if stays.any():
                    # Cast first: files by other tools may have types (string_view) that Arrow cannot filter.
                    yield conformed(batch, self.schema).filter(pa.array(stays))

    def _images(self, changes: ChangeFiles, newest: Newest) -> Iterator[pa.Table]:
        """The existing rows in the newest images. Columns that the source has dropped are NULL."""
        published = mirror_schema(self.table)
        for name, rows in zip(changes.names, newest.rows, strict=True):
            with open_parquet(changes.folder, name) as file:
                columns = [column for column in published.names if column in file.schema_arrow.names]
                for begin, batch in batches(file, columns, _groups_with(file, rows)):
                    rows_here = rows[slice(*rows.searchsorted([begin, begin + batch.num_rows]))] - begin
                    if len(rows_here):
                        yield conformed(conformed(batch.take(pa.array(rows_here)), published), self.schema)

    def _order(self, parts: Iterable[pa.Table], max_bytes: int = _SORTED_BYTES) -> Iterator[pa.Table]:
        """The rows ordered by key, a bounded number at a time. max_bytes: bytes."""
        parts_to_sort, rows, size = list[pa.Table](), 0, 0
        for part in parts:
            parts_to_sort.append(part)
            rows, size = rows + part.num_rows, size + part.nbytes
            if rows >= _SORTED_ROWS or size >= (max_bytes if size < _WIDE_BYTES * rows else _WIDE_SORTED_BYTES):
                yield from self._sort(parts_to_sort)
                rows, size = 0, 0
        if parts_to_sort:
            yield from self._sort(parts_to_sort)

    def _sort(self, parts: list[pa.Table]) -> Iterator[pa.Table]:
        """The rows ordered by key, a batch at a time, so that they are in memory once.

        Empties the list, for the same reason.
        """
        rows = pa.concat_tables(parts).combine_chunks()
        parts.clear()
        order = pc.sort_indices(rows.select(self.table.key), [(name, "ascending") for name in self.table.key])
        step = max(min(BATCH_ROWS, BATCH_BYTES * rows.num_rows // max(rows.nbytes, 1)), 1)
        for begin in range(0, rows.num_rows, step):
            yield rows.take(order.slice(begin, step))

    def _write(self, parts: Iterable[pa.Table], max_rows: int) -> list[DataFile]:
        """Write rows to files of at most `max_rows` rows."""
        files, writer, rows = list[DataFile](), self._writer(), 0
        try:
            for part in parts:
                for begin in range(0, part.num_rows, BATCH_ROWS):
                    batch = part.slice(begin, BATCH_ROWS)
                    writer.write(batch)
                    rows += batch.num_rows
                    if rows >= max_rows:
                        files += self._close(writer)
                        writer, rows = self._writer(), 0
            return files + self._close(writer)
        except BaseException:
            writer.discard()
            raise

    def _close(self, writer: FileWriter) -> list[DataFile]:
        files = writer.close()
        self._written_files |= {file.name: file.bytes for file in files}
        return files

    def _writer(self) -> FileWriter:
        return FileWriter(self.folder, "merge", self.schema, (*self.table.key, TM_SEQ))

    def file_rows(self) -> int:
        """The rows of a file that this writes, estimated so that its size is good (`maintenance.optimize`)."""
        counted_files = [file for file in self.files.values() if file.rows > 0]
        rows, size = sum(file.rows for file in counted_files), sum(file.bytes for file in counted_files)
        each = size / rows if rows > _KNOWN_ROWS or size > SMALL_BYTES else _ROW_BYTES
        return int(min(max(MOST_BYTES / (1 if self.on_read else COPIED) / each, _MIN_ROWS), MOST_ROWS))


def _groups_with(file: pq.ParquetFile, row_numbers: npt.NDArray[np.int64]) -> list[int]:
    """The row groups of a file that have any of some rows, given by number in order."""
    rows = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    counts = np.diff(row_numbers.searchsorted(np.cumsum([0, *rows])))
    return np.flatnonzero(counts).tolist()


def _positions_in(mask: Mask) -> BitMap:
    return BitMap(np.flatnonzero(mask).astype(np.uint32))

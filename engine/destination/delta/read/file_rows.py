"""Reads the rows of a version's files with Arrow, without those that deletes name. Both formats have the same files.

deltalake's own `to_pyarrow_dataset` refuses tables with deletion vectors, and `DeltaTable.count()` counts deleted rows.
Nothing in Tidemark calls `count`; `to_pyarrow_dataset` is called here alone, for tables without deletion vectors
(`tests/unit/test_rooms.py`). We also read through Arrow's own file system. deltalake's is in Python: Arrow's threads
call it even while the process exits, when the interpreter is shutting down. The process then aborts ("terminate called
without an active exception") or hangs: 22 of 60 that counted rows.

Files of other programs may have other types than the table: deltalake and Polars write `string_view`, for which Arrow
has few functions, Spark times of 96 bits, and others wider integers or dictionaries. So rows of such files are
converted to the table's schema before anything is asked of them.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from engine.capture.batches import BATCH_BYTES, batches_of, naming_damage, widest_row
from engine.destination.delta.log.deletion_vectors import Descriptor, Positions, positions, read_vector
from engine.destination.delta.log.vector_log import VectorLog, has_vectors
from engine.store.folder import Folder
from engine.store.local_folder import LocalFolder

if TYPE_CHECKING:  # importing it imports pandas, which takes a runner half a second to start
    from pyarrow.dataset import Dataset, ParquetFileFragment, ParquetFragmentScanOptions

_SAMPLED_FILES, _WIDE_BYTES = 64, 2 << 10
_KEPT, _NUMBER = "\0kept", "\0number"
_OWN = re.compile(r"(chunk(-\d+)?|merge|changes|compact)-[0-9a-f]{32}\.parquet")
"""The names of Tidemark's files (`capture.files.FileWriter`)."""


@dataclass(frozen=True)
class FileDeletes:
    """The deleted rows of a data file."""

    rows: int
    """How many."""
    positions: Callable[[], Positions]
    """Reads which, in order. Raises DestinationError if that cannot be read."""


@dataclass(frozen=True)
class FileRows:
    """The rows of one version, whatever is committed meanwhile."""

    schema: pa.Schema
    dataset: "Dataset | None"
    """The rows as Arrow's dataset; None if some are deleted, another program has written some, or they are in a
    bucket."""
    folder: Folder
    """The folder of the data files."""
    deletes: Mapping[str, FileDeletes | None]
    """The data files, and what is deleted in them."""

    def batches(
        self, columns: Sequence[str] | None = None, condition: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """Batches of the rows that match the condition."""
        names = list(self.schema.names if columns is None else columns)
        if self.dataset is not None:
            options = {"fragment_scan_options": _scan_options(), **self._batch_sizes(condition)}
            with naming_damage(self._damaged_file):
                for batch in self.dataset.to_batches(columns=names, filter=condition, **options):
                    yield pa.Table.from_batches([batch])
            return
        for file, deletes in self.deletes.items():
            yield from self._batches_of(file, deletes, names, condition)

    def table(self, columns: Sequence[str] | None = None, condition: pc.Expression | None = None) -> pa.Table:
        """All rows that match the condition."""
        names = list(self.schema.names if columns is None else columns)
        empty = pa.schema([self.schema.field(name) for name in names]).empty_table()
        return pa.concat_tables([empty, *self.batches(names, condition)])

    def count(self, condition: pc.Expression | None) -> int:
        """The number of rows that match the condition; None: of all rows."""
        if self.dataset is not None:
            with naming_damage(self._damaged_file):
                return int(self.dataset.count_rows(filter=condition, fragment_scan_options=_scan_options()))
        return sum(part.num_rows for part in self.batches(self.schema.names[:1], condition))

    def _damaged_file(self) -> str:
        """The file of the dataset that cannot be read. It reads them again."""
        assert self.dataset is not None
        for fragment in self.dataset.get_fragments():
            try:
                for _ in fragment.to_batches(fragment_scan_options=_scan_options()):
                    pass
            except OSError:
                return f"{self.folder.url}/{fragment.path}"
        return self.folder.url

    def _batch_sizes(self, condition: pc.Expression | None) -> dict[str, int]:
        """The size of batches, and how many of them, of how many files, Arrow may read in advance.

        Wide rows fill the memory.
        """
        assert self.dataset is not None
        fragments = list(self.dataset.get_fragments(condition))
        width = widest_row(fragment.metadata for fragment in fragments[:: len(fragments) // _SAMPLED_FILES + 1])
        if width <= _WIDE_BYTES:
            return {"batch_readahead": 8}
        return {"batch_size": max(int(BATCH_BYTES / width), 1), "batch_readahead": 1, "fragment_readahead": 0}

    def deleted_rows(self) -> dict[str, pa.Array | None]:
        """The data files, and the positions that are deleted."""
        return {file: None if one is None else pa.array(one.positions()) for file, one in self.deletes.items()}

    def _batches_of(
        self, file: str, deletes: FileDeletes | None, names: list[str], condition: pc.Expression | None
    ) -> Iterator[pa.Table]:
        """The rows of one file. Row groups that cannot match the condition are not read."""
        if not is_own(file):
            yield from self._convert(file, deletes, names, condition)
            return
        whole = self._fragment(file)
        deleted = np.empty(0, np.uint32) if deletes is None else deletes.positions()
        groups = [whole.metadata.row_group(n).num_rows for n in range(whole.metadata.num_row_groups)]
        begins = np.concatenate([[0], np.cumsum(groups)])
        wanted: dict[str, Any] = {name: pc.field(name) for name in names}
        wanted[_KEPT] = pc.scalar(True) if condition is None else condition
        for part in whole.split_by_row_group(condition, self.schema):
            with naming_damage(lambda: f"{self.folder.url}/{file}"):
                rows = self._live_rows(part, wanted, deleted, begins)
            yield rows

    def _convert(
        self, file: str, deletes: FileDeletes | None, names: list[str], condition: pc.Expression | None
    ) -> Iterator[pa.Table]:
        """The rows of another program's file, in the table's types. The condition may name any column."""
        deleted = pa.array([] if deletes is None else deletes.positions()).cast(pa.int64())
        wanted = self.schema if condition is not None else pa.schema([self.schema.field(name) for name in names])
        whole, number = self._fragment(file), 0
        matching = _matching_groups(whole, condition, self.schema)
        for group in range(whole.metadata.num_row_groups):
            begin, number = number, number + whole.metadata.row_group(group).num_rows
            for batch in self._group(file, group, wanted) if group in matching else ():
                numbered = batch.append_column(_NUMBER, pa.array(range(begin, begin + batch.num_rows), pa.int64()))
                begin += batch.num_rows
                rows = numbered if condition is None else numbered.filter(condition)
                if len(deleted):
                    rows = rows.filter(pc.invert(pc.is_in(rows[_NUMBER], deleted)))
                yield rows.select(names)

    def _fragment(self, file: str) -> "ParquetFileFragment":
        from pyarrow.dataset import ParquetFileFormat

        if isinstance(self.folder, LocalFolder):
            return ParquetFileFormat().make_fragment(file, _files_in(self.folder))
        return ParquetFileFormat().make_fragment(self.folder.open(file))

    def _group(self, file: str, group: int, schema: pa.Schema) -> Iterator[pa.Table]:
        with self.folder.open(file) as source, naming_damage(lambda: f"{self.folder.url}/{file}"):
            yield from batches_of(source, schema, groups=[group])

    def _live_rows(
        self, part: "ParquetFileFragment", wanted: dict[str, Any], deleted: np.ndarray, begins: np.ndarray
    ) -> pa.Table:
        group = part.row_groups[0].id
        rows = part.to_table(schema=self.schema, columns=wanted, fragment_scan_options=_scan_options())
        mask = np.array(rows[_KEPT].fill_null(False))
        here = deleted[np.searchsorted(deleted, begins[group]) : np.searchsorted(deleted, begins[group + 1])]
        mask[here - begins[group]] = False
        return rows.drop_columns([_KEPT]).filter(pa.array(mask))


def _scan_options() -> "ParquetFragmentScanOptions":
    """Pages with a checksum are compared with it: a damaged file is an error, and not other rows."""
    from pyarrow.dataset import ParquetFragmentScanOptions

    return ParquetFragmentScanOptions(page_checksum_verification=True)


def _matching_groups(whole: "ParquetFileFragment", condition: pc.Expression | None, schema: pa.Schema) -> set[int]:
    """The row groups of a file whose statistics allow the condition; all if its types do not allow to ask."""
    try:
        parts = whole.split_by_row_group(condition, schema)
    except pa.ArrowNotImplementedError:
        parts = whole.split_by_row_group()
    return {part.row_groups[0].id for part in parts}


def is_own(name: str) -> bool:
    """Whether Tidemark has written a data file, judged by its name."""
    return _OWN.fullmatch(name.rpartition("/")[2]) is not None


def rows_of(delta: DeltaTable, folder: Folder) -> FileRows:
    """The rows of a loaded version. Raises DestinationError when its deletion vectors cannot be read."""
    vectors = VectorLog(folder).at(delta.version()) if has_vectors(delta) else {}
    schema = pa.schema(delta.schema().to_arrow())
    names = [unquote(path) for path in pa.table(delta.get_add_actions())["path"].to_pylist()]
    deletes = {name: _deletes_of(folder, vectors.get(name)) for name in names}
    if has_vectors(delta) or not _are_plain(folder, deletes):
        return rows_in(folder, schema, deletes)
    assert isinstance(folder, LocalFolder)
    return FileRows(schema, delta.to_pyarrow_dataset(filesystem=_files_in(folder)), folder, deletes)


def rows_in(folder: Folder, schema: pa.Schema, deletes: Mapping[str, FileDeletes | None]) -> FileRows:
    """The rows of data files in a folder."""
    if not isinstance(folder, LocalFolder) or not _are_plain(folder, deletes):
        return FileRows(schema, None, folder, deletes)
    from pyarrow.dataset import FileSystemDataset, ParquetFileFormat

    form, files = ParquetFileFormat(), _files_in(folder)
    fragments = [form.make_fragment(name, files) for name in deletes]
    return FileRows(schema, FileSystemDataset(fragments, schema, form, files), folder, deletes)


def _are_plain(folder: Folder, deletes: Mapping[str, FileDeletes | None]) -> bool:
    """Whether Arrow can read all rows of the files by itself."""
    return isinstance(folder, LocalFolder) and all(map(is_own, deletes)) and not any(deletes.values())


def _deletes_of(folder: Folder, vector: Descriptor | None) -> FileDeletes | None:
    if vector is None:
        return None
    return FileDeletes(vector.cardinality, lambda: positions(read_vector(folder, vector)))


def _files_in(folder: LocalFolder) -> SubTreeFileSystem:
    return SubTreeFileSystem(folder.url, LocalFileSystem())

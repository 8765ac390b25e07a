"""The newest image of each key in change files, which decides what a merge leaves of the key."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.capture.chunk.backfill import last_of_each
from engine.capture.files import DataFile
from engine.decode.arrow_schema import conformed
from engine.decode.images import GONE
from engine.decode.schema import Table
from engine.errors import MissingFilesError
from engine.sink.evolution import mirror_schema
from engine.sink.key_index import Codes, codes_of

BATCH_ROWS = 64 << 10
BATCH_BYTES = 32 << 20


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

    @cached_property
    def codes(self) -> Codes | None:
        """The keys' codes for the index, ordered; None if they have none."""
        found = codes_of(self.keys)
        return None if found is None else found.ordered()

    def may_be_in(self, file: DataFile) -> bool:
        """Whether a file's statistics allow one of the keys."""
        name = self.keys.column_names[0]
        if not self.keys.num_rows or self.first is None or name not in file.low or name not in file.high:
            return bool(self.keys.num_rows)
        return self._any_between(file.low[name], file.high[name])

    def may_be_in_group(self, group: pq.RowGroupMetaData) -> bool:
        """Whether a row group's statistics allow one of the keys."""
        if self.first is not None:
            name = self.keys.column_names[0]
            for n in range(group.num_columns):
                column = group.column(n)
                if column.path_in_schema == name and (known := column.statistics) is not None and known.has_min_max:
                    ends = known.min, known.max
                    return not all(type(end) is int for end in ends) or self._any_between(*ends)
        return True

    def _any_between(self, low: int, high: int) -> bool:
        assert self.first is not None
        return bool(self.first.searchsorted(low) < self.first.searchsorted(high, side="right"))


def newest_images(paths: Sequence[Path], table: Table) -> Newest:
    """The newest image of each key in change files, given in binlog order. Raises MissingFilesError."""
    schema = mirror_schema(table)
    wanted = pa.schema([*(schema.field(name) for name in table.key), pa.field("_tm_kind", pa.string())])
    extra = [pa.field("\0file", pa.int64()), pa.field("\0row", pa.int64())]
    collected, waiting, rows = pa.schema([*wanted, *extra]).empty_table(), list[pa.Table](), 0
    for number, path in enumerate(paths):
        with opened(path) as file:
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


def batch_rows(file: pq.ParquetFile) -> int:
    """How many rows of a file to read at once, so that a batch has a bounded size however wide its rows are."""
    groups = [file.metadata.row_group(n) for n in range(file.num_row_groups)]
    widest = max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=1.0)
    # Equal texts are stored once, so a row may be wider than that. A row group has a bounded size (`capture.files`).
    most = max((group.num_rows for group in groups), default=1)
    return max(min(BATCH_ROWS, most, int(BATCH_BYTES / max(widest, 1.0))), 1)


def opened(path: Path) -> pq.ParquetFile:
    """A data file. Raises MissingFilesError."""
    with suppress(FileNotFoundError):
        # Other programs write times of 96 bits, which Arrow would take for nanoseconds: those after 2262 would be other times.
        return pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
    raise MissingFilesError(
        f"The data file {path} is gone.",
        detail="It belongs to the table, or was about to: a VACUUM, a cleaner or a restore may have removed it. Its content is "
        "unknown; nothing was written.",
        hint="Restore the file from a copy, or resnapshot the table: tidemark redump SPEC --table …",
    )

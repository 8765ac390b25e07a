"""The newest image of each key in change files, which decides what a merge leaves of the key."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.base.errors import MissingFilesError
from engine.capture.batches import batches, naming_damage, parquet_file
from engine.capture.chunk.backfill import LastImages
from engine.capture.files import ROW_GROUP_ROWS, DataFile
from engine.decode.arrow_schema import conformed
from engine.decode.images import GONE
from engine.decode.schema import TM_KIND, Table
from engine.destination.delta.merge.key_index import Codes, codes_of
from engine.destination.delta.schema_evolution import mirror_schema
from engine.store.folder import Folder

MOST_KEYS = 1_000_000
"""Changes that are reduced at once."""
_SAMPLED = 64
_ODD = np.uint64(0x9E3779B97F4A7C15)
RowMask = Callable[[pa.Table], npt.NDArray[np.bool_]]
"""Which keys, normalised for comparison, are chosen."""
KeySplit = Callable[[pa.Table], npt.NDArray[np.int64]]
"""The number of the part that each key belongs to."""


@dataclass(frozen=True)
class ChangeFiles:
    """Change files, in binlog order."""

    folder: Folder
    names: Sequence[str]
    rows: int
    """In all of them: how many keys there are at most."""


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
        codes = codes_of(self.keys)
        return None if codes is None else codes.in_order()

    def may_be_in(self, file: DataFile) -> bool:
        """Whether a file's statistics allow one of the keys."""
        name = self.keys.column_names[0]
        if not self.keys.num_rows or self.first is None or name not in file.low or name not in file.high:
            return bool(self.keys.num_rows)
        return self._any_between(file.low[name], file.high[name])

    def may_be_in_group(self, group: pq.RowGroupMetaData) -> bool:
        """Whether a row group's statistics allow one of the keys."""
        ends = None if self.first is None else _ends(group, self.keys.column_names[0])
        return ends is None or self._any_between(*ends)

    def _any_between(self, low: int, high: int) -> bool:
        assert self.first is not None
        return bool(self.first.searchsorted(low) < self.first.searchsorted(high, side="right"))


def newest_parts(changes: ChangeFiles, table: Table) -> Iterator[Newest]:
    """The newest image of each key in change files: in parts, whose keys are disjoint.

    One transaction may change any number of rows. So the keys of about `MOST_KEYS` changes are in memory at once, if
    the caller forgets each part before the next. The key columns are read once for each part. A single integer key is
    split by ranges, as then each part needs other row groups and other files of the mirror; other keys by their codes.
    Raises MissingFilesError.
    """
    parts = -(-changes.rows // MOST_KEYS)
    if parts <= 1:
        yield newest_images(changes, table)
        return
    for part in _by_range(changes, table, parts) or _by_code(table, parts):
        yield newest_images(changes, table, part)


@dataclass(frozen=True)
class KeyPart:
    """Some of the keys."""

    within: RowMask
    may_be_in: Callable[[pq.RowGroupMetaData], bool] = lambda _: True
    """Whether a row group may have one of them."""


def newest_images(changes: ChangeFiles, table: Table, part: KeyPart | None = None) -> Newest:
    """The newest image of each key of a part (None: of all keys). Raises MissingFilesError."""
    schema = mirror_schema(table)
    keys = pa.schema([schema.field(name) for name in table.key])
    wanted, last, begins = keys.append(pa.field(TM_KIND, pa.string())), LastImages(keys), [0]
    for name in changes.names:
        with open_parquet(changes.folder, name) as file:
            for begin, rows in _batches(file, wanted, part):
                some, numbers = comparable(rows.select(table.key)), begins[-1] + begin + np.arange(rows.num_rows)
                exists = ~np.asarray(pc.is_in(rows[TM_KIND], pa.array(GONE)))
                if part is not None:
                    here = part.within(some)
                    some, numbers, exists = some.filter(pa.array(here)), numbers[here], exists[here]
                last.add(some, numbers, exists)
            begins.append(begins[-1] + file.metadata.num_rows)
    images, chosen = last.net_changes()
    ends = chosen.searchsorted(begins)
    return Newest(images, tuple(chosen[a:b] - begin for a, b, begin in zip(ends, ends[1:], begins, strict=False)))


def _batches(file: pq.ParquetFile, wanted: pa.Schema, part: KeyPart | None = None) -> Iterator[tuple[int, pa.Table]]:
    """Columns of a change file in batches, with the number of each batch's first row.

    part: whose keys are wanted; row groups without any are not read.
    """
    row_groups = (file.metadata.row_group(group) for group in range(file.num_row_groups))
    groups = [group for group, one in enumerate(row_groups) if part is None or part.may_be_in(one)]
    for begin, keys in batches(file, wanted.names, groups, ROW_GROUP_ROWS):
        yield begin, conformed(keys, wanted)


def _ends(group: pq.RowGroupMetaData, name: str) -> tuple[int, int] | None:
    """The smallest and the largest value of an integer column in a row group; None if they are not known."""
    for n in range(group.num_columns):
        column = group.column(n)
        if column.path_in_schema == name and (statistics := column.statistics) is not None and statistics.has_min_max:
            return (
                (statistics.min, statistics.max)
                if type(statistics.min) is int and type(statistics.max) is int
                else None
            )
    return None


def _in_part(split: KeySplit, number: int) -> RowMask:
    return lambda keys: split(keys) == number


def _by_range(changes: ChangeFiles, table: Table, parts: int) -> list[KeyPart] | None:
    """Split a single integer key by ranges with about as many changes; None for other keys."""
    schema = mirror_schema(table)
    if len(table.key) > 1 or not pa.types.is_integer(schema.field(table.key[0]).type):
        return None
    wanted = pa.schema([schema.field(table.key[0])])
    sampled = list[npt.NDArray[np.int64]]()
    for name in changes.names:
        with open_parquet(changes.folder, name) as file:
            for _, keys in _batches(file, wanted):
                sampled.append(keys[table.key[0]].to_numpy()[::_SAMPLED].copy())  # a view would keep all of them
    bounds = np.quantile(np.concatenate(sampled), np.arange(1, parts) / parts, method="nearest")
    limits = bounds.tolist()

    def split_keys(keys: pa.Table) -> npt.NDArray[np.int64]:
        return np.asarray(np.searchsorted(bounds, keys.columns[0].to_numpy(), side="right"), np.int64)

    def may_be_in(number: int, group: pq.RowGroupMetaData) -> bool:
        ends = _ends(group, table.key[0])
        return ends is None or bisect_right(limits, ends[0]) <= number <= bisect_right(limits, ends[1])

    return [KeyPart(_in_part(split_keys, number), partial(may_be_in, number)) for number in range(parts)]


def _by_code(table: Table, parts: int) -> list[KeyPart]:
    """Split keys by their codes. Columns without codes do not count; if all are, everything is in one part."""

    def split(keys: pa.Table) -> npt.NDArray[np.int64]:
        codes_by_column = [codes for name in table.key if (codes := codes_of(keys.select([name]))) is not None]
        mixed = np.zeros(keys.num_rows, np.uint64)
        for codes in codes_by_column:
            mixed = (mixed ^ codes.first) * _ODD
            mixed ^= mixed >> np.uint64(32)
        return np.asarray(mixed % np.uint64(parts), np.int64)

    return [KeyPart(_in_part(split, number)) for number in range(parts)]


def comparable(keys: pa.Table) -> pa.Table:
    """Keys normalised for comparison: -0.0 is the same key as 0.0."""
    for n, column in enumerate(keys.columns):
        if pa.types.is_floating(column.type):
            keys = keys.set_column(n, keys.field(n), pc.add(column, pa.scalar(0.0, column.type)))
    return keys


@contextmanager
def open_parquet(folder: Folder, name: str) -> Iterator[pq.ParquetFile]:
    """A data file. Raises MissingFilesError."""
    try:
        source = folder.open(name)
    except FileNotFoundError:
        raise MissingFilesError(
            f"The data file {folder.url}/{name} is gone.",
            detail="It belongs to the table, or was about to: a VACUUM, a cleaner or a restore may have removed it. "
            "Its content is unknown; nothing was written.",
            hint="Resnapshot the table: tidemark redump SPEC --table … (Or restore the file from a copy, "
            "unless the table stopped.)",
        ) from None
    with source, naming_damage(lambda: f"{folder.url}/{name}"), parquet_file(source) as file:
        yield file

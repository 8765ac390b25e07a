"""Backfill: applies the binlog between the watermarks to the rows of a chunk's SELECT (docs/correctness.md). Pure.

Let R be the rows read, in some state between the low watermark L and the high watermark H. Let C be the images in (L,
H] whose own chunk key is in the chunk's range. For a key with images in C, the last image wins: an insert or an
after-image is the row at H; a delete or a before-image means that the range has no such row at H. A key without images
in C did not change between L and H, so its row in R is its row at H. Hence

    chunk at H  =  (R without the keys of C)  +  (the last image of each key of C, if it is an insert or an after-image)

An update is two images, each tested against the range separately, so a row that moves between chunks leaves one and
enters the other. Keys are compared as bytes: a row image contains exactly the bytes of the stored key, whatever its
collation.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.capture.binlog.row_changes import RowChanges
from engine.capture.spill import Spill
from engine.decode.images import AFTER, INSERT
from engine.journal.event_fields import Backfill

_WAITING_ROWS = 1 << 16
_NUMBER, _EXISTS = "\0number", "\0exists"
Within = Callable[[pa.Table], npt.NDArray[np.bool_]]
"""Selects the rows of a table that belong to the part being read."""


@dataclass(frozen=True)
class NetChanges:
    """The images in a chunk's range, reduced to the last image per key."""

    touched_keys: pa.Table
    """The keys that changed: only the key columns."""
    upserts: Iterable[pa.Table]
    """The rows of those keys that exist at the high watermark, in batches; to be read any number of times."""
    upserted_rows: int
    """The number of those rows."""
    changes: int
    """The number of images before reduction."""
    one_phase: bool = False
    """Whether the range has commits in one phase (`capture.binlog.one_phase_commits`)."""

    @property
    def counts(self) -> Backfill:
        """For the report: images, deleted keys, upserted keys."""
        return Backfill(self.changes, int(self.touched_keys.num_rows) - self.upserted_rows, self.upserted_rows)


@dataclass(frozen=True)
class _Chosen:
    """Some of the rows that wait in a spill, by their numbers in ascending order."""

    rows: Spill
    numbers: npt.NDArray[np.int64]

    def __iter__(self) -> Iterator[pa.Table]:
        begin = 0
        for batch in self.rows if len(self.numbers) else ():
            end = begin + batch.num_rows
            first, last = self.numbers.searchsorted([begin, end])
            if first < last:
                yield batch.take(pa.array(self.numbers[first:last] - begin))
            begin = end


class LastImages:
    """The last image of each key among numbered images, which are added in order. Only the keys are kept.

    They are reduced whenever those waiting outnumber those held.
    """

    def __init__(self, keys: pa.Schema) -> None:
        """keys: the columns that identify a row."""
        self._names = keys.names
        fields = [pa.field(_NUMBER, pa.int64()), pa.field(_EXISTS, pa.bool_())]
        self._spill = pa.schema([*keys, *fields]).empty_table()
        self._waiting_rows: list[pa.Table] = []
        self._rows = 0

    def add(self, keys: pa.Table, numbers: npt.NDArray[np.int64], exists: npt.NDArray[np.bool_]) -> None:
        """Add images. numbers: theirs, ascending; exists: whether each leaves a row."""
        added = keys.append_column(_NUMBER, pa.array(numbers)).append_column(_EXISTS, pa.array(exists))
        self._waiting_rows.append(added)
        self._rows += added.num_rows
        if self._rows > max(self._spill.num_rows, _WAITING_ROWS):
            self._reduce()

    def net_changes(self) -> tuple[pa.Table, npt.NDArray[np.int64]]:
        """The keys, and the ascending numbers of the last images that leave a row."""
        self._reduce()
        numbers = self._spill[_NUMBER].filter(self._spill[_EXISTS])
        return self._spill.select(self._names), np.asarray(numbers.to_numpy())

    def _reduce(self) -> None:
        keys = pa.concat_tables([self._spill, *self._waiting_rows])
        self._waiting_rows = []
        self._rows = 0
        self._spill = keys.take(pa.array(last_of_each(keys.select(self._names))))


def reduce_changes(
    parts: Iterable[RowChanges], schema: pa.Schema, identity: Sequence[str], within: Within | None
) -> NetChanges:
    """Reduce changes, given in order, to their effect on the rows that are `within` (None: on all rows).

    schema: the schema of the rows. A window may contain a transaction of any size and rows of any width. So only the
    keys are kept in memory; the images wait in a `Spill`.
    """
    images, last, count = Spill(schema), LastImages(pa.schema([schema.field(name) for name in identity])), 0
    for changes in parts:
        chosen = changes.take(within(changes.rows)) if within else changes
        if len(chosen):
            images.add(chosen.rows)
            numbers = np.arange(count, count + len(chosen))
            last.add(chosen.rows.select(identity), numbers, np.isin(chosen.fact("kind"), (INSERT, AFTER)))
            count += len(chosen)
    touched, upserted = last.net_changes()
    return NetChanges(touched, _Chosen(images, upserted), len(upserted), count)


def last_of_each(keys: pa.Table) -> npt.NDArray[np.int64]:
    """The index of the last row per distinct key, ascending."""
    if keys.num_columns == 1 and pa.types.is_integer(keys.schema.types[0]) and not keys.columns[0].null_count:
        return _last_of_each_number(keys.columns[0].to_numpy())
    numbered = keys.rename_columns([f"k{n}" for n in range(keys.num_columns)])
    names = numbered.column_names
    numbered = numbered.append_column("n", pa.array(np.arange(keys.num_rows)))
    grouped = numbered.group_by(names, use_threads=False).aggregate([("n", "max")])
    return np.sort(grouped["n_max"].to_numpy())


def _last_of_each_number(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """As `last_of_each`, by sorting, which takes less memory than a hash table."""
    last = np.ones(len(numbers), bool)
    if (numbers[1:] >= numbers[:-1]).all():  # as a bulk update leaves them
        np.not_equal(numbers[1:], numbers[:-1], out=last[:-1])
        return np.flatnonzero(last)
    order = np.argsort(numbers, kind="stable")
    ascending = numbers[order]
    np.not_equal(ascending[1:], ascending[:-1], out=last[:-1])
    del ascending
    indexes = order[last]
    indexes.sort()
    return indexes


def among(rows: pa.Table, keys: pa.Table) -> npt.NDArray[np.bool_]:
    """A mask of the rows whose key is in `keys`, a table of the key columns."""
    names, mask = keys.column_names, np.zeros(rows.num_rows, bool)
    if not keys.num_rows or not rows.num_rows:
        return mask
    if len(names) == 1:
        return np.asarray(pc.is_in(rows[names[0]], keys[names[0]].combine_chunks()).to_numpy())
    numbered = rows.select(names).append_column("\0n", pa.array(np.arange(rows.num_rows)))
    mask[numbered.join(keys, names, join_type="left semi")["\0n"].to_numpy()] = True
    return mask


def without(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """The rows whose key is not in `keys`."""
    mask = among(rows, keys)
    return rows.filter(pa.array(~mask)) if mask.any() else rows

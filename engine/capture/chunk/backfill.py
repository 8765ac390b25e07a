"""Backfill: applies the binlog between the watermarks to the rows of a chunk's SELECT (docs/correctness.md). Pure.

Let R be the rows read, in some state between the low watermark L and the high watermark H. Let C be the images in (L, H] whose own
chunk key is in the chunk's range. For a key with images in C, the last image wins: an insert or an after-image is the row at H; a
delete or a before-image means that the range has no such row at H. A key without images in C did not change between L and H, so
its row in R is its row at H. Hence

    chunk at H  =  (R without the keys of C)  +  (the last image of each key of C, if it is an insert or an after-image)

An update is two images, each tested against the range separately, so a row that moves between chunks leaves one and enters the
other. Keys are compared as bytes: a row image contains exactly the bytes of the stored key, whatever its collation.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.capture.binlog.row_changes import RowChanges, concatenate, empty
from engine.decode.images import AFTER, INSERT
from engine.event_fields import Backfill

_WAITING_ROWS = 1 << 16
Within = Callable[[pa.Table], npt.NDArray[np.bool_]]
"""Selects the rows of a table that belong to the part being read."""


@dataclass(frozen=True)
class Reduced:
    """The images in a chunk's range, reduced to the last image per key."""

    touched: pa.Table
    """The keys that changed: only the key columns."""
    upserts: pa.Table
    """The rows of those keys that exist at the high watermark."""
    changes: int
    """The number of images before reduction."""

    @property
    def counts(self) -> Backfill:
        """For the report: images, deleted keys, upserted keys."""
        upserted = int(self.upserts.num_rows)
        return {"changes": self.changes, "deleted": int(self.touched.num_rows) - upserted, "upserted": upserted}


def reduce_changes(
    parts: Iterable[RowChanges], schema: pa.Schema, identity: Sequence[str], within: Within | None
) -> Reduced:
    """Reduce changes, given in order, to their effect on the rows that are `within` (None: on all rows).

    schema: the schema of the rows. Images are reduced whenever those waiting outnumber those held, because a window may contain
    a transaction of any size.
    """
    held, waiting, waiting_rows, count = empty(schema), list[RowChanges](), 0, 0
    for changes in parts:
        chosen = changes.take(within(changes.rows)) if within else changes
        if not len(chosen):
            continue
        waiting.append(chosen)
        waiting_rows, count = waiting_rows + len(chosen), count + len(chosen)
        if waiting_rows > max(len(held), _WAITING_ROWS):
            held, waiting, waiting_rows = _last([held, *waiting], schema, identity), [], 0
    last = _last([held, *waiting], schema, identity)
    exists = np.isin(last.fact("kind"), (INSERT, AFTER))
    return Reduced(last.rows.select(identity), last.take(exists).rows, count)


def _last(parts: list[RowChanges], schema: pa.Schema, identity: Sequence[str]) -> RowChanges:
    changes = concatenate(parts, schema)
    return changes.take(last_of_each(changes.rows.select(identity)))


def last_of_each(keys: pa.Table) -> npt.NDArray[np.int64]:
    """The index of the last row per distinct key, ascending."""
    numbered = keys.rename_columns([f"k{n}" for n in range(keys.num_columns)])
    names = numbered.column_names
    numbered = numbered.append_column("n", pa.array(np.arange(keys.num_rows)))
    grouped = numbered.group_by(names, use_threads=False).aggregate([("n", "max")])
    return np.sort(grouped["n_max"].to_numpy())


def among(rows: pa.Table, keys: pa.Table) -> npt.NDArray[np.bool_]:
    """A mask of the rows whose key is in `keys`, a table of the key columns."""
    names, found = keys.column_names, np.zeros(rows.num_rows, bool)
    if not keys.num_rows or not rows.num_rows:
        return found
    if len(names) == 1:
        return np.asarray(pc.is_in(rows[names[0]], keys[names[0]].combine_chunks()).to_numpy())
    numbered = rows.select(names).append_column("\0n", pa.array(np.arange(rows.num_rows)))
    found[numbered.join(keys, names, join_type="left semi")["\0n"].to_numpy()] = True
    return found


def without(rows: pa.Table, touched: pa.Table) -> pa.Table:
    """The rows whose key is not in `touched`."""
    found = among(rows, touched)
    return rows.filter(pa.array(~found)) if found.any() else rows

"""What happened to each row: images of a change log in pairs.

An update is a `-U` and the `+U` that follows it. If its key has changed, it is a deletion and an insert, since messages
of two keys may be in two partitions, which readers take in any order.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.decode.schema import TM_KIND, TM_SEQ

Indexes = npt.NDArray[np.int64]
NONE = -1


@dataclass(frozen=True)
class RowEvents:
    """Events in order. `before`, `after`: the numbers of their images in `images`; -1 without one."""

    images: pa.Table
    """Rows of a change log, or of a snapshot."""
    keys: pa.ChunkedArray
    """Of the images, as texts; of a table without a key, the whole rows."""
    before: Indexes
    after: Indexes
    is_snapshot: bool = False
    """Whether they are rows of a copy, not changes."""
    is_half: npt.NDArray[np.bool_] | None = None
    """Which of them are one half of an update (`halves`)."""

    def __len__(self) -> int:
        return len(self.after)

    @property
    def last(self) -> Indexes:
        """The image that has an event's key and facts: the row after it, or the deleted one."""
        return np.where(self.after == NONE, self.before, self.after)


def rows_read(rows: pa.Table, keys: pa.ChunkedArray) -> RowEvents:
    """The rows of a snapshot."""
    return RowEvents(rows, keys, np.full(rows.num_rows, NONE), np.arange(rows.num_rows), is_snapshot=True)


def row_events(images: pa.Table, keys: pa.ChunkedArray) -> RowEvents:
    """The events of a part of a change log."""
    kinds, seq = images[TM_KIND], images[TM_SEQ].to_numpy()
    number = np.arange(images.num_rows)
    is_old = pc.starts_with(kinds, "-").to_numpy(zero_copy_only=False)
    begins_update = pc.equal(kinds, "-U").to_numpy(zero_copy_only=False)
    ends_update = pc.equal(kinds, "+U").to_numpy(zero_copy_only=False)
    pairs = np.zeros(len(number), bool)
    pairs[:-1] = begins_update[:-1] & ends_update[1:] & (seq[1:] == seq[:-1] + 1)
    if len(number):
        texts = keys.combine_chunks()
        same = pc.equal(texts.slice(1), texts.slice(0, len(number) - 1)).to_numpy(zero_copy_only=False)
        pairs[:-1] &= same
    is_second = np.zeros(len(number), bool)
    is_second[1:] = pairs[:-1]
    before = np.where(is_old, number, NONE)
    before[is_second] = number[is_second] - 1
    after = np.where(is_old, NONE, number)
    is_event = ~pairs
    return RowEvents(images, keys, before[is_event], after[is_event])


def halves(events: RowEvents) -> RowEvents:
    """The events, each update as two: one with the row before it, one with the row after it."""
    is_update = (events.before != NONE) & (events.after != NONE)
    number = np.repeat(np.arange(len(events)), np.where(is_update, 2, 1))
    is_second = np.zeros(len(number), bool)
    is_second[1:] = number[1:] == number[:-1]
    is_half = is_update[number]
    before = np.where(is_half & is_second, NONE, events.before[number])
    after = np.where(is_half & ~is_second, NONE, events.after[number])
    return RowEvents(events.images, events.keys, before, after, events.is_snapshot, is_half)


def complete_rows(images: pa.Table) -> int:
    """How many of the rows can be paired: not the last one if it may be the first half of an update."""
    if images.num_rows and images[TM_KIND][-1].as_py() == "-U":
        return int(images.num_rows) - 1
    return int(images.num_rows)

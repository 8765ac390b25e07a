"""The rule of emission: which changes of a binlog range are published (docs/correctness.md). Pure.

For each finished chunk c, let A(c) be the position through which its published rows are exact: its high watermark if it
is newly finished, the end of the last epoch afterwards. Let K(p) be the chunk that contains the key of the change at
position p:

    the change at p is emitted  iff  K(p) is finished and p > A(K(p))

No change is lost. While c is unfinished, its changes are dropped: either its SELECT starts after they are visible, or
its backfill contains them; both end at its high watermark H. With c published in epoch k, the range of k starts at or
before A(c) = H. No change is doubled: everything at or before A(c) is already in c's rows.

The two images of an update are decided separately. If only one is emitted (the row moves into or out of the finished
part, or its two chunks are exact at different positions), it becomes an insert or a delete.

Neighbouring chunks that are exact through the same position form one run, so the state of a table in a range does not
grow with the number of its chunks.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.capture.binlog.row_changes import RowChanges
from engine.decode.images import AFTER, BEFORE, DELETE, INSERT
from engine.plan.coverage import Piece
from engine.plan.keys import Bound, ChunkKey
from engine.plan.places import Ask, place

PositionOrder = tuple[int, int]
"""(file number, offset), as `Position.order`."""
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class EmissionProgress:
    """How far one table is copied: runs in key order."""

    bounds: tuple[Bound, ...]
    """The keys between the runs; one fewer than runs."""
    exact_positions: tuple[PositionOrder | None, ...]
    """A(c) of each run, the position at which its rows are exact; None if it is not finished."""

    @property
    def since(self) -> tuple[float, float]:
        """The position through which nothing of the table is emitted, whatever the key."""
        return min((order for order in self.exact_positions if order is not None), default=(math.inf, math.inf))


def progress_of(
    pieces: Iterable[Piece], through: PositionOrder, exact: Callable[[int], PositionOrder | None]
) -> EmissionProgress:
    """The runs of a table's ranges, which are given in key order.

    through: A of chunks finished earlier. exact: A of a newly finished chunk, by number; None for others.
    """
    bounds: list[Bound] = []
    orders: list[PositionOrder | None] = []
    for piece in pieces:
        order = through if piece.finished else exact(piece.number) if piece.number is not None else None
        if orders and orders[-1] == order:
            continue
        if orders:
            assert piece.limits.lower is not None
            bounds.append(piece.limits.lower)
        orders.append(order)
    return EmissionProgress(tuple(bounds), tuple(orders))


def emission_mask(
    changes: RowChanges, key: ChunkKey | None, progress: EmissionProgress, ask: Ask
) -> npt.NDArray[np.bool_]:
    """A mask of the images to emit. key: None if the table has none; it is then one chunk."""
    position = _order(changes.fact("file"), changes.fact("offset"))
    exact = np.array([_NEVER if order is None else _order(*order) for order in progress.exact_positions], np.int64)
    if key is None or len(exact) == 1:
        return np.asarray(position > exact[0])
    if (exact == _NEVER).all():
        return np.zeros(len(position), bool)
    return np.asarray(position > exact[place(changes.rows.select(key.names), progress.bounds, key, ask)])


def _order(file: npt.NDArray[np.int64] | int, offset: npt.NDArray[np.int64] | int) -> npt.NDArray[np.int64]:
    """Pack file numbers and offsets into one integer; 40 bits of offset allow a terabyte per file."""
    return np.asarray(file, np.int64) << np.int64(40) | np.asarray(offset, np.int64)


def published_images(
    kind: npt.NDArray[np.int64], emit: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]:
    """The indexes and kinds of the published images. A lone half of an update becomes an insert or a delete.

    kind: of all images, in order; a before-image is directly followed by its after-image.
    """
    indexes = np.flatnonzero(emit)
    kinds = kind.astype(np.int8)
    before, after = np.flatnonzero(kind == BEFORE), np.flatnonzero(kind == AFTER)
    alone_before, alone_after = emit[before] & ~emit[before + 1], emit[after] & ~emit[after - 1]
    kinds[before[alone_before]], kinds[after[alone_after]] = DELETE, INSERT
    return indexes, kinds[indexes]

"""The rule of emission: which changes of a segment are published (DESIGN 8). Pure.

For each finished chunk c let A(c) be the position through which its published rows are exact: its high watermark when
it is newly finished, the end of the last epoch afterwards. With K(p) the chunk in which the key of the change at
position p lies:

    the change at p is emitted  iff  K(p) is finished and p > A(K(p))

Not one change is lost: while c is unfinished its changes are dropped, and its SELECT starts after they are visible or its backfill
holds them; both end at its high watermark H. When c is published with epoch k, the segment of epoch k starts at or before A(c) = H.
Not one is doubled: what lies at or before A(c) is in c's rows already.

The two images of an update are decided each on its own. Where only one is emitted (the row moves into or out of the
finished part, or its two chunks are exact to different positions) it stands for an insert or a delete.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from engine.capture.changes import Changes
from engine.decode.images import AFTER, BEFORE, DELETE, INSERT
from engine.plan.chunks import chunk_of

Order = tuple[int, int]
"""(file number, offset), as `Position.order`."""


@dataclass(frozen=True)
class Progress:
    """How far one table is copied.

    bounds: of its plan. finished: numbers of the finished chunks, None for all. exact: A(c) of the chunks that are finished newly.
    through: A(c) of all other finished chunks.
    """

    bounds: tuple[int, ...]
    finished: frozenset[int] | None
    through: Order
    exact: Mapping[int, Order] = field(default_factory=dict)


def emitted(changes: Changes, chunk_key: str | None, progress: Progress) -> npt.NDArray[np.bool_]:
    """Which images are emitted. chunk_key: None for a table without key, which is one chunk."""
    position = _order(changes.fact("file"), changes.fact("offset"))
    if progress.finished is None and not progress.exact:
        return position > _order(*progress.through)
    chunks = len(progress.bounds) + 1
    never = np.iinfo(np.int64).max
    exact = np.full(chunks, never if progress.finished is not None else _order(*progress.through), np.int64)
    if progress.finished is not None:
        exact[list(progress.finished)] = _order(*progress.through)
    for chunk, order in progress.exact.items():
        exact[chunk] = _order(*order)
    if chunk_key is None or chunks == 1:
        return np.asarray(position > exact[0])
    keys = changes.rows[chunk_key].combine_chunks()
    return np.asarray(position > exact[chunk_of(np.array(progress.bounds, dtype=object), keys)])


def _order(file: npt.NDArray[np.int64] | int, offset: npt.NDArray[np.int64] | int) -> npt.NDArray[np.int64]:
    """File numbers and offsets as one integer: 40 bits of offset are a terabyte of one file."""
    return np.asarray(file, np.int64) << np.int64(40) | np.asarray(offset, np.int64)


def published(
    kind: npt.NDArray[np.int64], emit: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]:
    """The indexes of the images that are published, and their kinds, lone halves of updates turned into inserts and deletes.

    kind: of all images, in order; a before-image is directly followed by its after-image.
    """
    chosen = np.flatnonzero(emit)
    kinds = kind.astype(np.int8)
    before, after = np.flatnonzero(kind == BEFORE), np.flatnonzero(kind == AFTER)
    alone_before, alone_after = emit[before] & ~emit[before + 1], emit[after] & ~emit[after - 1]
    kinds[before[alone_before]], kinds[after[alone_after]] = DELETE, INSERT
    return chosen, kinds[chosen]

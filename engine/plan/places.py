"""Where keys lie among bounds: which chunk a change belongs to. Pure, except for the server's answers.

Arrow compares integers, decimals, dates and binaries. Only the server compares collated texts, TIME and a few other
types (`plan.ordering` asks it), using the same literals as chunk predicates. So a key is placed where the chunk's
SELECT finds it.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.decode.schema import Column
from engine.plan.chunks import Range
from engine.plan.keys import Bound, ChunkKey, scalar

Signs = npt.NDArray[np.int8]
Ask = Callable[[Column, Sequence[str], Sequence[str]], Signs]
"""Asks the server. Takes column, values and bounds' texts; returns -1, 0 or 1 per value and bound, in shape (values,
bounds)."""


def place(keys: pa.Table, bounds: Sequence[Bound], key: ChunkKey, ask: Ask) -> npt.NDArray[np.int64]:
    """For each key, the number of bounds at or below it. NULL is below all bounds.

    keys: a table with the key's columns. bounds: ascending; a bound with fewer columns than the key is before all keys
    that begin with it.
    """
    numbers = np.zeros(keys.num_rows, np.int64)
    if not keys.num_rows or not bounds:
        return numbers
    signs = [
        _signs(keys[column.name], column, list(dict.fromkeys(b[n] for b in bounds if len(b) > n)), ask)
        for n, column in enumerate(key.columns)
    ]
    for bound in bounds:
        reached = signs[len(bound) - 1][bound[-1]] >= 0
        for n in reversed(range(len(bound) - 1)):
            sign = signs[n][bound[n]]
            reached = (sign > 0) | ((sign == 0) & reached)
        numbers += reached
    return numbers


def inside(keys: pa.Table, limits: Range, key: ChunkKey, ask: Ask) -> npt.NDArray[np.bool_]:
    """A mask of the keys inside a range."""
    bounds = [bound for bound in (limits.lower, limits.upper) if bound is not None]
    return np.asarray(place(keys, bounds, key, ask) == (limits.lower is not None))


def _signs(keys: pa.ChunkedArray, column: Column, bounds: Sequence[str], ask: Ask) -> dict[str, Signs]:
    """For each bound's text, how each key compares with it. NULL is smaller."""
    if not bounds:
        return {}
    if scalar(column, bounds[0]) is None:
        return _asked(keys, column, bounds, ask)
    if pa.types.is_float32(keys.type):
        keys = keys.cast(pa.float64())
    out = {}
    for bound in bounds:
        value = scalar(column, bound)
        more = pc.fill_null(pc.greater(keys, value), False).to_numpy().astype(np.int8)
        less = pc.fill_null(pc.less(keys, value), True).to_numpy().astype(np.int8)
        out[bound] = more - less
    return out


def _asked(keys: pa.ChunkedArray, column: Column, bounds: Sequence[str], ask: Ask) -> dict[str, Signs]:
    """As `_signs`, but ask the server, once per distinct key."""
    distinct = keys.combine_chunks().dictionary_encode()
    if isinstance(distinct, pa.ChunkedArray):
        distinct = distinct.combine_chunks()
    answers = ask(column, distinct.dictionary.to_pylist(), bounds)
    at = pc.fill_null(distinct.indices, -1).to_numpy()
    # The extra last row answers for NULL.
    answers = np.vstack([answers, np.full((1, len(bounds)), -1, np.int8)])
    return {bound: answers[at, n] for n, bound in enumerate(bounds)}

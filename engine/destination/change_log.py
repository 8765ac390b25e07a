"""Reads a change log in the order of `_tm_seq`, in bounded memory, from a position of the binlog on.

The files' statistics say which `_tm_seq` each file has, so the log is read in windows of about `WINDOW_ROWS` changes. A binary
search over the windows finds the first one that reaches the position; windows before it are not read.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from engine.destination.delta_rows import rows_of

WINDOW_ROWS = 50_000
_SEQ, _POSITION = "_tm_seq", "_tm_position"
_OFFSET_BITS = 40
Window = tuple[int, int]
"""The least `_tm_seq`, and the one after the largest."""


def packed(file_number: int, offset: int) -> int:
    """A position as one number, in the order of positions of one server."""
    return file_number << _OFFSET_BITS | offset


def unpacked(order: int) -> tuple[int, int]:
    """The inverse of `packed`."""
    return order >> _OFFSET_BITS, order & ((1 << _OFFSET_BITS) - 1)


def orders_of(positions: pa.ChunkedArray | pa.Array) -> list[int]:
    """The texts of `_tm_position` as `packed` numbers. Consecutive images often share one."""
    known: dict[str, int] = {}
    out = []
    for text in positions.to_pylist():
        order = known.get(text)
        if order is None:
            file, _, offset = text.rpartition(":")
            order = known[text] = packed(int(file.rpartition(".")[2]), int(offset))
        out.append(order)
    return out


class ChangeLog:
    """One version of a change log, whatever is committed meanwhile."""

    def __init__(self, folder: Path) -> None:
        delta = DeltaTable(str(folder))
        self.version = delta.version()
        self._rows = rows_of(delta, folder)
        self._windows = list(_windows(delta))

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._rows.schema

    def first_order(self) -> int | None:
        """The position of its first change, packed; None for an empty log."""
        return next((order for window in self._windows for order in self._orders(window)[:1]), None)

    def since(self, order: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the rows in the order of `_tm_seq`, from the first window on that has changes after this position."""
        first = bisect_right(range(len(self._windows)), order, key=self._last)
        for window in self._windows[first:]:
            yield self._rows.table(columns, _inside(window)).sort_by(_SEQ)

    def _last(self, n: int) -> int:
        """The position of the last change up to the end of a window; -1 if there is none."""
        found = (self._orders(window) for window in reversed(self._windows[: n + 1]))
        return next((max(orders) for orders in found if orders), -1)

    def _orders(self, window: Window) -> list[int]:
        """The positions of a window's changes, without rows that were read from the table."""
        rows = self._rows.table([_SEQ, _POSITION], _inside(window) & pc.field("_tm_ts").is_valid())
        return orders_of(rows.sort_by(_SEQ)[_POSITION])


def _inside(window: Window) -> pc.Expression:
    return (pc.field(_SEQ) >= window[0]) & (pc.field(_SEQ) < window[1])


def _windows(delta: DeltaTable) -> Iterator[Window]:
    """Ranges of `_tm_seq` that together have all rows, each of about WINDOW_ROWS rows if numbers are evenly spread in files."""
    files = pa.table(delta.get_add_actions(flatten=True))
    bounds = sorted(_bounds(files))
    edges = {low for low, _, _ in bounds} | {high + 1 for _, high, _ in bounds}
    for low, high, rows in bounds:
        parts = rows // WINDOW_ROWS
        edges |= {low + (high - low) * n // (parts + 1) for n in range(1, parts + 1)}
    begin, held = None, 0
    each = {low: rows // (rows // WINDOW_ROWS + 1) for low, _, rows in bounds}
    ordered = sorted(edges)
    for low, high in pairwise(ordered):
        begin = low if begin is None else begin
        held += each.get(low, 0 if low in each else WINDOW_ROWS // 2)
        if held >= WINDOW_ROWS // 2:
            yield begin, high
            begin, held = None, 0
    if begin is not None:
        yield begin, ordered[-1]


def _bounds(files: pa.Table) -> Iterator[tuple[int, int, int]]:
    """Least and largest `_tm_seq`, and rows, of each file."""
    names = ("min._tm_seq", "max._tm_seq", "num_records")
    if not files.num_rows:
        return
    missing = [name for name in names if name not in files.column_names or files[name].null_count]
    if missing:
        yield 0, (1 << 62), 0  # files of another tool: one window
        return
    yield from zip(*(files[name].to_pylist() for name in names), strict=True)

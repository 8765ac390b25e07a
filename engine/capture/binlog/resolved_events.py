"""A run of the log whose transactions have known outcomes: its rows that count, each where it counts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.capture.binlog.prepared_rows import KeptTransaction, rearrange
from engine.decode.binlog_events import ROWS, among
from engine.decode.framing import Mask, Offsets, words
from engine.decode.stream import EventBatch
from engine.source.xa_places import Prepared

_TABLE_ID = np.uint64((1 << 48) - 1)


@dataclass(frozen=True)
class ResolvedEvents:
    """A run without the rows that do not count."""

    run: EventBatch
    rolled_back_ids: npt.NDArray[np.uint64]
    """Table ids of rows that were rolled back."""
    uncertain_ids: npt.NDArray[np.uint64]
    """Table ids of rows for which it is unknown whether they were rolled back."""
    committed_place: Prepared | None = None
    """The XA transaction that the run's last event commits, if its rows are not in the run: they must be read again."""
    rows: EventBatch | None = None
    """These rows, if they were kept. They were logged in another file, whose table ids mean something else."""


@dataclass(frozen=True)
class Masks:
    """Events of a run that do not simply count.

    They are in transactions that are prepared, rolled back or perhaps rolled back, or have no meaning for rows
    (`idle`).
    """

    is_prepared: Mask
    is_rolled_back: Mask
    is_uncertain: Mask
    idle: Offsets


@dataclass(frozen=True)
class Moves:
    """Row events that count at a COMMIT of the same run.

    Each event, and the COMMIT that it follows, in ascending order of the COMMITs.
    """

    events: Offsets
    behind: Offsets


class ResolvedRun:
    """A run whose first event has the number `first`."""

    def __init__(self, first: int, run: EventBatch, masks: Masks) -> None:
        self.first = first
        self.stop = first + len(run.headers)
        self.run = run
        self.masks = masks
        self.rows = among(run.headers.kind, ROWS)
        self._uncounted = self.rows & (masks.is_prepared | masks.is_rolled_back)
        self._stays = ~self._uncounted
        self._stays[masks.idle] = False

    def prepared_rows(self, captured: npt.NDArray[np.uint64]) -> Offsets:
        """The row events of captured tables that count if their transaction is committed."""
        return of_tables(self.run, np.flatnonzero(self._uncounted & ~self.masks.is_rolled_back), captured)

    def part(
        self,
        begin: int,
        end: int,
        moves: Moves,
        kept_transactions: Sequence[tuple[int, KeptTransaction]],
        committed: Prepared | None = None,
        rows: EventBatch | None = None,
    ) -> ResolvedEvents:
        """Events `begin` to `end`, exclusive, with those that count at a COMMIT among them.

        kept_transactions: as for `rearrange`.
        """
        run, part = self.run, slice(begin, end)
        low, high = np.searchsorted(moves.behind, (begin, end)).tolist()
        stay = np.flatnonzero(self._stays[part]) + begin
        arranged = rearrange(run, stay, moves.events[low:high], moves.behind[low:high], kept_transactions)
        undone, doubtful = self.rows & self.masks.is_rolled_back, self.rows & self.masks.is_uncertain & ~self._uncounted
        undone_ids, doubtful_ids = (_tables(run, np.flatnonzero(mask[part]) + begin) for mask in (undone, doubtful))
        return ResolvedEvents(arranged, undone_ids, doubtful_ids, committed, rows)


def of_tables(run: EventBatch, events: Offsets, tables: npt.NDArray[np.uint64]) -> Offsets:
    """Those of these table maps and row events that belong to these tables."""
    if not len(tables):
        return events[:0]
    return events[np.isin(words(run.buffer)[run.headers.body[events]] & _TABLE_ID, tables)]


def ranges(begin: Offsets, end: Offsets) -> Offsets:
    """The numbers from each `begin` to its `end`, exclusive."""
    size = end - begin
    return np.repeat(begin - np.cumsum(size) + size, size) + np.arange(size.sum())


def inside(events: Offsets, begin: Offsets, end: Offsets) -> Offsets:
    """The events that are in one of the ranges."""
    return events[ranges(np.searchsorted(events, begin), np.searchsorted(events, end))]


def none_within(events: Offsets, begin: Offsets, end: Offsets) -> Mask:
    """For each range, whether none of these events is in it."""
    return np.asarray(np.searchsorted(events, begin) == np.searchsorted(events, end))


def _tables(run: EventBatch, rows: Offsets) -> npt.NDArray[np.uint64]:
    """The table ids of row events."""
    return np.unique(words(run.buffer)[run.headers.body[rows]] & _TABLE_ID)

"""XA transactions: their ids, and the places in the binlog where their rows were logged."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from engine.source.positions import Position

Xid = tuple[bytes, bytes, int]
"""gtrid, bqual, and the format id as an unsigned integer."""
MOST_RECENT = 1000
"""Decided transactions whose places are remembered: a range may begin before the place of the last commit."""
_MOST_UNDECIDED = 10_000
_MOST_ENTRIES = 16


@dataclass(frozen=True)
class Prepared:
    """The place in the log of a prepared XA transaction."""

    start: Position
    end: Position


@dataclass(frozen=True)
class XaPlaces:
    """Where the rows of XA transactions were logged, as far as a range of the binlog was read without a gap.

    For each id, the place is that of its latest PREPARE there.
    """

    undecided: Mapping[Xid, Prepared] = field(default_factory=dict)
    recent: Mapping[Xid, Prepared] = field(default_factory=dict)
    """The last ones that were committed or rolled back."""
    since: Position | None = field(default=None, compare=False)
    at: Position | None = field(default=None, compare=False)
    """The ends of the range. `undecided` is right at `at`, and complete for what was prepared after `since`."""

    def before(self, xid: Xid, position: Position) -> Prepared | None:
        """The place of a transaction that is decided after `position`; None if it is unknown."""
        place = self.undecided.get(xid) or self.recent.get(xid)
        return place if place is not None and place.end.order <= position.order else None

    def after(self, more: "XaPlaces", decided: Iterable[Xid]) -> "XaPlaces":
        """These places, after the next range was read.

        decided: transactions that were prepared here and decided there.

        A gap between the two would hide that an id was used again, so nothing is known from before one.
        """
        if more.at is None:
            return self
        if self.at is None or more.since is None or self.at.order != more.since.order:
            return XaPlaces(_last(more.undecided, _MOST_UNDECIDED), more.recent, more.since, more.at)
        undecided, recent = dict(self.undecided), dict(self.recent)
        for xid in decided:
            if xid in undecided:
                recent[xid] = undecided.pop(xid)
        # An id that was used twice there stands in both; the undecided one is later.
        for places, others, new in ((recent, undecided, more.recent), (undecided, recent, more.undecided)):
            for xid, place in new.items():
                others.pop(xid, None)
                places.pop(xid, None)
                places[xid] = place
        return XaPlaces(_last(undecided, _MOST_UNDECIDED), _last(recent, MOST_RECENT), self.since, more.at)


def _last(places: Mapping[Xid, Prepared], most: int) -> Mapping[Xid, Prepared]:
    return dict(list(places.items())[-most:]) if len(places) > most else places


class KnownPlaces:
    """Where XA transactions were prepared, as known at several positions of one log.

    The last ones that were noted count.
    """

    def __init__(self, *candidates: XaPlaces) -> None:
        self._entries: deque[tuple[Position, XaPlaces]] = deque(maxlen=_MOST_ENTRIES)
        for places in candidates:
            self.note(places)

    def note(self, places: XaPlaces) -> None:
        """Remember what is known at a position."""
        if places.at is None:
            return
        if self._entries and self._entries[-1][0].order == places.at.order:
            self._entries.pop()
        self._entries.append((places.at, places))

    def near(self, position: Position) -> XaPlaces:
        """What is known nearest before a position; if nothing is, then nearest after it."""
        before = [(at.order, places) for at, places in self._entries if at.order <= position.order]
        after = [(at.order, places) for at, places in self._entries if at.order > position.order]
        if before:
            return max(before, key=lambda entry: entry[0])[1]
        return min(after, key=lambda entry: entry[0])[1] if after else XaPlaces()

"""XA transactions: their ids, and the places in the binlog where their rows were logged."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from engine.source.positions import Position

Xid = tuple[bytes, bytes, int]
"""gtrid, bqual, and the format id as an unsigned integer."""
MOST_RECENT = 1000
"""Decided transactions whose places are remembered: a range may begin before the place of the last commit."""
_MOST_UNDECIDED = 10_000


@dataclass(frozen=True)
class Prepared:
    """The place in the log of a prepared XA transaction."""

    start: Position
    end: Position


@dataclass(frozen=True)
class XaPlaces:
    """Where the rows of XA transactions were logged, as far as a stretch of the binlog was read without a gap.

    For each id, the place is that of its latest PREPARE there.
    """

    undecided: Mapping[Xid, Prepared] = field(default_factory=dict)
    recent: Mapping[Xid, Prepared] = field(default_factory=dict)
    """The last ones that were committed or rolled back."""

    def before(self, xid: Xid, position: Position) -> Prepared | None:
        """The place of a transaction that is decided after `position`; None if it is unknown."""
        place = self.undecided.get(xid) or self.recent.get(xid)
        return place if place is not None and place.end.order <= position.order else None

    def after(self, more: "XaPlaces", decided: Iterable[Xid]) -> "XaPlaces":
        """These places, after the next stretch was read. decided: transactions that were prepared here and decided there."""
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
        return XaPlaces(_last(undecided, _MOST_UNDECIDED), _last(recent, MOST_RECENT))


def _last(places: dict[Xid, Prepared], most: int) -> dict[Xid, Prepared]:
    return dict(list(places.items())[-most:]) if len(places) > most else places

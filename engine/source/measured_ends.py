"""The ends of one server's binlog at the moments when it was asked for them.

They date commits without the server's events: those of a range were committed after the last moment when the binlog
ended at or before the range's begin, and before the first moment when it ended at or after the range's end.
"""

from collections import deque

from engine.source.positions import Position

_MOST_ENDS = 4096
"""Measured ends that are kept: two hours of one every two seconds. The oldest are forgotten."""


class MeasuredEnds:
    """The ends that are not committed yet, and the newest one that is. Times are of any one clock, in seconds."""

    def __init__(self) -> None:
        self._open: deque[tuple[Position, float]] = deque(maxlen=_MOST_ENDS)
        self._reached_s = 0.0

    def measured(self, end: Position, asked_s: float) -> None:
        """Note an end. asked_s: the time before it was read, so everything after it was committed later."""
        if self._open and end.order < self._open[-1][0].order:  # another server, or a reset one
            self._open.clear()
            self._reached_s = 0.0
        if self._open and self._open[-1][0].order == end.order:
            self._open.pop()
        self._open.append((end, asked_s))

    def reached_s(self, position: Position) -> float:
        """The latest time after which everything beyond a committed position was committed; 0: unknown.

        Positions ascend from call to call.
        """
        while self._open and self._open[0][0].order <= position.order:
            self._reached_s = self._open.popleft()[1]
        return self._reached_s

    def logged_s(self, position: Position) -> float:
        """The time at which everything up to a position that is not committed yet was in the binlog; 0: unknown."""
        return next((asked_s for end, asked_s in self._open if end.order >= position.order), 0.0)

"""Paces the reads of a throttled reader: a slice of rows, then a pause.

A slice of n rows at rate r is followed by n / r seconds without a read, counted from the beginning of the slice. So any
second brings at most the rate and one slice. The pause is due before the next slice, whichever chunk it belongs to:
many small chunks are read no faster than one large chunk.

A throttled chunk may take long, so a run that is stopped does not wait for it: the reader looks once per second for a
file that the runner creates then.
"""

from collections.abc import Callable
from pathlib import Path

from engine.base import clock

_SLICE_S = 0.2
"""Seconds of reading per slice, at the rate."""
_FEWEST, _MOST = 10, 20_000
"""Rows of a slice: enough to be worth a statement, few enough to be held in memory."""
END = "end"
"""The name of the file that ends throttled reads."""
_NAP_S = 1.0
"""The longest sleep, and the seconds between looks for the file that ends the read."""


class ReadEndedError(Exception):
    """The run is being stopped, so a throttled read ended early. Nothing of its chunk is published."""


def slice_rows(rows_per_s: float) -> int:
    """The rows of a slice."""
    return min(max(round(rows_per_s * _SLICE_S), _FEWEST), _MOST)


class Pacer:
    """Says when the next slice may be read. Kept for all chunks of a reader's session."""

    def __init__(
        self, now_s: Callable[[], float] = clock.monotonic_s, sleep: Callable[[float], None] = clock.sleep
    ) -> None:
        self._now_s = now_s
        self._sleep = sleep
        self._due_s = -1.0
        self._began_s = -1.0
        self._paused_s = 0.0
        self._looked_s = -_NAP_S
        self.end: Path | None = None
        """The file that ends the read once it exists."""

    def wait(self, most_s: float) -> None:
        """Sleep until the next slice is due, at most `most_s` seconds; then the slice begins. Raises ReadEndedError."""
        since_s = self._now_s()
        until_s = min(self._due_s, since_s + most_s)
        self._look()
        while (left_s := until_s - self._now_s()) > 0:
            self._sleep(min(left_s, _NAP_S))
            self._look()
        self._began_s = self._now_s()
        self._paused_s += self._began_s - since_s

    def _look(self) -> None:
        now_s = self._now_s()
        if self.end is not None and now_s - self._looked_s >= _NAP_S:
            self._looked_s = now_s
            if self.end.exists():
                raise ReadEndedError

    def read(self, rows: int, rows_per_s: float) -> None:
        """Record the rows of the slice that began with the last `wait`."""
        self._due_s = max(self._due_s, self._began_s) + rows / rows_per_s

    def take_paused_s(self) -> float:
        """The seconds spent in pauses since the last call."""
        paused_s, self._paused_s = self._paused_s, 0.0
        return paused_s

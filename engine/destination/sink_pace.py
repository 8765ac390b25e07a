"""When a further sink works: an operator may pause it, or have it try again at once. And how fast it is."""

import threading
from collections import deque
from collections.abc import Callable

from engine.base import clock

_LOOK_S = 0.5
_SPAN_S = 60.0


class SinkPace:
    """Of one sink. Its methods may be called by any thread."""

    def __init__(self, is_paused: Callable[[], bool]) -> None:
        """is_paused: whether an operator has paused the sink."""
        self._is_paused = is_paused
        self._again = threading.Event()
        self._rows: deque[tuple[float, int]] = deque()
        self._lock = threading.Lock()

    @property
    def is_paused(self) -> bool:
        """Whether it must not write now."""
        return self._is_paused()

    def try_again(self) -> None:
        """End a rest."""
        self._again.set()

    def must_try(self) -> bool:
        """Whether `try_again` was called since the last call of this."""
        again = self._again.is_set()
        self._again.clear()
        return again

    def rest(self, seconds: float, end: threading.Event) -> bool:
        """Wait before the next try, and while it is paused. Returns whether `end` came."""
        until_s = clock.monotonic_s() + seconds
        while self.is_paused or (clock.monotonic_s() < until_s and not self.must_try()):
            if end.wait(_LOOK_S):
                return True
        return end.is_set()

    def note(self, rows: int) -> None:
        """Count rows that were written."""
        with self._lock:
            self._rows.append((clock.monotonic_s(), rows))
            self._forget()

    @property
    def rows_per_s(self) -> float:
        """The mean of the last minute."""
        with self._lock:
            self._forget()
            return sum(rows for _, rows in self._rows) / _SPAN_S

    def _forget(self) -> None:
        while self._rows and self._rows[0][0] < clock.monotonic_s() - _SPAN_S:
            self._rows.popleft()

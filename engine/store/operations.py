"""Knows since when this process waits for a store: by its own requests, or by tasks that write there for it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from engine.base import clock


class Operations:
    """The operations under way. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began_s: dict[object, float] = {}

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """An operation, until it ends."""
        operation = object()
        with self._lock:
            self._began_s[operation] = clock.monotonic_s()
        try:
            yield
        finally:
            with self._lock:
                del self._began_s[operation]

    def oldest_s(self) -> float | None:
        """When the oldest one began (`clock.monotonic_s`); None if there is none."""
        with self._lock:
            return min(self._began_s.values(), default=None)


OPERATIONS = Operations()
"""Those of this process."""

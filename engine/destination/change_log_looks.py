"""Looks for deleted files of change logs during a run. A table that has lost some fails, and a resnapshot repairs it.

Readers notice a missing file of a mirror, verification included. A change log may not be read for weeks, so we look
ourselves, in the publisher's thread: one table at a time, all of them once a minute, for at most two percent of the
time. In a bucket, where each look is some requests that cost money, it is one table a minute.
"""

from collections import deque
from functools import partial

from engine.base import clock
from engine.destination.published_tables import PublishedTables

INTERVAL_S, _BUCKET_INTERVAL_S = 60.0, 300.0
_SHARE = 0.02
_BUCKET_PAUSE_S = 60.0


class ChangeLogLooks:
    """Whose turn it is. Used by the publisher's thread."""

    def __init__(self, tables: PublishedTables) -> None:
        self._tables = tables
        self._turn = deque[str]()
        is_bucket = isinstance(tables.destination.root, str)
        self._interval_s = _BUCKET_INTERVAL_S if is_bucket else INTERVAL_S
        self._turn_due_s = clock.monotonic_s() + self._interval_s  # the start of a run has looked at all
        self._next_s = 0.0
        self._pause_s = _BUCKET_PAUSE_S if is_bucket else 0.0

    def look(self) -> None:
        """Look at the change log of the next table, if that is due."""
        began_s = clock.monotonic_s()
        if not self._turn and began_s >= self._turn_due_s:
            self._turn.extend(self._tables.targets)
            self._turn_due_s = began_s + self._interval_s
        if not self._turn or began_s < self._next_s:
            return
        name = self._turn.popleft()
        target = self._tables.targets.get(name)
        if target is None or target.resnapshot is not None:
            return
        self._tables.run_step(name, target, partial(self._tables.inspect, name, target, all_changes=True))
        self._next_s = began_s + max((clock.monotonic_s() - began_s) / _SHARE, self._pause_s)

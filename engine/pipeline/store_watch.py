"""Notices a store that hangs: it takes requests and does not answer them.

A request waits for half a minute until it fails, and so does a reader's. So if an operation takes longer than usual,
another thread asks the store for a file, with little patience. Nothing is asked while operations are quick, and an idle
pipeline has none.
"""

import threading
from collections.abc import Callable

from engine.base import clock
from engine.pipeline.disk import Disk
from engine.pipeline.helpers import Helpers
from engine.store.operations import OPERATIONS

_LATE_S = 3.0
"""An operation that takes longer may wait for the store, or have much to do."""
_PAUSE_S = 10.0
"""Between two questions while the store answers. While it does not, `Disk` says when the next one is due."""


class StoreWatch:
    """Call `look` with each heartbeat.

    oldest_s: when the oldest operation began (`clock.monotonic_s`); None if none is under way.
    """

    def __init__(
        self, disk: Disk, helpers: Helpers, oldest_s: Callable[[], float | None] = OPERATIONS.oldest_s
    ) -> None:
        self._disk = disk
        self._helpers = helpers
        self._oldest_s = oldest_s
        self._next_s = 0.0
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Ask the store if that is due. Does not wait for the answer."""
        asking = self._thread is not None and self._thread.is_alive()
        if asking or not self._disk.has_stores or not self._is_due():
            return
        self._thread = threading.Thread(target=self._ask, name="store watch", daemon=True)
        self._thread.start()

    def _is_due(self) -> bool:
        outage = self._disk.outage
        if outage is not None:
            return outage.cause != "disk"  # who probes otherwise may wait for the store itself
        now_s, oldest_s = clock.monotonic_s(), self._oldest_s()
        return oldest_s is not None and now_s - oldest_s > _LATE_S and now_s >= self._next_s

    def _ask(self) -> None:
        probe = self._disk.ask_stores if self._disk.outage is None else self._disk.blocks_work
        self._helpers.guard("store watch", probe)
        self._next_s = clock.monotonic_s() + _PAUSE_S

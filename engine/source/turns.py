"""Turns for connections, where the source allows the user only a few.

Usually a run keeps its connections: one of the coordinator, one of the lag monitor, one of the thread that splits
tables, and one in each Spark worker that has read a chunk. If the account does not allow that many
(`source.connection_limits`), everything closes its connections when it is done, and takes a turn before it opens them.

A task has up to three: one for rows, one for a dump, and one to compare keys by the server's order. A turn is for all
the connections that its holder opens: nobody who has some waits for more, so nobody waits for ever. Turns are given in
the order in which they were asked for, so nobody is skipped. The holders are threads of the runner: a job's turn is for
the connections of its tasks in Spark's workers. Verification and audits take no turn. A run would wait for them, and
they for it; if they are refused a connection, they try again later.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from engine.source.connection_limits import LEAST, tasks_at_once

TASK = LEAST
"""Connections of a task."""


class Turns:
    """Turns for at most so many connections at once; None: no limit, and everybody keeps theirs. Thread-safe."""

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self._taken = 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @property
    def few(self) -> bool:
        """Whether connections are few: they are closed after each use."""
        return self.most is not None

    @property
    def tasks(self) -> int | None:
        """How many tasks may run at once; None: any number."""
        return None if self.most is None else tasks_at_once(self.most)

    @property
    def of_epoch(self) -> int:
        """The connections of an epoch: the coordinator's, and two of each task that reads the binlog."""
        return 1 + 2 * (self.tasks or 0)

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        return len(self._waiting)

    @contextmanager
    def take(self, connections: int) -> Iterator[None]:
        """Wait for a turn to open so many connections, at most all that there are."""
        if self.most is None:
            yield
            return
        wanted, ticket = min(connections, self.most), object()
        with self._changed:
            self._waiting.append(ticket)
            self._changed.wait_for(lambda: self._is_next(ticket, wanted))
            self._waiting.popleft()
            self._taken += wanted
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._taken -= wanted
                self._changed.notify_all()

    def _is_next(self, ticket: object, number: int) -> bool:
        assert self.most is not None
        return self._waiting[0] is ticket and self._taken + number <= self.most

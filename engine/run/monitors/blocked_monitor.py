"""Reports reads that wait for a lock on the source: to the journal, and to the heartbeat for `status` and the console.

`source.blocked_reads` finds them, with one statement while there are none. The lag monitor's thread looks every two
seconds on its own connection. While a run starts, nobody measures lag, so `StartupLook` looks instead: the plan reads
tables, too.

A global privilege counts only for later connections, in MySQL (manual, "When Privilege Changes Take Effect") and in
MariaDB. So a look that cannot see who blocks a read ends its connection: the caller opens another one for the next.
"""

import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from engine.base import clock
from engine.base.errors import LoginRefusedError, SourceChangedError, TidemarkError, TransientError
from engine.journal import Journal
from engine.journal.connection_events import ReadsBlocked
from engine.pipeline.helpers import Helpers
from engine.run.commands.heartbeat import Activity
from engine.source.blocked_reads import BlockedRead, BlockingSession, blocked_reads
from engine.source.connect import Connection, Endpoint, break_off, open_connection

KIND = "read_blocked"
_SOON_S = 2
"""Shorter waits are not reported."""
_INTERVAL_S = 2.0
_RENEWAL_S = 4.0
"""While who blocks a read cannot be seen, the connection is renewed as often."""


class Blocked:
    """The tables whose reads are known to wait. Pure.

    alerted: tables with an alert of an earlier run. late_s: after as long, the event is written again, for the alert.
    """

    def __init__(self, late_s: float, alerted: Iterable[str | None] = ()) -> None:
        self._late_s = late_s
        self._reported: dict[str | None, object] = dict.fromkeys(alerted)
        self._since: dict[str | None, datetime] = {}

    def events(self, blocked_reads: Iterable[BlockedRead], now: datetime) -> list[ReadsBlocked]:
        """All that wait now, by table."""
        reads = {one.table: one for one in blocked_reads if one.seconds >= _SOON_S}
        # A reader that gave up and tried again waits since then; its table has been blocked for longer.
        self._since = {
            table: min(now - timedelta(seconds=one.seconds), self._since.get(table, now))
            for table, one in reads.items()
        }
        return [_event(one, self._since[table], now) for table, one in reads.items()]

    def news(self, events: Sequence[ReadsBlocked]) -> list[ReadsBlocked]:
        """The ones that were not written yet, and an end for each table that was."""
        keys = {one.table: _key(one, late=one.seconds >= self._late_s) for one in events}
        new = [one for one in events if self._reported.get(one.table) != keys[one.table]]
        over = [ReadsBlocked(table=table, since=None) for table in self._reported if table not in keys]
        self._reported = dict(keys)
        return [*new, *over]


def _key(event: ReadsBlocked, *, late: bool) -> object:
    """What makes an event another one.

    Not times, statements and sessions that only may hold the lock, which always change.
    """
    sessions = [(one["connection"], one["role"], one["lock"]) for one in event.sessions if one["role"] != "may hold"]
    return event.lock, sessions, event.unseen, late


def _event(one: BlockedRead, since: datetime, now: datetime) -> ReadsBlocked:
    return ReadsBlocked(
        table=one.table,
        since=clock.utc_text(since),
        seconds=round((now - since).total_seconds(), 1),
        lock=one.lock,
        reads=one.reads,
        sessions=[_session(session, now) for session in one.sessions],
        unseen=one.unseen,
        hint=one.hint,
    )


def _session(session: BlockingSession, now: datetime) -> dict[str, Any]:
    return {
        "connection": session.connection,
        "user": session.user,
        "host": session.host,
        "role": session.role,
        "lock": session.lock,
        "since": clock.utc_text(now - timedelta(seconds=session.seconds)),
        "idle": session.idle,
        "statement": session.statement,
    }


class BlockedMonitor:
    """Looks whenever it is called, by one thread at a time."""

    def __init__(self, journal: Journal, activity: Activity, helpers: Helpers, blocked: Blocked) -> None:
        self._journal = journal
        self._activity = activity
        self._helpers = helpers
        self._blocked = blocked
        self._renewal_due_s = 0.0

    def look(self, connection: Connection) -> None:
        """Look once. Other errors than that the source cannot be asked are reported.

        The connection is closed if another one may see more.

        Raises TransientError, SourceChangedError or LoginRefusedError.
        """
        try:
            reads = blocked_reads(connection)
            events = self._blocked.events(reads, clock.utc_now())
            self._helpers.succeeded("blocked reads")
        except (TransientError, SourceChangedError, LoginRefusedError):
            raise
        except Exception as error:  # noqa: BLE001 - lag is measured by the same thread
            self._helpers.failed("blocked reads", error)
            return
        self._activity.blocked = [one.to_json() for one in events]
        for event in self._blocked.news(events):
            self._journal.write(event)
        if any(one.unseen for one in reads) and clock.monotonic_s() >= self._renewal_due_s:
            self._renewal_due_s = clock.monotonic_s() + _RENEWAL_S
            connection.close()


class StartupLook:
    """Looks every two seconds until it is closed, on a connection of its own: none if the start takes less."""

    def __init__(self, endpoint: Endpoint, monitor: BlockedMonitor) -> None:
        self._endpoint = endpoint
        self._monitor = monitor
        self._closing = threading.Event()
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._work, name="blocked reads", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, also if the source does not answer it."""
        self._closing.set()
        if (connection := self._connection) is not None:
            break_off(connection)
        self._thread.join(timeout=5)

    def _work(self) -> None:
        while not self._closing.wait(_INTERVAL_S):
            with suppress(TidemarkError):  # the start itself reports what the source refuses
                if self._connection is None or not self._connection.open:
                    self._connection = open_connection(self._endpoint)
                self._monitor.look(self._connection)
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()

"""Notices that another program has changed rows of a mirror, by the new commits in its Delta log (`foreign_commits`).

This thread looks at a mirror after each merge and resnapshot, and at all mirrors in turn, once a minute. So it also
finds what was committed while no runner was alive. A look at a log without new commits takes 20 µs on a local disk,
however long the log is. The thread looks for at most 5 % of the time, so on a slow file system a turn takes longer.

A mirror that another program has changed waits for its turn, so a program that writes all the time causes one event a
minute.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from engine.base import clock
from engine.capture.landing import Commit, Landing, MirrorReader, reader_of
from engine.decode.schema import table_from_dict
from engine.journal import Entry, Journal
from engine.journal.destination_events import SinkApplied
from engine.journal.event_fields import ForeignCommit
from engine.journal.events import TableStateChanged
from engine.journal.verification_events import MirrorWritten
from engine.journal.verification_summary import Summary
from engine.ledger.state import State
from engine.pipeline.directory import Directory
from engine.pipeline.helpers import Helpers
from engine.pipeline.saved_lists import read_alerts
from engine.pipeline.verification_records import ForeignChanges, MirrorLogs
from engine.pipeline.verifications import (
    has_proved,
    read_mirror_logs,
    read_summaries,
    save_mirror_logs,
    summaries_changed,
)

INTERVAL_S = 60.0
_LOOK_S = 0.5
_AT_ONCE = 200
"""The most mirrors at rest that are looked at before the merged ones have their turn again."""
_SHARE = 0.05
"""The largest share of the time in which it looks."""
_LONGEST_REST_S = 600.0
_NAMED = 10
"""The most commits that an event names."""


class Watched:
    """How far the logs were read, and which mirrors other programs have changed.

    Only changes count since the mirrors were last verified or resnapshotted.
    """

    def __init__(self, logs: MirrorLogs, alerted: Iterable[str] = ()) -> None:
        """alerted: tables with an alert. If the logs' file was lost, a verification of such a table still clears it."""
        self.versions = dict(logs.versions)
        placeholders = {table: ForeignChanges(0, -1) for table in alerted}
        self.foreign = placeholders | dict(logs.foreign)
        self.unsaved = False
        self._seen = set[str]()

    @property
    def logs(self) -> MirrorLogs:
        """For the file."""
        return MirrorLogs(dict(self.versions), dict(self.foreign))

    def look(self, table: str, reader: MirrorReader) -> Iterator[MirrorWritten]:
        """Read the new commits of a mirror. Yields an event if there are news."""
        version, changes = self.versions.get(table, -1), self.foreign.get(table)
        count, newest, copied = changes.commits if changes else 0, deque[Commit](maxlen=_NAMED), False
        for commit in reader.commits_after(version):
            if commit.version <= version or commit.replaces:  # in a new folder, or resnapshotted
                count, copied = 0, True
                newest.clear()
            if commit.foreign:
                count += 1
                newest.appendleft(commit)
            version = commit.version
        self._seen.add(table)
        if version != self.versions.get(table, -1):
            self.versions[table], self.unsaved = version, True
        if newest:
            self.foreign[table] = ForeignChanges(count, newest[0].version)
            yield MirrorWritten(table=table, commits=count, newest=[_fields(commit) for commit in newest])
        elif copied and changes:
            del self.foreign[table]
            yield MirrorWritten(table=table, commits=0, cleared_by="resnapshot")
        elif changes and changes.version < 0 <= version:  # lost: a verification before now proves nothing
            self.foreign[table] = replace(changes, version=version)

    def proved(self, summaries: Mapping[str, Summary]) -> Iterator[MirrorWritten]:
        """Forget what other programs have changed in mirrors that were verified since. Yields an event for each."""
        for table, changes in list(self.foreign.items()):
            if table in self._seen and has_proved(summaries.get(table), changes.version):
                del self.foreign[table]
                self.unsaved = True
                yield MirrorWritten(table=table, commits=0, cleared_by="verification")

    def forget(self, tables: Iterable[str]) -> None:
        """Forget tables that were removed: if one is added again, its mirror has another log."""
        for table in tables:
            entries = [self.versions.pop(table, None), self.foreign.pop(table, None)]
            self.unsaved = self.unsaved or entries != [None, None]


class MirrorMonitor:
    """Looks until it is closed. landing: of the destination. state: the committed state."""

    def __init__(
        self, landing: Landing, directory: Directory, journal: Journal, helpers: Helpers, state: Callable[[], State]
    ) -> None:
        self._landing = landing
        self._directory = directory
        self._state = state
        self._journal = journal
        self._helpers = helpers
        self._watched = Watched(read_mirror_logs(directory), _alerted(directory))
        self._merged = deque[str]()
        self._removed = deque[str]()
        self._turn = deque[str]()
        self._began_s = -INTERVAL_S
        self._summaries_s = -1.0
        self._unread = set[str]()
        self._reported = False
        self._closing = threading.Event()
        journal.listeners.append(self._hear)
        self._thread = threading.Thread(target=self._work, name="mirrors", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closing.set()
        self._journal.listeners = [one for one in self._journal.listeners if one != self._hear]
        self._thread.join(timeout=5)

    def _hear(self, entry: Entry) -> None:
        event = entry.event
        if isinstance(event, SinkApplied) and event.kind != "append":
            if event.kind == "replace" or event.table not in self._watched.foreign:
                self._merged.append(event.table)
        elif isinstance(event, TableStateChanged) and event.state == "removed":
            self._removed.append(event.table)

    def _work(self) -> None:
        rest_s = 0.0
        while not self._closing.wait(max(_LOOK_S, rest_s)):
            began_s = clock.monotonic_s()
            try:
                self._look(began_s)
                if not self._unread:  # those are looked at again in their next turn
                    self._helpers.succeeded("mirrors")
            except Exception as error:  # noqa: BLE001 - a helper's error must not end it
                self._helpers.failed("mirrors", error)
            rest_s = rest_after_s(clock.monotonic_s() - began_s)
        with suppress(OSError):  # the next run reads these commits again
            self._save()

    def _look(self, now_s: float) -> None:
        """Look at the mirrors whose turn it is. Raises OSError."""
        tables = self._state().tables
        self._watched.forget(_taken(self._removed))
        if not self._turn and now_s - self._began_s >= INTERVAL_S:
            self._turn = deque(tables)
            self._began_s = now_s
            self._watched.forget({*self._watched.versions, *self._watched.foreign} - tables.keys())
            self._save()
            self._unread &= tables.keys()
        failed: OSError | None = None
        for name in dict.fromkeys((*_taken(self._merged), *_taken(self._turn, _AT_ONCE))):
            table = tables[name].table if name in tables else {}
            if table.get("key"):  # others have no mirror
                reader = reader_of(self._landing, table_from_dict(table))
                try:
                    self._report(self._watched.look(name, reader))
                    self._unread.discard(name)
                except OSError as error:  # the other program may write files that this one may not read
                    failed = error
                    self._unread.add(name)
        if self._watched.foreign and (changed_s := summaries_changed(self._directory)) != self._summaries_s:
            summaries = read_summaries(self._directory)
            current = {n: s for n, s in summaries.items() if n in tables and s.generation == tables[n].generation}
            self._report(self._watched.proved(current))
            self._summaries_s = changed_s
        # After the events: if the runner is killed between, the next one reads the same commits again.
        if self._reported:
            self._reported = False
            self._save()
        if failed is not None:
            raise failed

    def _report(self, news: Iterator[MirrorWritten]) -> None:
        if [self._journal.write(event) for event in news]:
            # the mirror may be verified already
            self._summaries_s = -1.0
            self._reported = True

    def _save(self) -> None:
        if self._watched.unsaved:
            save_mirror_logs(self._directory, self._watched.logs)
            self._watched.unsaved = False


def rest_after_s(took_s: float) -> float:
    """The seconds to rest after a look. A file system that hung for hours does not keep it from looking for days."""
    return min(took_s * (1 / _SHARE - 1), _LONGEST_REST_S)


def _alerted(directory: Directory) -> list[str]:
    """The tables whose alert an earlier run left active; none if the file is invalid."""
    with suppress(ValueError, OSError, TypeError, KeyError):
        return [alert.table for alert in read_alerts(directory) if alert.kind == "mirror_written" and alert.table]
    return []


def _fields(commit: Commit) -> ForeignCommit:
    at = clock.utc_text(datetime.fromtimestamp(commit.at_s, UTC))
    return ForeignCommit(commit.version, commit.operation, commit.author, at)


def _taken(waiting: deque[str], most: int | None = None) -> list[str]:
    """The first names that wait; they wait no longer. Other threads may add names meanwhile."""
    return [waiting.popleft() for _ in range(len(waiting) if most is None else min(most, len(waiting)))]

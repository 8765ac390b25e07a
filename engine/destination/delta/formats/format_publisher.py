"""Threads that publish the other formats of a destination's tables, right after their Delta commits.

It keeps no essential state: what it has not published, the Delta logs still have (`iceberg_copy`). A table whose
metadata cannot be written is tried again after a pause; the Delta table and all other tables are not affected. Another
one, with threads of its own, tells the catalog (`registration`).
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from engine.base import clock
from engine.base.errors import PipelineHeldError, TidemarkError
from engine.destination.capabilities import FormatState
from engine.destination.destination_protocol import Guard

_AT_ONCE = 8
_BATCH_S = 0.5
"""The least time between two rounds of a table, so that one that commits often has several snapshots in one commit."""
_RETRY_S, _LONGEST_RETRY_S = 1.0, 30.0
_IDLE_S = 60.0
"""After this time without commits, a table is dropped from memory."""
_FINISH_S = 60.0


class Publication(Protocol):
    """A table in another format, or in a catalog: `IcebergCopy`, `Registration`."""

    @property
    def place(self) -> str:
        """Where it is. It identifies the publication."""

    @property
    def is_dropped(self) -> bool:
        """Whether its table is dropped: another one of that place may follow."""

    @property
    def published_version(self) -> int:
        """The version of the Delta table that its readers see, as of the last look; -1 for none."""

    def catch_up(self, at_least: int = -1) -> int:
        """Publish what it lacks. at_least: a version that the Delta log has. Returns how many versions."""

    def rest(self) -> None:
        """Drop from memory what the next call can read again."""

    def take_foreign_commits(self) -> list[str]:
        """What other programs have done to it since the last call."""


P = TypeVar("P", bound=Publication)


@dataclass
class _Follower(Generic[P]):
    """A table's publication, and how far it is."""

    table: str
    copy: P
    waits_since_s: float | None = None
    """When the oldest commit was made that may not be published (`clock.monotonic_s`)."""
    notes: int = 0
    """How many commits were noted."""
    version: int = -1
    """The newest version that was noted."""
    is_running: bool = False
    """Whether a thread publishes it."""
    due_s: float = 0.0
    """When it may be published again."""
    published_s: float | None = None
    """When it was published last; None if it was dropped from memory since."""
    failure: str = ""
    hint: str = ""
    foreign_commits: list[str] = field(default_factory=list)
    pause_s: float = _RETRY_S


class FormatPublisher(Generic[P]):
    """guard: called before something is written. Several threads may use it."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._followers: dict[str, _Follower[P]] = {}
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._is_held = False

    def copy_of(self, table: str, copy: P) -> P:
        """The one publication of a table. copy: which it is if there is none yet."""
        with self._changed:
            if (follower := self._followers.get(copy.place)) is None or follower.copy.is_dropped:
                follower = self._followers[copy.place] = _Follower(table, copy)
            return follower.copy

    def forget(self, copy: P) -> None:
        """Follow a table no more, which is dropped."""
        with self._changed:
            if (follower := self._followers.get(copy.place)) is not None and follower.copy is copy:
                del self._followers[copy.place]

    def note(self, copy: P, version: int = -1) -> None:
        """Publish soon what the Delta table has got. version: its newest one, if that is known."""
        with self._changed:
            follower = self._followers.get(copy.place)
            if follower is None or follower.copy is not copy:
                return  # it is dropped
            follower.notes += 1
            follower.version = max(follower.version, version)
            if follower.waits_since_s is None:
                follower.waits_since_s = clock.monotonic_s()
            waiting = sum(one.waits_since_s is not None for one in self._followers.values())
            if len(self._threads) < min(waiting, _AT_ONCE):
                self._threads.append(threading.Thread(target=self._work, name="formats", daemon=True))
                self._threads[-1].start()
            self._changed.notify_all()

    def finish(self) -> None:
        """Wait until all is published, or what is not has failed; a minute at most."""
        until_s = clock.monotonic_s() + _FINISH_S
        with self._changed:
            while self._has_work() and not self._is_held and (left_s := until_s - clock.monotonic_s()) > 0:
                self._changed.wait(min(left_s, 1.0))

    def states(self) -> Sequence[FormatState]:
        """Of all tables."""
        with self._changed:
            states = [
                FormatState(
                    one.table,
                    one.copy.place,
                    one.copy.published_version,
                    self._waits_s(one),
                    one.failure,
                    one.hint,
                    one.foreign_commits,
                )
                for one in self._followers.values()
            ]
            for one in self._followers.values():
                one.foreign_commits = []
            return states

    def is_published(self, copy: P) -> bool:
        """Whether nothing waits for a copy."""
        with self._changed:
            follower = self._followers.get(copy.place)
            return follower is not None and follower.waits_since_s is None

    def waits_s(self, copies: Iterable[P]) -> float:
        """For how many seconds the oldest commit waits that one of these lacks."""
        with self._changed:
            followers = (self._followers.get(copy.place) for copy in copies)
            return max((self._waits_s(one) for one in followers if one is not None), default=0.0)

    @staticmethod
    def _waits_s(follower: _Follower[P]) -> float:
        return 0.0 if follower.waits_since_s is None else clock.monotonic_s() - follower.waits_since_s

    def _has_work(self) -> bool:
        followers = self._followers.values()
        return any(one.is_running or (one.waits_since_s is not None and not one.failure) for one in followers)

    def _work(self) -> None:
        while not self._is_held:
            with self._changed:
                follower = self._next()
                if follower is None:
                    self._changed.wait(self._pause_s())
                    continue
                follower.is_running = True
            if follower.waits_since_s is None:
                follower.copy.rest()
                follower.published_s = None
            else:
                self._publish(follower)
            with self._changed:
                follower.is_running = False
                self._changed.notify_all()

    def _next(self) -> _Follower[P] | None:
        """The table that has waited longest and may be published; else one to be dropped from memory."""
        now_s = clock.monotonic_s()
        free = [one for one in self._followers.values() if not one.is_running and one.due_s <= now_s]
        waiting = [one for one in free if one.waits_since_s is not None]
        if waiting:
            # Those that fail, perhaps slowly, keep no other one waiting.
            return min(waiting, key=lambda one: max(one.due_s, one.waits_since_s or 0.0))
        return next((one for one in free if one.published_s and one.published_s < now_s - _IDLE_S), None)

    def _pause_s(self) -> float:
        now_s = clock.monotonic_s()
        waiting = (one for one in self._followers.values() if one.waits_since_s is not None and not one.is_running)
        return max(0.05, min((one.due_s - now_s for one in waiting), default=_IDLE_S))

    def _publish(self, follower: _Follower[P]) -> None:
        since_s, notes = clock.monotonic_s(), follower.notes
        try:
            self._guard()
            follower.copy.catch_up(follower.version)
            commits = follower.copy.take_foreign_commits()
        except PipelineHeldError:
            self._is_held = True
        except Exception as error:  # noqa: BLE001 - the Delta table is right, and the next round tries again
            ours = error if isinstance(error, TidemarkError) else None
            with self._changed:
                follower.failure = ours.message if ours else f"{type(error).__name__}: {error}"
                follower.hint = ours.hint if ours else ""
                follower.due_s = clock.monotonic_s() + follower.pause_s
                follower.pause_s = min(2 * follower.pause_s, _LONGEST_RETRY_S)
        else:
            with self._changed:
                follower.foreign_commits += commits
                follower.failure = ""
                follower.hint = ""
                follower.pause_s = _RETRY_S
                follower.due_s = since_s + _BATCH_S
                follower.published_s = clock.monotonic_s()
                follower.waits_since_s = None if follower.notes == notes else since_s
                if follower.copy.is_dropped:
                    self._followers.pop(follower.copy.place, None)

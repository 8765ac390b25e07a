"""A thread that publishes the other formats of a destination's tables, right after their Delta commits.

It keeps no essential state: what it has not published, the Delta logs still have (`iceberg_copy`). A table whose
metadata cannot be written is tried again after a pause; the Delta table and all other tables are not affected.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.base import clock
from engine.base.errors import PipelineHeldError, TidemarkError
from engine.base.parallel import map_parallel
from engine.destination.capabilities import FormatState
from engine.destination.delta.formats.iceberg_copy import IcebergCopy
from engine.destination.destination_protocol import Guard

_AT_ONCE = 8
_BATCH_S = 0.5
"""The least time between two rounds, so that a table that commits often has several snapshots in one commit."""
_RETRY_S, _LONGEST_RETRY_S = 1.0, 30.0
_IDLE_S = 60.0
_FINISH_S = 60.0


@dataclass
class _Follower:
    """A table's copy, and how far it is."""

    table: str
    copy: IcebergCopy
    waits_since_s: float | None = None
    """When the oldest commit was made that may not be published (`clock.monotonic_s`)."""
    notes: int = 0
    """How many commits were noted."""
    failure: str = ""
    hint: str = ""
    foreign_commits: list[str] = field(default_factory=list)
    retry_at_s: float = 0.0
    pause_s: float = _RETRY_S


class FormatPublisher:
    """guard: called before something is written. Several threads may use it."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._followers: dict[str, _Follower] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_held = False

    def copy_of(self, table: str, copy: IcebergCopy) -> IcebergCopy:
        """The one copy of a Delta table. copy: which it is if there is none yet."""
        with self._changed:
            return self._followers.setdefault(copy.folder.url, _Follower(table, copy)).copy

    def forget(self, copy: IcebergCopy) -> None:
        """Follow a Delta table no more, which is dropped."""
        with self._changed:
            self._followers.pop(copy.folder.url, None)

    def note(self, copy: IcebergCopy) -> None:
        """Publish soon what the Delta table has got."""
        with self._changed:
            follower = self._followers.get(copy.folder.url)
            if follower is None:
                return  # it is dropped
            follower.notes += 1
            if follower.waits_since_s is None:
                follower.waits_since_s = clock.monotonic_s()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="formats", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def finish(self) -> None:
        """Wait until all is published, or what is not has failed; a minute at most."""
        until_s = clock.monotonic_s() + _FINISH_S
        with self._changed:
            while self._unpublished() and not self._is_held and (left_s := until_s - clock.monotonic_s()) > 0:
                self._changed.wait(min(left_s, 1.0))

    def states(self) -> Sequence[FormatState]:
        """Of all tables."""
        with self._changed:
            states = [
                FormatState(
                    one.table,
                    one.copy.folder.url,
                    one.copy.published_version,
                    0.0 if one.waits_since_s is None else clock.monotonic_s() - one.waits_since_s,
                    one.failure,
                    one.hint,
                    one.foreign_commits,
                )
                for one in self._followers.values()
            ]
            for one in self._followers.values():
                one.foreign_commits = []
            return states

    def is_published(self, copy: IcebergCopy) -> bool:
        """Whether nothing waits for a copy."""
        with self._changed:
            follower = self._followers.get(copy.folder.url)
            return follower is not None and follower.waits_since_s is None

    def _unpublished(self) -> list[_Follower]:
        return [one for one in self._followers.values() if one.waits_since_s is not None and not one.failure]

    def _work(self) -> None:
        while not self._is_held:
            began_s = clock.monotonic_s()
            with self._changed:
                due = [
                    one
                    for one in self._followers.values()
                    if one.waits_since_s is not None and one.retry_at_s <= began_s
                ]
                if not due:
                    self._changed.wait(self._pause_s())
                    continue
            map_parallel(self._publish, due, _AT_ONCE)
            with self._changed:
                self._changed.notify_all()
            clock.sleep(max(0.0, began_s + _BATCH_S - clock.monotonic_s()))

    def _pause_s(self) -> float:
        now_s = clock.monotonic_s()
        waits = [one.retry_at_s - now_s for one in self._followers.values() if one.waits_since_s is not None]
        return max(0.05, min(waits, default=_IDLE_S))

    def _publish(self, follower: _Follower) -> None:
        since_s, notes = clock.monotonic_s(), follower.notes
        try:
            self._guard()
            follower.copy.catch_up()
            commits = follower.copy.take_foreign_commits()
        except PipelineHeldError:
            self._is_held = True
        except Exception as error:  # noqa: BLE001 - the Delta table is right, and the next round tries again
            with self._changed:
                told = error if isinstance(error, TidemarkError) else None
                follower.failure = told.message if told else f"{type(error).__name__}: {error}"
                follower.hint = told.hint if told else ""
                follower.retry_at_s = clock.monotonic_s() + follower.pause_s
                follower.pause_s = min(2 * follower.pause_s, _LONGEST_RETRY_S)
        else:
            with self._changed:
                follower.foreign_commits += commits
                follower.failure = ""
                follower.hint = ""
                follower.pause_s = _RETRY_S
                follower.retry_at_s = 0.0
                follower.waits_since_s = None if follower.notes == notes else since_s

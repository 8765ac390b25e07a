"""When which table of a destination is maintained, between merges in the publisher's thread.

One step at a time, each of a bounded size: epochs that arrive meanwhile wait for a second or two. A mirror is looked at
after some merges, a change log after some commits or an hour, folders every hour; all of a table that has not changed
for two hours, once a day. Tables take turns. A failed step is journaled, and that table's maintenance waits an hour;
the table itself continues, because maintenance changes no row.

An operator's request (`tidemark maintain`) runs all steps of its tables to their end.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa

from engine.base import clock
from engine.base.errors import PipelineHeldError, TidemarkError, is_disk_full
from engine.destination.destination_protocol import STEPS, TableMaintenance
from engine.destination.destination_protocol import MaintenanceStep as Step
from engine.destination.table_progress import Target
from engine.journal import Journal
from engine.journal.destination_events import TableMaintained
from engine.journal.events import ErrorReported
from engine.spec.merge_numbers import MERGES_PER_LOOK
from engine.spec.sink_settings import Sink

_COMMITS = 50
"""After so many commits, a change log is looked at; a mirror after `MERGES_PER_LOOK` merges."""
_HOUR_S, _DAY_S = 3600.0, 86_400.0
_QUIET_S = 2 * _HOUR_S
"""After so long without a commit, the hourly looks have done what there was to do: the hour of the last changes is
closed."""
_FIRST_S = 600.0
"""After the start of a run, the first look is due earlier: a run may be short."""
_SPARED_S = 60.0
"""How long the names of needed files are used. Newer ones are protected by their age
(`destination.delta.maintenance.vacuum`)."""


@dataclass(frozen=True)
class Request:
    """An operator's request to maintain some tables now."""

    identity: str
    tables: tuple[str, ...]
    """Empty: all tables."""


@dataclass
class Answer:
    """What was done for a request."""

    steps: int = 0
    removed_files: int = 0
    removed_bytes: int = 0
    added_bytes: int = 0
    failed: list[str] = field(default_factory=list)
    """Tables whose maintenance failed; the journal has the errors."""

    def add(self, done: TableMaintained) -> None:
        """Count a step."""
        self.steps += 1
        self.removed_files += done.removed_files
        self.removed_bytes += done.removed_bytes
        self.added_bytes += done.added_bytes


@dataclass
class _Schedule:
    """What has happened to one table since it was last looked at."""

    changed_s: float
    merges: int = 0
    commits: int = 0
    last_s: dict[Step, float] = field(default_factory=dict)
    next_s: float = -math.inf
    """When the first step is due, if nothing is committed before."""
    pending: list[Step] = field(default_factory=list)
    """Steps to run now, each until it has nothing to do."""


class Maintenance:
    """Decides what to do next, and does it. All but `request` and `answers` belongs to the publisher's thread.

    needed: the names of files that the ledger still needs, by table.
    """

    def __init__(self, sink: Sink, journal: Journal, needed: Callable[[], Mapping[str, set[str]]]) -> None:
        self._sink = sink
        self._journal = journal
        self._needed = needed
        self._spared: tuple[float, Mapping[str, set[str]]] = (-_SPARED_S, {})
        self._schedules: dict[str, _Schedule] = {}
        self._served = ""
        self._requests: deque[Request] = deque()
        self._answers: dict[str, Answer] = {}
        self._current: tuple[Request, Answer, deque[tuple[str, Step]]] | None = None
        self._lock = threading.Lock()

    def request(self, request: Request) -> None:
        """Queue a request; called by the coordinator's thread."""
        with self._lock:
            self._requests.append(request)

    def answers(self) -> dict[str, Answer]:
        """The requests completed since the last call; called by the coordinator's thread."""
        with self._lock:
            found, self._answers = self._answers, {}
            return found

    def committed(self, table: str, *, merged: bool) -> None:
        """Count a commit to a table."""
        schedule = self._schedule(table)
        now_s = clock.monotonic_s()
        if now_s - schedule.changed_s >= _QUIET_S:
            schedule.next_s = -math.inf  # the intervals are shorter again
        schedule.changed_s = now_s
        if merged:
            schedule.merges += 1
        else:
            schedule.commits += 1

    def run_one(self, targets: Mapping[str, Target]) -> bool:
        """Run one step if any is due. Returns whether one ran, so that more may be due."""
        if self._current is None and self._requests:
            with self._lock:
                request = self._requests.popleft()
            names = [name for name in request.tables or targets if name in targets]
            self._current = request, Answer(), deque((name, step) for name in names for step in STEPS)
        if self._current is not None:
            return self._run_requested(targets)
        return self._sink.maintenance and self._run_scheduled(targets)

    def _run_requested(self, targets: Mapping[str, Target]) -> bool:
        assert self._current is not None
        request, answer, left = self._current
        if not left:
            with self._lock:
                self._answers[request.identity] = answer
            self._current = None
            return True
        name, step = left[0]
        target = targets.get(name)
        if target is None or target.error is not None or target.maintenance is None:
            done = None
        else:
            done = self._run(name, step, target, answer.failed)
        if done is None:
            left.popleft()
        else:
            answer.add(done)
            if step == "vacuum":
                left.popleft()
        return True

    def _run_scheduled(self, targets: Mapping[str, Target]) -> bool:
        now_s = clock.monotonic_s()
        names = list(targets)
        first = names.index(self._served) + 1 if self._served in targets else 0
        for name in (*names[first:], *names[:first]):
            target = targets[name]
            if target.error is not None or target.resnapshot is not None or target.maintenance is None:
                continue
            schedule = self._schedule(name)
            schedule.pending = schedule.pending or self._due(schedule, now_s)
            if schedule.pending:
                step = schedule.pending[0]
                failed = list[str]()
                self._served = name
                done = self._run(name, step, target, failed)
                if failed:
                    schedule.pending = []
                    schedule.last_s = dict.fromkeys(STEPS, now_s)
                    schedule.next_s = -math.inf
                elif done is None or step == "vacuum":
                    schedule.pending.pop(0)
                return True
        return False

    def _schedule(self, table: str) -> _Schedule:
        if table not in self._schedules:
            self._schedules[table] = _Schedule(changed_s=clock.monotonic_s())
        return self._schedules[table]

    def _due(self, schedule: _Schedule, now_s: float) -> list[Step]:
        """The steps to look at; each is then not due for some time."""
        counted = {"optimize": schedule.merges >= MERGES_PER_LOOK, "compact": schedule.commits >= _COMMITS}
        if now_s < schedule.next_s and not any(counted.values()):
            return []
        found: list[Step] = []
        quiet, waits_s = now_s - schedule.changed_s >= _QUIET_S, dict[Step, float]()
        for step in STEPS:
            hourly_s = self._vacuum_s(_HOUR_S) if step == "vacuum" else _HOUR_S
            daily_s = self._vacuum_s(_DAY_S) if step == "vacuum" else _DAY_S
            waits_s[step] = daily_s if quiet else hourly_s
            first_s = now_s - max(hourly_s - _FIRST_S, 0.0)
            if counted.get(step) or now_s - schedule.last_s.setdefault(step, first_s) >= waits_s[step]:
                found.append(step)
                schedule.last_s[step] = now_s
        if "optimize" in found:
            schedule.merges = 0
        if "compact" in found:
            schedule.commits = 0
        schedule.next_s = min(schedule.last_s[step] + waits_s[step] for step in STEPS)
        return found

    def _vacuum_s(self, most_s: float) -> float:
        return max(min(most_s, self._sink.files_retention_s / 4), 1.0)

    def _run(self, name: str, step: Step, target: Target, failed: list[str]) -> TableMaintained | None:
        """Run one step. An error is journaled; it is not the table's."""
        try:
            assert target.maintenance is not None
            done = self._step(name, step, target.maintenance)
        except PipelineHeldError:
            raise
        except Exception as error:  # noqa: BLE001 - maintenance changes no row, so the table continues
            failed.append(name)
            self._journal.write(_failure(name, step, error))
            return None
        if done is not None:
            self._journal.write(done)
            pa.default_memory_pool().release_unused()  # Arrow would keep what a rewrite needed
        return done

    def _step(self, name: str, step: Step, maintenance: TableMaintenance) -> TableMaintained | None:
        if step == "optimize":
            return maintenance.optimize()
        if step == "compact":
            return maintenance.compact()
        if step == "expire":
            retention_s = self._sink.changes_retention_s
            return None if retention_s is None else maintenance.expire(clock.utc_now() - timedelta(seconds=retention_s))
        retention = timedelta(seconds=self._sink.files_retention_s)
        if clock.monotonic_s() - self._spared[0] >= _SPARED_S:
            self._spared = clock.monotonic_s(), self._needed()
        return maintenance.vacuum(self._spared[1].get(name, set()), retention)


def _failure(name: str, step: Step, error: Exception) -> ErrorReported:
    known = error.message if isinstance(error, TidemarkError) else f"{type(error).__name__}: {error}"
    return ErrorReported(
        error="MaintenanceError",
        message=f"{name}: maintenance ({step}) failed: {known}",
        detail="No row is affected; the table continues. Its maintenance is tried again in an hour.",
        hint="Make room on the disk." if is_disk_full(error) else "Check the table's folder in the destination.",
        table=name,
    )


def due_steps(sink: Sink, tables: Sequence[TableMaintenance]) -> dict[str, list[Step]]:
    """The steps that have something to do, by table, apart from the vacuum. Writes nothing."""
    retention_s = sink.changes_retention_s
    before = None if retention_s is None else clock.utc_now() - timedelta(seconds=retention_s)
    return {one.table.full_name: one.due(before) for one in tables}

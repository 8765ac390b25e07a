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
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa

from engine.base import clock
from engine.base.errors import PipelineHeldError, TidemarkError, is_disk_full
from engine.destination.capabilities import STEPS, TableMaintenance
from engine.destination.capabilities import MaintenanceStep as Step
from engine.destination.table_progress import Target
from engine.journal import Journal
from engine.journal.destination_events import TableMaintained
from engine.journal.events import ErrorReported
from engine.spec.merge_numbers import MERGES_PER_LOOK
from engine.spec.sink_settings import Sink

_COMMITS = 50
"""After so many commits, a change log is looked at; a mirror after `MERGES_PER_LOOK` merges."""
_COMMITS_PER_VACUUM = 2000
"""After so many commits to either Delta table, the folders are looked at before the hour is over."""
_HOUR_S, _DAY_S = 3600.0, 86_400.0
_QUIET_S = 2 * _HOUR_S
"""After so long without a commit, the hourly looks have done what there was to do: the hour of the last changes is
closed."""
_FIRST_S = 600.0
"""After the start of a run, the first look is due earlier: a run may be short."""
_FILE_NAMES_S = 60.0
"""How long the names of needed files are used. Newer ones are protected by their age
(`destination.delta.maintenance.vacuum`)."""


@dataclass(frozen=True)
class MaintenanceRequest:
    """An operator's request to maintain some tables now."""

    identity: str
    tables: tuple[str, ...]
    """Empty: all tables."""


@dataclass
class MaintenanceTotals:
    """What was done for a request."""

    steps: int = 0
    removed_files: int = 0
    removed_bytes: int = 0
    added_bytes: int = 0
    failed_tables: list[str] = field(default_factory=list)
    """Tables whose maintenance failed; the journal has the errors."""

    def to_json(self) -> dict[str, Any]:
        """The result of the command, in the journal."""
        fields = asdict(self)
        return {**fields, "failed": fields.pop("failed_tables")}

    def add(self, step: TableMaintained) -> None:
        """Count a step."""
        self.steps += 1
        self.removed_files += step.removed_files
        self.removed_bytes += step.removed_bytes
        self.added_bytes += step.added_bytes


@dataclass
class _Schedule:
    """What has happened to one table since it was last looked at."""

    changed_s: float
    merges: int = 0
    commits: int = 0
    since_vacuum: int = 0
    """Commits of both kinds since the last look at the folders."""
    last_s: dict[Step, float] = field(default_factory=dict)
    next_s: float = -math.inf
    """When the first step is due, if nothing is committed before."""
    pending_steps: list[Step] = field(default_factory=list)
    """Steps to run now, each until it has nothing to do."""


class Maintenance:
    """Decides what to do next, and does it. All but `request` and `take_totals` belongs to the publisher's thread.

    file_names: the names of files that the ledger still needs, by table.
    """

    def __init__(self, sink: Sink, journal: Journal, file_names: Callable[[], Mapping[str, set[str]]]) -> None:
        self._sink = sink
        self._journal = journal
        self._file_names = file_names
        self._needed_files: tuple[float, Mapping[str, set[str]]] = (-_FILE_NAMES_S, {})
        self._schedules: dict[str, _Schedule] = {}
        self._last_table = ""
        self._requests: deque[MaintenanceRequest] = deque()
        self._totals: dict[str, MaintenanceTotals] = {}
        self._current: tuple[MaintenanceRequest, MaintenanceTotals, deque[tuple[str, Step]]] | None = None
        self._lock = threading.Lock()

    def request(self, request: MaintenanceRequest) -> None:
        """Queue a request; called by the coordinator's thread."""
        with self._lock:
            self._requests.append(request)

    def take_totals(self) -> dict[str, MaintenanceTotals]:
        """The requests completed since the last call; called by the coordinator's thread."""
        with self._lock:
            totals, self._totals = self._totals, {}
            return totals

    def count_commit(self, table: str, *, is_merge: bool) -> None:
        """Count a commit to a table."""
        schedule = self._schedule(table)
        now_s = clock.monotonic_s()
        if now_s - schedule.changed_s >= _QUIET_S:
            schedule.next_s = -math.inf  # the intervals are shorter again
        schedule.changed_s = now_s
        schedule.since_vacuum += 1
        if is_merge:
            schedule.merges += 1
        else:
            schedule.commits += 1

    def run_one(self, targets: Mapping[str, Target]) -> bool:
        """Run one step if any is due. Returns whether one ran, so that more may be due."""
        if self._current is None and self._requests:
            with self._lock:
                request = self._requests.popleft()
            names = [name for name in request.tables or targets if name in targets]
            self._current = request, MaintenanceTotals(), deque((name, step) for name in names for step in STEPS)
        if self._current is not None:
            return self._run_requested(targets)
        return self._sink.maintenance and self._run_scheduled(targets)

    def _run_requested(self, targets: Mapping[str, Target]) -> bool:
        assert self._current is not None
        request, totals, steps = self._current
        if not steps:
            with self._lock:
                self._totals[request.identity] = totals
            self._current = None
            return True
        name, step = steps[0]
        target = targets.get(name)
        if target is None or target.error is not None or target.maintenance is None:
            step_result = None
        else:
            step_result = self._run(name, step, target, totals.failed_tables)
        if step_result is None:
            steps.popleft()
        else:
            totals.add(step_result)
            if step == "vacuum":
                steps.popleft()
        return True

    def _run_scheduled(self, targets: Mapping[str, Target]) -> bool:
        now_s = clock.monotonic_s()
        names = list(targets)
        first = names.index(self._last_table) + 1 if self._last_table in targets else 0
        for name in (*names[first:], *names[:first]):
            target = targets[name]
            if target.error is not None or target.resnapshot is not None or target.maintenance is None:
                continue
            schedule = self._schedule(name)
            schedule.pending_steps = schedule.pending_steps or self._due_steps(schedule, now_s)
            if schedule.pending_steps:
                step = schedule.pending_steps[0]
                failed_tables = list[str]()
                self._last_table = name
                step_result = self._run(name, step, target, failed_tables)
                if failed_tables:
                    schedule.pending_steps = []
                    schedule.last_s = dict.fromkeys(STEPS, now_s)
                    schedule.next_s = -math.inf
                elif step_result is None or step == "vacuum":
                    schedule.pending_steps.pop(0)
                return True
        return False

    def _schedule(self, table: str) -> _Schedule:
        if table not in self._schedules:
            self._schedules[table] = _Schedule(changed_s=clock.monotonic_s())
        return self._schedules[table]

    def _due_steps(self, schedule: _Schedule, now_s: float) -> list[Step]:
        """The steps to look at; each is then not due for some time."""
        has_commits = {
            "optimize": schedule.merges >= MERGES_PER_LOOK,
            "compact": schedule.commits >= _COMMITS,
            "vacuum": schedule.since_vacuum >= _COMMITS_PER_VACUUM,
        }
        if now_s < schedule.next_s and not any(has_commits.values()):
            return []
        steps: list[Step] = []
        quiet, waits_s = now_s - schedule.changed_s >= _QUIET_S, dict[Step, float]()
        for step in STEPS:
            hourly_s = self._vacuum_s(_HOUR_S) if step == "vacuum" else _HOUR_S
            daily_s = self._vacuum_s(_DAY_S) if step == "vacuum" else _DAY_S
            waits_s[step] = daily_s if quiet else hourly_s
            first_s = now_s - max(hourly_s - _FIRST_S, 0.0)
            if has_commits.get(step) or now_s - schedule.last_s.setdefault(step, first_s) >= waits_s[step]:
                steps.append(step)
                schedule.last_s[step] = now_s
        if "optimize" in steps:
            schedule.merges = 0
        if "compact" in steps:
            schedule.commits = 0
        if "vacuum" in steps:
            schedule.since_vacuum = 0
        schedule.next_s = min(schedule.last_s[step] + waits_s[step] for step in STEPS)
        return steps

    def _vacuum_s(self, most_s: float) -> float:
        return max(min(most_s, self._sink.files_retention_s / 4), 1.0)

    def _run(self, name: str, step: Step, target: Target, failed_tables: list[str]) -> TableMaintained | None:
        """Run one step. An error is journaled; it is not the table's."""
        try:
            assert target.maintenance is not None
            step_result = self._step(name, step, target.maintenance)
        except PipelineHeldError:
            raise
        except Exception as error:  # noqa: BLE001 - maintenance changes no row, so the table continues
            failed_tables.append(name)
            self._journal.write(_failure(name, step, error))
            return None
        if step_result is not None:
            self._journal.write(step_result)
            pa.default_memory_pool().release_unused()  # Arrow would keep what a rewrite needed
        return step_result

    def _step(self, name: str, step: Step, maintenance: TableMaintenance) -> TableMaintained | None:
        if step == "optimize":
            return maintenance.optimize()
        if step == "compact":
            return maintenance.compact()
        if step == "expire":
            retention_s = self._sink.changes_retention_s
            return None if retention_s is None else maintenance.expire(clock.utc_now() - timedelta(seconds=retention_s))
        retention = timedelta(seconds=self._sink.files_retention_s)
        if clock.monotonic_s() - self._needed_files[0] >= _FILE_NAMES_S:
            self._needed_files = clock.monotonic_s(), self._file_names()
        return maintenance.vacuum(self._needed_files[1].get(name, set()), retention)


def _failure(name: str, step: Step, error: Exception) -> ErrorReported:
    reason = error.message if isinstance(error, TidemarkError) else f"{type(error).__name__}: {error}"
    return ErrorReported(
        error="MaintenanceError",
        message=f"{name}: maintenance ({step}) failed: {reason}",
        detail="No row is affected; the table continues. Its maintenance is tried again in an hour.",
        hint="Make room on the disk." if is_disk_full(error) else "Check the table's folder in the destination.",
        table=name,
    )


def due_steps(sink: Sink, tables: Sequence[TableMaintenance]) -> dict[str, list[Step]]:
    """The steps that have something to do, by table, apart from the vacuum. Writes nothing."""
    retention_s = sink.changes_retention_s
    before = None if retention_s is None else clock.utc_now() - timedelta(seconds=retention_s)
    return {one.table.full_name: one.due_steps(before) for one in tables}

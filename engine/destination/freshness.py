"""How old a change is when it can first be read, in change log, mirror and further sinks: of the last ten minutes.

That is the time from its commit on the source until the destination has committed it. The runner's own clock alone
measures it: the coordinator knows between which two of its questions for the binlog's end an epoch's changes were
committed (`CommitTimes`), and the publisher when they could be read. The ages of one epoch's changes lie evenly between
those of its first and its last one.

Rows of copies are no changes. A mirror counts while its table's copy is complete: before, it shows no moment of the
source.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from threading import Lock
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from engine.base import clock

_SLOT_S, _SLOTS = 10.0, 60
"""Ages are forgotten by slots of time: after ten minutes."""
_LEAST_S, _GROWTH, _BINS = 0.001, 1.05, 480
"""Ages up to five months are known within 5 %."""
_MOST_WAITING = 64
"""Epochs that wait; of more, the oldest two count as one."""
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


@dataclass(frozen=True)
class CommitTimes:
    """Between which times an epoch's changes were committed on the source (`clock.monotonic_s`)."""

    first_s: float
    last_s: float


@dataclass(frozen=True)
class Freshness:
    """Percentiles (p50, p95, p99, max) of the ages of changes when they could be read, in seconds; None without any."""

    log: Mapping[str, float] | None = None
    mirror: Mapping[str, float] | None = None
    sinks: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """In each further sink that got changes, by its name."""


class AgeHistogram:
    """The ages of the last ten minutes, of any number of changes."""

    def __init__(self) -> None:
        self._edges = np.concatenate([[0.0], _LEAST_S * _GROWTH ** np.arange(_BINS - 1), [np.inf]])
        self._slots: deque[tuple[int, npt.NDArray[np.float64]]] = deque(maxlen=_SLOTS)

    def add(self, least_s: float, most_s: float, count: int, now_s: float) -> None:
        """Add changes whose ages lie evenly between two."""
        slot = int(now_s // _SLOT_S)
        if not self._slots or self._slots[-1][0] != slot:
            self._slots.append((slot, np.zeros(_BINS)))
        least_s, most_s = max(least_s, 0.0), max(most_s, least_s, 0.0)
        span_s = max(most_s - least_s, 1e-6)
        self._slots[-1][1][:] += count * np.diff(np.clip((self._edges - least_s) / span_s, 0.0, 1.0))

    def percentiles(self, now_s: float) -> dict[str, float] | None:
        """Of the ages; None without any."""
        since = int(now_s // _SLOT_S) - _SLOTS
        counts = sum((ages for slot, ages in self._slots if slot > since), np.zeros(_BINS))
        total = np.cumsum(counts)
        if not total[-1]:
            return None
        at = np.searchsorted(total, np.array(list(_PERCENTILES.values())) * total[-1] * (1 - 1e-9))
        ages = self._edges[np.minimum(at + 1, _BINS - 1)]
        return {name: round(float(age_s), 3) for name, age_s in zip(_PERCENTILES, ages, strict=True)}


@dataclass(frozen=True)
class _UnreadEpoch:
    """The changes of an epoch that cannot be read yet."""

    epoch: int
    times: CommitTimes
    changes: Mapping[str, int]
    """Their number, by table."""


class _UnreadEpochs:
    """Epochs that cannot be read yet, in order; of more than `_MOST_WAITING`, the oldest two count as one."""

    def __init__(self) -> None:
        self._epochs: deque[_UnreadEpoch] = deque()

    def __len__(self) -> int:
        return len(self._epochs)

    def add(self, epoch: _UnreadEpoch) -> None:
        """Add the newest one."""
        self._epochs.append(epoch)
        if len(self._epochs) > _MOST_WAITING:
            first, second = self._epochs.popleft(), self._epochs.popleft()
            times = CommitTimes(first.times.first_s, second.times.last_s)
            self._epochs.appendleft(_UnreadEpoch(second.epoch, times, Counter(first.changes) + Counter(second.changes)))

    def count(self, ages: AgeHistogram, through_epoch: int, failed_tables: Collection[str] = ()) -> None:
        """Count the changes that can be read from now on, up to an epoch, except those of failed tables."""
        now_s = clock.monotonic_s()
        while self._epochs and self._epochs[0].epoch <= through_epoch:
            epoch = self._epochs.popleft()
            if number := sum(changes for table, changes in epoch.changes.items() if table not in failed_tables):
                ages.add(now_s - epoch.times.last_s, now_s - epoch.times.first_s, number, now_s)


class FreshnessMeter:
    """Measures it. Any thread may call it."""

    def __init__(self) -> None:
        self._log = AgeHistogram()
        self._mirror = AgeHistogram()
        self._waiting = _UnreadEpochs()
        """For the change logs."""
        self._appended: tuple[int, Collection[str]] = (-1, ())
        """The last epoch that can be read in the logs, and the tables whose can not."""
        self._unmerged = defaultdict[str, _UnreadEpochs](_UnreadEpochs)
        """For the mirrors, by table."""
        self._lock = Lock()

    def committed(
        self, epoch: int, times: CommitTimes, changes: Mapping[str, int], mirrored_tables: Collection[str]
    ) -> None:
        """Note an epoch that the ledger has. changes: their number, by table."""
        with self._lock:
            self._waiting.add(_UnreadEpoch(epoch, times, changes))
            self._waiting.count(self._log, *self._appended)  # a further sink reads the ledger, and may be faster
            for table in changes.keys() & set(mirrored_tables):
                self._unmerged[table].add(_UnreadEpoch(epoch, times, {table: changes[table]}))

    def appended(self, through_epoch: int, failed_tables: Collection[str]) -> None:
        """Note that the change logs can be read up to an epoch. failed_tables: whose can not."""
        with self._lock:
            self._appended = through_epoch, failed_tables
            self._waiting.count(self._log, *self._appended)

    def merged(self, table: str, through_epoch: int) -> None:
        """Note that a mirror can be read up to an epoch."""
        self.merged_through({table: through_epoch})

    def merged_through(self, epochs: Mapping[str, int]) -> None:
        """Note through which epochs mirrors can be read, by table: copies and resnapshots bring changes too."""
        with self._lock:
            for table in self._unmerged.keys() & epochs.keys():
                self._unmerged[table].count(self._mirror, epochs[table])

    def forget(self, table: str) -> None:
        """A copy replaces the mirror, or the table leaves."""
        with self._lock:
            self._unmerged.pop(table, None)

    def measured(self, sinks: Mapping[str, "FreshnessMeter"] = MappingProxyType({})) -> Freshness:
        """The ages of the last ten minutes. sinks: the meters of further sinks, by name."""
        ages = {name: log for name, meter in sinks.items() if (log := meter.measured().log) is not None}
        with self._lock:
            now_s = clock.monotonic_s()
            return Freshness(self._log.percentiles(now_s), self._mirror.percentiles(now_s), ages)

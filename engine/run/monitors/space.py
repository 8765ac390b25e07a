"""Measures the free space of the destination's disk, and forecasts when it is full.

It measures once a minute, and at once when a disk is full or has room again: `status` and pages show both.

The growth is the slope of a line through the used bytes of the last day, one sample an hour and the newest measurement:
all that is on the disk counts, whoever wrote it. There is no forecast before an hour has been measured, and none while
the disk does not grow. The samples outlive a run (`space.json`, which you can delete).
"""

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from engine.base import clock
from engine.base.durable import write_atomically
from engine.base.errors import DiskFullError
from engine.journal import Entry
from engine.journal.destination_events import SpaceMeasured
from engine.journal.events import DiskFreed, ErrorReported

INTERVAL_S = 60.0
_SAMPLE_S, _KEPT_S = 3600.0, 86_400.0
_LEAST_S = 3600.0
"""The shortest time from which a forecast is made."""
_DAY_S = 86_400.0
Sample = tuple[float, int]
"""The time (seconds since 1970), and the used bytes."""


def growth_per_day(samples: Sequence[Sample]) -> float | None:
    """Bytes a day, from samples in order; None before there is enough to tell."""
    if len(samples) < 2 or samples[-1][0] - samples[0][0] < _LEAST_S:
        return None
    times = np.array([at for at, _ in samples]) - samples[0][0]
    used = np.array([size for _, size in samples], float)
    times -= times.mean()
    return float((times * (used - used.mean())).sum() / (times * times).sum() * _DAY_S)


class SpaceMonitor:
    """The space of one folder's disk, measured by one thread.

    folder: of the destination; it need not exist yet. samples: the file that keeps the samples. write: journals an
    event.
    """

    def __init__(self, folder: Path, samples: Path, write: Callable[[SpaceMeasured], object]) -> None:
        self._folder = folder
        self._file = samples
        self._write = write
        self._next_s = 0.0
        self._samples: list[Sample] = []
        with suppress(OSError, ValueError, TypeError):
            self._samples = sorted((float(at), int(size)) for at, size in json.loads(samples.read_bytes()))

    def hear(self, entry: Entry) -> None:
        """Measure next time if the event is about a disk that is full, or has room again."""
        event = entry.event
        if isinstance(event, DiskFreed) or (isinstance(event, ErrorReported) and event.error == DiskFullError.__name__):
            self._next_s = 0.0

    def measure(self) -> None:
        """Measure if it is time. Raises OSError."""
        if clock.monotonic_s() < self._next_s:
            return
        self._next_s = clock.monotonic_s() + INTERVAL_S
        usage = shutil.disk_usage(next(path for path in (self._folder, *self._folder.parents) if path.exists()))
        now_s = clock.unix_s()
        newest = (now_s, usage.total - usage.free)
        self._samples = [one for one in self._samples if now_s - _KEPT_S <= one[0] < now_s]
        growth = growth_per_day([*self._samples, newest])
        full_in_s = usage.free / growth * _DAY_S if growth is not None and growth > 0 else None
        self._write(
            SpaceMeasured(
                folder=str(self._folder),
                free_bytes=usage.free,
                total_bytes=usage.total,
                growth_per_day=None if growth is None else round(growth),
                full_in_s=None if full_in_s is None else round(full_in_s),
            )
        )
        if not self._samples or now_s - self._samples[-1][0] >= _SAMPLE_S:
            self._samples.append(newest)
            write_atomically(self._file, json.dumps(self._samples))

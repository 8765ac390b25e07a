"""Estimates what merging changes into a mirror costs: bytes written per day, and how old the mirror gets. Pure.

The estimate follows the schedule of merges (`destination.merge_schedule`). With a merge every `p` seconds, which takes
`t` seconds and writes `w` bytes, and with changes of `c` bytes per second:

    p ≥ sink.merge_interval_s
    p ≥ 4 t                                          merges take a quarter of the time at most
    p ≥ w / (sink.max_write_amplification × c)       unless w is less than 1 MiB

but a merge begins `sink.max_merge_delay_s` after the last one at the latest. As `w` grows more slowly than `p`, the
period settles. The mirror is oldest at the end of a merge: `p + t` seconds.

Changed keys are assumed to be random, the worst case: of `f` files, `k` changed rows are in `f (1 - exp(-k / f))`.
Inserts touch no existing file. Files are assumed to be as large as the source's statistics say. Parquet is usually
smaller, so real costs are lower.

* Copy on write has files of 16 MiB, and writes each touched file again.
* Merge on read has files of 64 MiB, and writes the changed rows and, for each touched file, a deletion vector: a bit
  per row, as on average a tenth of the rows is deleted. Maintenance rewrites a file when a fifth is deleted, so each
  deleted row costs five rows.
* Maintenance merges eight small files of new rows of about the same size, until they have the size of a good file.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.source.change_rates import ChangeRate
from engine.spec.merge_numbers import (
    CHEAP_BYTES,
    COPIED,
    FEWEST_FILES,
    GARBAGE,
    LEAST_BYTES,
    MERGE_SHARE,
    MERGES_PER_LOOK,
    MOST_BYTES,
    MOST_ROWS,
    SMALL_BYTES,
)
from engine.spec.sink_settings import Merging, Sink

DAY_S = 86_400.0
FILE_BYTES: Mapping[Merging, int] = {"copy_on_write": MOST_BYTES // COPIED, "merge_on_read": MOST_BYTES}
SMALL_FILE_BYTES: Mapping[Merging, int] = {"copy_on_write": SMALL_BYTES // COPIED, "merge_on_read": SMALL_BYTES}
"""Maintenance merges smaller files."""
_MERGE_S, _BYTES_PER_S = 0.1, 100e6
"""Measured (docs/benchmarks.md): the seconds of a merge that writes little, and the bytes per second of one that writes
much."""
_ROUNDS = 60


@dataclass(frozen=True)
class MergeCost:
    """The estimated cost of one way of merging."""

    bytes_per_day: float
    """Bytes written to the mirror, maintenance included."""
    mirror_age_s: float
    """How old the mirror gets: seconds from a change to the end of its merge, at most. 0 if nothing changes."""
    period_s: float
    """Seconds from the start of a merge to that of the next one."""

    def as_dict(self) -> dict[str, Any]:
        """For `plan --json`."""
        return {"bytes_per_day": round(self.bytes_per_day), "mirror_age_s": round(self.mirror_age_s, 1)}


def merge_cost(merging: Merging, rows: int, table_bytes: int, rate: ChangeRate, sink: Sink) -> MergeCost:
    """The cost for a table of this size with these changes. table_bytes: by the source's statistics."""
    if not rate.changes_per_s:
        return MergeCost(0.0, 0.0, sink.merge_interval_s)
    table = _Changing(merging, max(rows, 1), max(table_bytes, 1), rate)
    period_s = _balanced_period_s(table.merge_bytes, rate.bytes_per_s, sink)
    took_s = seconds(table.merge_bytes(period_s))
    per_s = table.merge_bytes(period_s) / period_s + table.maintenance_bytes_per_s(period_s)
    return MergeCost(per_s * DAY_S, period_s + took_s, period_s)


def seconds(merge_bytes: float) -> float:
    """How long a merge takes."""
    return _MERGE_S + merge_bytes / _BYTES_PER_S


def _balanced_period_s(merge_bytes: Callable[[float], float], changed_per_s: float, sink: Sink) -> float:
    """The period of merges at which their costs and their schedule agree. merge_bytes: by period."""
    period_s = sink.merge_interval_s
    for _ in range(_ROUNDS):
        written = merge_bytes(period_s)
        wanted_s, limit = seconds(written) / MERGE_SHARE, sink.max_write_amplification * changed_per_s
        if limit and written > CHEAP_BYTES:
            wanted_s = max(wanted_s, written / limit)
        wanted_s = min(wanted_s, sink.max_merge_delay_s + seconds(written))
        period_s = max(wanted_s, sink.merge_interval_s)
    return period_s


@dataclass(frozen=True)
class _Changing:
    """A table, and how it changes."""

    merging: Merging
    rows: int
    table_bytes: int
    rate: ChangeRate

    @property
    def _image_bytes(self) -> float:
        images = self.rate.changes_per_s + self.rate.updates_per_s
        return self.rate.bytes_per_s / images

    @property
    def _new_bytes_per_s(self) -> float:
        return (self.rate.inserts_per_s + self.rate.updates_per_s) * self._image_bytes

    @property
    def _replaced_per_s(self) -> float:
        """Rows per second that exist and are changed or deleted."""
        return self.rate.updates_per_s + self.rate.deletes_per_s

    def merge_bytes(self, period_s: float) -> float:
        """The bytes that a merge of the changes of a period writes."""
        files = max(self.table_bytes / FILE_BYTES[self.merging], self.rows / MOST_ROWS, 1.0)
        touched = files * -math.expm1(-self._replaced_per_s * period_s / files)
        each = self.table_bytes / files if self.merging == "copy_on_write" else self.rows / files / 8
        return touched * each + self._new_bytes_per_s * period_s

    def maintenance_bytes_per_s(self, period_s: float) -> float:
        """The bytes per second that maintenance writes."""
        on_read, added = self.merging == "merge_on_read", self._new_bytes_per_s
        if not on_read and self._replaced_per_s:
            added = 0.0  # merges rewrite the small files, too
        steps_per_s = min(1 / period_s, self.rate.changes_per_s) / MERGES_PER_LOOK
        # A step writes each row once at most.
        most = self.table_bytes * steps_per_s + self.rate.inserts_per_s * self._image_bytes
        # A row moves through the size classes of small files, once each.
        first = max(added * period_s, LEAST_BYTES)
        classes = max(math.ceil(math.log(SMALL_FILE_BYTES[self.merging] / first, FEWEST_FILES)), 1)
        rewritten = min(added * classes, most)
        return rewritten + min(self._replaced_per_s * self._image_bytes / GARBAGE, most) if on_read else rewritten

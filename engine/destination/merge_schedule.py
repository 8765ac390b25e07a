"""When a table's waiting changes are merged into its mirror, by what merges cost.

Copy on write rewrites each file that a changed row is in: with changes all over a large table, most of the table. So
the next merge waits until it is worth its cost. The age of the mirror that follows is in `status` and the console.

A merge that a table's copy, a schema change, a command or the end of a run needs does not ask here.
"""

from dataclasses import dataclass

from engine.spec.merge_numbers import CHEAP_BYTES, MERGE_SHARE
from engine.spec.sink_settings import Sink

_CHEAP_S = 0.05
"""Merges that take less time, or write less than `CHEAP_BYTES`, are not deferred for what they write: they are cheap,
however little has changed."""


@dataclass
class MergeSchedule:
    """What a table's last two merges cost. Until there was one, merges are due."""

    ended_s: float = 0.0
    took_s: float = 0.0
    before_took_s: float = 0.0
    """Of the merge before the last one."""
    written_bytes: int = 0
    changed_bytes: int = 0
    """The size of the changes that the last merge had; 0 if unknown."""

    def count_merge(self, now_s: float, took_s: float, written_bytes: int, changed_bytes: int = 0) -> None:
        """Record a merge."""
        self.before_took_s = self.took_s
        self.ended_s = now_s
        self.took_s = took_s
        self.written_bytes = written_bytes
        self.changed_bytes = changed_bytes

    def is_due(self, sink: Sink, waiting_bytes: int, now_s: float) -> bool:
        """Whether to merge changes of this size now.

        Expects the merge to take as long as the quicker one of the last two, because what makes a single merge slow,
        such as indexing new files, does not happen again; and to write as much as the last one. With fewer changes than
        that one had, it expects less in proportion: one row after a million would wait minutes otherwise. If that is
        too little, because the changes are all over the table, the next merge knows it.
        """
        since_s = now_s - self.ended_s
        if not self.took_s or since_s >= sink.max_merge_delay_s:
            return True
        part = min(waiting_bytes / self.changed_bytes, 1.0) if self.changed_bytes else 1.0
        took_s = min(self.took_s, self.before_took_s) * part
        if since_s < took_s / MERGE_SHARE - took_s:
            return False
        limit, written = sink.max_write_amplification, self.written_bytes * part
        cheap = written <= CHEAP_BYTES or self.took_s * part <= _CHEAP_S
        return not limit or cheap or written <= limit * waiting_bytes

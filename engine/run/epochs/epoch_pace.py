"""How long the coordinator waits between epochs.

An epoch costs a Spark job, a file for each changed table, and a commit to each change log, whatever it holds. Under
steady load, fewer and larger epochs do the same with less: then an epoch may take a tenth of the time at most. The
interval grows slowly, so a burst does not change it, and the first epoch without changes makes it short again.
"""

import math

from engine.spec.settings import Spec

_SHARE = 0.1
_GROWTH = 1.1


class EpochPace:
    """The interval between epochs, in seconds.

    shortest_s: while little happens. longest_s: a limit to the growth; at least shortest_s. began_s: when the last
    epoch began (`clock.monotonic_s`).
    """

    def __init__(self, shortest_s: float, longest_s: float) -> None:
        self._shortest_s = shortest_s
        self._longest_s = max(shortest_s, longest_s)
        self.interval_s = shortest_s
        self.began_s = -math.inf

    @classmethod
    def of(cls, spec: Spec) -> "EpochPace":
        """By default, the change log is committed as often as the mirror is merged."""
        return cls(spec.poll_interval_s, spec.max_epoch_interval_s or spec.sink.merge_interval_s)

    def is_due(self, now_s: float, *, waited_for: bool) -> bool:
        """Whether the next epoch is due. waited_for: a copy, a command or the end of the run waits for it."""
        since_s = now_s - self.began_s
        return since_s >= self._shortest_s and (since_s >= self.interval_s or waited_for)

    def begin(self, now_s: float) -> None:
        """Record that an epoch begins."""
        self.began_s = now_s

    def hurry(self) -> None:
        """Let the next epoch begin at once."""
        self.began_s = -math.inf

    def done(self, work_s: float, changes: int) -> None:
        """Record an epoch: what it cost, and how many changes it had."""
        wanted_s = min(work_s / _SHARE, self.interval_s * _GROWTH, self._longest_s) if changes else 0.0
        self.interval_s = max(wanted_s, self._shortest_s)

"""Whether MariaDB commits transactions of InnoDB outside its order of commits (`source.watermarks`, class snapshot).

A transaction in which an engine takes part that cannot prepare (Aria, even for a SELECT or by a trigger) is committed
in one phase. It is logged with the statement COMMIT instead of an XID event, and the position of the last commit moves
past it. Only then each engine commits, without the lock under which snapshots are opened, and no checkpoint waits for
it. Transactions of tables without transactions alone are logged like that too, but are not marked as transactional.
"""

from collections.abc import Iterable

import numpy as np

from engine.base.errors import OnePhaseCommitError
from engine.capture.reports import RangeReport
from engine.decode.binlog_events import Kind
from engine.decode.framing import words
from engine.decode.query_event import COMMIT_TAIL
from engine.decode.stream import EventBatch
from engine.source.watermarks import WatermarkClass

_FLAGS, _TRANSACTIONAL = 12, np.uint64(4)
"""Of a GTID event: where the flags are in its body, after number (8) and domain (4), and which one is meant."""


def require_two_phases(kind: WatermarkClass, reports: Iterable[RangeReport]) -> None:
    """Raises OnePhaseCommitError if the binlog has one-phase commits, which watermarks of class snapshot may miss.

    It is called before an epoch commits chunks: those that lack such a commit are read again.
    """
    if kind == "snapshot" and any(report.one_phase for report in reports):
        raise OnePhaseCommitError(
            "The source commits transactions of InnoDB in one phase, because an engine takes part in them that cannot "
            "prepare, such as Aria.",
            detail="Its snapshots may lack such a commit, so chunks that were read and not committed are read again, "
            "with watermarks of class aged. Nothing that is published is affected.",
            hint="Keep tables of Aria out of transactions, such as audit tables of triggers: ALTER TABLE … ENGINE = "
            "InnoDB. Then the next run uses exact watermarks again.",
        )


class OnePhaseCommits:
    """Looks for them in the runs of one range."""

    def __init__(self) -> None:
        self.found = False
        self._is_transactional = False  # the transaction that is open

    def note(self, run: EventBatch) -> None:
        """Look at the next run."""
        headers, loads = run.headers, words(run.buffer)
        begins = np.flatnonzero(headers.kind == Kind.MARIA_GTID)
        marked = (loads[headers.body[begins] + _FLAGS] & _TRANSACTIONAL) > 0
        queries = np.flatnonzero(headers.kind == Kind.QUERY)
        commits = queries[loads[headers.end[queries] - 8] >> np.uint64(8) == COMMIT_TAIL]
        owners = np.searchsorted(begins, commits) - 1
        self.found |= bool(np.append(marked, self._is_transactional)[owners].any())
        if len(marked):
            self._is_transactional = bool(marked[-1])

"""Whether MariaDB commits transactions of InnoDB outside its order of commits (`source.watermarks`, class snapshot).

A transaction in which an engine takes part that cannot prepare (Aria, even for a SELECT or by a trigger) is committed
in one phase. It is logged with the statement COMMIT instead of an XID event, and the position of the last commit moves
past it. Only then each engine commits, without the lock under which snapshots are opened, and no checkpoint waits for
it. Transactions of tables without transactions alone are logged like that too, but are not marked as transactional.
"""

from collections.abc import Iterable
from contextlib import closing
from typing import Protocol

import numpy as np

from engine.base.errors import OnePhaseCommitError, TidemarkError
from engine.capture.binlog.binlog_access import runs_from
from engine.decode.binlog_events import Kind
from engine.decode.framing import words
from engine.decode.query_event import COMMIT_TAIL
from engine.decode.stream import EventBatch
from engine.source.connect import Connection, Endpoint, Server
from engine.source.positions import FIRST_OFFSET, Position, current
from engine.source.watermarks import WatermarkClass, least_age_s, server_time_s

_MOST_BYTES = 4 << 20
_FLAGS, _TRANSACTIONAL = 12, np.uint64(4)
"""Of a GTID event: where the flags are in its body, after number (8) and domain (4), and which one is meant."""


class InOnePhase(Protocol):
    """What was read of a range of the binlog: a `RangeReport` or `NetChanges`."""

    @property
    def one_phase(self) -> bool:
        """Whether it has commits in one phase."""


def require_two_phases(kind: WatermarkClass, ranges: Iterable[InOnePhase]) -> None:
    """Raises OnePhaseCommitError if the binlog has one-phase commits, which watermarks of class snapshot may miss.

    It is called before an epoch commits chunks, and before rows are compared: those that lack such a commit are read
    again.
    """
    if kind == "snapshot" and any(one.one_phase for one in ranges):
        raise OnePhaseCommitError(
            "The source commits transactions of InnoDB in one phase, because an engine takes part in them that cannot "
            "prepare, such as Aria.",
            detail="Its snapshots may lack such a commit, so chunks that were read and not committed are read again, "
            "with watermarks of class aged. Nothing that is published is affected.",
            hint="Keep tables of Aria out of transactions, such as audit tables of triggers: ALTER TABLE … ENGINE = "
            "InnoDB. Then the next run uses exact watermarks again.",
        )


def settled_in_s(
    connection: Connection, endpoint: Endpoint, server: Server, settle_s: float, first_server_id: int
) -> float:
    """In how many seconds a snapshot shows all that the binlog has now; 0 if the binlog shows that it does already."""
    least_s, now_s = least_age_s(connection, settle_s), server_time_s(connection)
    end = current(connection, server)
    return 0.0 if _are_settled(endpoint, end, now_s, least_s, first_server_id) else least_s


def _are_settled(endpoint: Endpoint, end: Position, now_s: float, least_age_s: float, first_server_id: int) -> bool:
    """Whether the binlog up to `end`, its end a moment ago, shows that snapshots lack none of its transactions.

    If its file is short, has no such transaction, and began long enough ago. now_s: the server's clock. least_age_s:
    from which age on a commit counts as visible.
    """
    if end.offset > _MOST_BYTES:
        return False
    commits, born = OnePhaseCommits(), now_s
    try:
        with closing(runs_from(endpoint, Position(end.file, FIRST_OFFSET), first_server_id)) as runs:
            for run in runs:
                heads = run.headers.timestamp[run.headers.kind == Kind.FORMAT_DESCRIPTION]
                born = min([born, *heads.tolist()])
                commits.note(run)
                if Position(run.file, int(run.offset[-1])).order >= end.order:
                    return not commits.found and now_s - born > least_age_s + 1  # times have whole seconds
    except TidemarkError:
        pass  # who reads from here on has the same error, if it stays
    return False


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

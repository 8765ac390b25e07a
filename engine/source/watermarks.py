"""Watermarks: the positions that bracket the read of a chunk, and why they can be trusted.

    low watermark    everything at or before it is visible to a read that starts afterwards
    high watermark   everything visible to the read is at or before it

The published algorithm takes both from `SHOW MASTER STATUS`. On a busy server that is wrong for the low watermark: the
binlog's end moves when a group of transactions is flushed to it, *before* the engine commits them and makes them
visible. A transaction in that gap is at or before the low watermark, so the backfill omits it; and it is not visible to
the SELECT either. Its row is lost permanently (in most checks on MySQL with sync_binlog=1). The high watermark is
right: whatever is visible was flushed before.

A low watermark may be too early without harm, because replaying full row images is idempotent. It must never be too
late. The four classes, best first:

    snapshot     MariaDB: `START TRANSACTION WITH CONSISTENT SNAPSHOT`, between two positions (below): low = high, and
                 there is no backfill, if nothing was committed in between and no XA COMMIT is near. (The snapshot does
                 not cover engines without transactions: the high watermark of their tables is taken after the read.)
                 Not with `binlog_optimize_thread_scheduling=OFF`: each session of a group then commits for itself,
                 after the position has moved. (12 sessions: 259 of 500 checks lacked a commit.) Not on Percona, whose
                 position moves when a group is flushed, before it is synced and committed.
    gtid         MySQL with GTIDs: a *settled* position, whose GTID set is contained in `@@gtid_executed`, which MySQL
                 updates after the engine commit. Candidates are positions whose set is known because the binlog was
                 decoded up to them: the end of the last epoch, and this reader's last high watermark after its
                 backfill. `gtid_mode` is read with each check. While it is not ON, transactions without a GTID are in
                 no set, so a contained set says nothing about them. While it is ON, no such transaction is being
                 committed: the server refuses to set it ON before the last one is visible (ER_CANT_SET_GTID_MODE, MySQL
                 manual, "Changing the GTID mode online"). So if the set is contained, and the mode is ON afterwards,
                 all of it is visible.
    log_status   MySQL without GTIDs, with BACKUP_ADMIN: `performance_schema.log_status`. The server takes it under the
                 lock under which it commits groups of transactions, in the order of the log. With
                 `binlog_order_commits=OFF`, each session commits for itself after the lock: in 7 of 1 200 checks with
                 12 XA sessions, it covered a commit that the read did not show. So each low watermark asks for the
                 variable, and from the first OFF on they are `aged`.
    aged         otherwise: a position that was current at least `settle_s` ago. Not proved; preflight says so. With
                 semi-synchronous replication (AFTER_SYNC), a commit is in the log and waits for a replica, up to a time
                 limit, before it is visible. Commits that are logged meanwhile wait behind it and then once more,
                 together (MySQL source, `MYSQL_BIN_LOG::ordered_commit`: they queue for one stage). So twice the limit
                 is added. If that is too long, the source is refused.

**The position of a snapshot.** MariaDB moves the position C of its last commit under the lock under which it commits in
the engine and opens snapshots (MariaDB source, sql/log.cc, trx_group_commit_leader). It shows C, or in a snapshot what
C was then, as `binlog_snapshot_file/position`. But these are two variables of the whole server: each `SHOW STATUS` sets
them for its own session and prints them a moment later, so it may print what another session has set meanwhile. (Of
45 220 answers to two sessions that asked all the time, 160 were the other's. With a later one, the snapshot lacks what
its position covers.) Whatever is printed, C had that value before. So a snapshot is opened between two questions:

    L    what `binlog_snapshot_file/position` says before it is opened: C had that value
    H    the end of the binlog after it is opened: whatever the snapshot shows was logged before

Everything up to L is visible in the snapshot if a commit has moved C to L. Two others move it, while a group may wait
between the log and the engine, for its turn or for a replica (`MYSQL_BIN_LOG::open` at each rotation, and
`write_binlog_checkpoint_event_already_locked`). The group then moves only C's offset, which is that in the file before.
Both write a BINLOG_CHECKPOINT event, which names the oldest file with a transaction that the engine may still lack
(`mark_xids_active`, `mark_xid_done`). One that names its own file is the last of the file, and everything in earlier
files is committed. So once H's file has that event (`capture.binlog.commit_visibility`), L is believed if it is after
the event and not after H. (Groups commit in the order of the log.) If L is not after the event, the beginning of H's
file takes its place; an idle server may have purged L's own file. Otherwise, soon after a rotation, the event is waited
for, or a position that is old enough, as in class aged.

If L = H, the snapshot is exact there. Otherwise something was committed in between, or waits for its commit. After a
few tries, the chunk is backfilled from L to H.

**XA in class snapshot.** MariaDB commits ordinary transactions in the engine under the lock under which it moves C. It
does not do so for `XA COMMIT`: that is written to the binlog, C moves, and only then the engine commits. So L may cover
XA COMMITs that the snapshot does not show. (In checks with 12 XA sessions and sync_binlog=1, one in fifty did.) H is
right as a high watermark, because whatever is visible was logged before. For the low watermark, the server's list of
prepared transactions helps. `XA RECOVER` lists a transaction from its PREPARE until it is committed in the engine,
because the statement removes it from the list last (MariaDB source, sql/xa.cc, trans_xa_commit: xid_cache_delete
follows ha_commit_one_phase or ha_commit_or_rollback_by_xid). Let E be a position that the binlog had reached before the
list R was read, and L and H those of a snapshot opened afterwards.

    1. An XA COMMIT at or before E whose transaction is not in R is visible in the snapshot: it was logged before R was
       read, and was off the list by then, so the engine had committed it.
    2. If R is empty, and Com_xa_commit is the same before R was read and after H was, all XA COMMITs at or before H are
       visible: none began in between, and none that began before was still running when R was read. So L and H stand.
    3. Otherwise, let V be the last position at or before E such that no XA COMMIT of a transaction in R, as its last
       statement in the binlog, lies at or before V. By 1, all XA COMMITs at or before V are visible. All other commits
       at or before L are visible too. So min(V, L) is a low watermark, and the backfill from there to H makes the chunk
       exact at H.

**One-phase commits in class snapshot.** If an engine that cannot prepare takes part in a transaction, as Aria does,
InnoDB too commits it outside that lock, after C has moved, and no checkpoint waits for it. (8 sessions, with a trigger
that writes to a table of Aria: 55 of 150 snapshots lacked a commit.) The binlog shows which transactions these are
(`capture.binlog.one_phase_commits`), but not to a reader of a chunk. So the run looks for them in each epoch's range,
before it commits the chunks of that epoch; if there is one, it reads all uncommitted chunks again, in class aged. A
chunk whose snapshot covers such a transaction is in that epoch or a later one, unless the transaction came before the
run did: so no chunk is read before what the run began with is as old as in class aged (`SourceAccess.settled_s`).

What else is logged before it is visible does not matter. MySQL's group commit, `binlog_order_commits=OFF` and the wait
of semi-synchronous replication (AFTER_SYNC) lie between the log and the engine, but `gtid_executed` is updated after
all of them. `log_status` waits for the first and the last. On MariaDB, C moves under the commit lock after both.
(`aged`, above, is another matter.)
"""

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal, Protocol

from engine.base import clock
from engine.base.errors import SourceLostError, TidemarkError, TransientError
from engine.decode.schema import Table
from engine.source.connect import Connection, Server, binlog_off, query
from engine.source.positions import FIRST_OFFSET, Position, current
from engine.source.xa_places import XaPlaces, Xid

WatermarkClass = Literal["snapshot", "gtid", "log_status", "aged"]
StepHook = Callable[[str], None]
"""A hook, called with before_low, after_low, before_high and after_high. Tests write to the source in it."""

_SCHEDULING = "SHOW GLOBAL VARIABLES LIKE 'binlog_optimize_thread_scheduling'"
_SNAPSHOT_STATUS = "SHOW STATUS LIKE 'binlog_snapshot_%'"
_LOG_STATUS = "SELECT LOCAL AS log, @@global.binlog_order_commits AS ordered FROM performance_schema.log_status"
_SETTLED = "SELECT GTID_SUBSET(%s, @@global.gtid_executed) AS settled, @@global.gtid_mode AS mode"
_SEMI_SYNC = "SHOW GLOBAL VARIABLES LIKE 'rpl_semi_sync_%'"
_XA_COMMITS = "SHOW GLOBAL STATUS LIKE 'Com_xa_commit'"
_XA_PREPARED = "XA RECOVER"
_SERVER_TIME = "SELECT UNIX_TIMESTAMP(NOW(6)) AS now_s"
_PATIENCE_S = 60.0
_POLL_S = 0.002
_PAUSE_S = 0.2
"""Between two questions for a position that proves something. Each may open a dump."""
_SNAPSHOTS = 5
"""Tries for a snapshot at a moment without a commit. A try is a few short questions, a backfill opens a dump."""
_MOST_REPLICA_WAIT_S = 20.0
"""A candidate of class aged must be older than twice that, and be found within `_PATIENCE_S`."""


@dataclass(frozen=True)
class Candidate:
    """A position that may serve as a low watermark."""

    position: Position
    seen_s: float
    """When it was the end of the binlog, in Unix seconds of the server's clock."""
    places: XaPlaces = field(default_factory=XaPlaces)
    """Of the XA transactions that were prepared last before it."""


class CommitPositions(Protocol):
    """Tells what positions in a binlog file of MariaDB prove."""

    def settled_at(self, end: Position) -> Position | None:
        """The event at or before `end`, in its file, by which everything in earlier files was committed.

        Only a commit moves the position of the last commit past that event.
        """


class XaCommits(Protocol):
    """Finds which XA COMMITs are visible."""

    def visible_through(
        self, end: Position, prepared: Collection[Xid], boundary: Position | None = None
    ) -> tuple[Position, XaPlaces]:
        """The last position at or before `end` such that all XA COMMITs before it are visible.

        Also returns the places known there.

        prepared: what XA RECOVER listed after the binlog had reached `end`. boundary: a position between two
        transactions before `end`.
        """


def no_step(_: str) -> None:
    """The hook in production: does nothing."""


def watermark_class(connection: Connection, server: Server) -> WatermarkClass:
    """The best class possible with this server and this user's grants."""
    if server.flavor == "mariadb":
        ordered = all(row["Value"] == "ON" for row in query(connection, _SCHEDULING))
        return "snapshot" if ordered and query(connection, _SNAPSHOT_STATUS) else "aged"
    if query(connection, "SELECT @@gtid_mode AS mode")[0]["mode"] == "ON":
        return "gtid"
    try:
        proved = bool(query(connection, _LOG_STATUS)[0]["ordered"])
    except TidemarkError:
        proved = False
    return "log_status" if proved else "aged"


def replica_wait_s(connection: Connection) -> float:
    """How long a logged commit may wait for a replica before it is visible.

    0 without semi-synchronous replication (AFTER_SYNC).

    Raises SourceLostError if that is too long for watermarks of class aged.
    """
    variables = {row["Variable_name"].lower(): row["Value"] for row in query(connection, _SEMI_SYNC)}
    for role in ("source", "master"):  # two names of one plugin
        enabled, point, limit_ms = (
            variables.get(f"rpl_semi_sync_{role}_{name}", "") for name in ("enabled", "wait_point", "timeout")
        )
        if enabled == "ON" and point == "AFTER_SYNC":
            if int(limit_ms) > _MOST_REPLICA_WAIT_S * 1000:
                raise _waits_too_long(f"rpl_semi_sync_{role}_timeout", int(limit_ms))
            return int(limit_ms) / 1000
    return 0.0


def least_age_s(connection: Connection, settle_s: float) -> float:
    """The age at which a logged commit counts as visible, in a run whose watermarks prove all but the first ones.

    A wait for a replica that is too long for class aged counts as the longest that is not.
    """
    try:
        return settle_s + 2 * replica_wait_s(connection)
    except SourceLostError:
        return settle_s + 2 * _MOST_REPLICA_WAIT_S


def _waits_too_long(variable: str, limit_ms: int) -> SourceLostError:
    return SourceLostError(
        f"The source's commits may wait for a replica for {limit_ms / 1000:.0f} s ({variable} = {limit_ms}) after they "
        "are logged.",
        detail="Nothing shows which logged commits a read sees. A chunk could lack a row for good, so nothing more was "
        "read.",
        hint="Give the user the privilege: GRANT BACKUP_ADMIN ON *.* TO the user. (It needs binlog_order_commits = "
        f"ON.) Or set gtid_mode = ON, or SET PERSIST {variable} = {_MOST_REPLICA_WAIT_S * 1000:.0f}. On MariaDB, start "
        f"the server with binlog_optimize_thread_scheduling = ON, or SET GLOBAL {variable} = "
        f"{_MOST_REPLICA_WAIT_S * 1000:.0f}.",
    )


def server_time_s(connection: Connection) -> float:
    """The server's clock, in seconds since 1970."""
    return float(query(connection, _SERVER_TIME)[0]["now_s"])


def gtid_mode_lowered(mode: str) -> SourceLostError:
    """The error for a server used by GTID that may write transactions without one."""
    return SourceLostError(
        f"The source's gtid_mode was lowered to {mode} while the run used its GTIDs.",
        detail="It may write transactions without a GTID, which are in no GTID set. So an executed set no longer shows "
        "what a read sees, and nothing more was read or published. Published data is correct up to the committed "
        "position. The ledger keeps no GTIDs of positions after such transactions, "
        "so the run cannot move to another server from there.",
        hint="Set gtid_mode to ON_PERMISSIVE (or OFF_PERMISSIVE) and start the run again: it continues from the "
        "committed position with another class of watermarks (BACKUP_ADMIN makes that one exact). When it has caught "
        "up, set gtid_mode ON or OFF: with ON the server sends no transaction without a GTID, with OFF none with one.",
    )


class Watermarks:
    """Takes the watermarks of one reader's chunks, one after the other, on one connection.

    `offer` adds candidates (classes gtid and aged). In class snapshot, a transaction is open between `low` and
    `release`. `kind`: the class; log_status becomes aged when the server stops committing in the order of the log.
    `places`: of the XA transactions that were prepared last before the low watermark.
    """

    def __init__(
        self,
        connection: Connection,
        server: Server,
        kind: WatermarkClass,
        settle_s: float,
        xa_commits: XaCommits,
        commits: CommitPositions,
    ) -> None:
        self._connection = connection
        self._server = server
        self.kind = kind
        self._settle_s = settle_s
        self._xa_commits = xa_commits
        self._commits = commits
        self.places = XaPlaces()
        self._candidates: list[Candidate] = []
        self._released = False
        self._at: Position | None = None  # after everything that the open snapshot shows
        self._exact = False
        query(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")

    def offer(self, candidate: Candidate) -> None:
        """Add a candidate. Only the 64 latest are kept."""
        self._candidates = sorted([*self._candidates, candidate], key=lambda c: c.position.order)[-64:]

    def low(self, step: StepHook = no_step) -> Position:
        """A low watermark; a SELECT on this connection may start now.

        Raises TransientError if none settles within a minute.

        Raises SourceLostError if the class is gtid and the server may write transactions without a GTID, or if it is
        aged and commits may wait long for a replica.
        """
        step("before_low")
        self.places = XaPlaces()
        self._at = None
        take = {"snapshot": self._snapshot, "gtid": self._settled, "log_status": self._log_status, "aged": self._aged}
        position = take[self.kind]()
        step("after_low")
        return position

    def exact(self, table: Table) -> bool:
        """Whether a read of the table shows its rows exactly at the low watermark.

        It does until `release`, in class snapshot.
        """
        return self._exact and table.transactional and not self._released

    def high(self, low: Position, table: Table, step: StepHook = no_step) -> Position:
        """The high watermark of a read of `table` that has just ended."""
        step("before_high")
        of_snapshot = self._at if table.transactional and not self._released else None
        position = of_snapshot or current(self._connection, self._server)
        if self.kind == "aged":
            self.offer(Candidate(position, server_time_s(self._connection)))
        step("after_high")
        return position

    def release(self) -> None:
        """End the transaction of class snapshot. `low` remains a low watermark of reads that start afterwards."""
        if self.kind == "snapshot":
            query(self._connection, "COMMIT")
            self._released = True

    def _snapshot(self) -> Position:
        for tries_left in reversed(range(_SNAPSHOTS)):
            begun, prepared = self._begun_xa_commits(), self._prepared()
            low, high = self._opened()
            if prepared or self._begun_xa_commits() != begun:
                break
            self._exact = low.order == high.order
            if self._exact or not tries_left:
                return low
        return self._snapshot_near_xa()

    def _snapshot_near_xa(self) -> Position:
        """Open another snapshot, which lacks no XA COMMIT from before the low watermark."""
        end = current(self._connection, self._server)
        prepared = self._prepared()
        self._exact = False
        low, _ = self._opened()
        positions = [one.position for one in self._candidates if one.position.order <= end.order]
        visible, places = self._xa_commits.visible_through(end, prepared, positions[-1] if positions else None)
        self.places = places if visible.order <= low.order else XaPlaces()
        return min(visible, low, key=lambda position: position.order)

    def _opened(self) -> tuple[Position, Position]:
        """Open a consistent snapshot.

        Returns a position before which it shows everything, and one after everything that it shows.
        """
        if self._at is not None:
            query(self._connection, "COMMIT")  # in a snapshot, the server prints that one's position
        low = self._visible()
        query(self._connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        self._released = False
        self._at = current(self._connection, self._server)
        return low, self._at

    def _visible(self) -> Position:
        """A position before which everything is visible now.

        If the server's position proves nothing, it waits until it does, or until another one is old enough.
        """
        deadline = clock.monotonic_s() + _PATIENCE_S
        while True:
            low, end = self._committed(), current(self._connection, self._server)
            settled = self._commits.settled_at(end)
            if settled is not None and low.order <= end.order:
                return low if low.order > settled.order else Position(end.file, FIRST_OFFSET)
            if not self._candidates or self._candidates[-1].position.order < end.order:
                self.offer(Candidate(end, server_time_s(self._connection)))
            if (old := self._old_enough()) is not None:
                return old
            if clock.monotonic_s() > deadline:
                raise _not_settled()
            clock.sleep(_PAUSE_S)

    def _old_enough(self) -> Position | None:
        """The newest candidate that has the age of class aged."""
        try:
            least_s = self._settle_s + 2 * replica_wait_s(self._connection)
        except SourceLostError:
            return None  # a commit may wait for minutes
        now_s = server_time_s(self._connection)
        ages = [(one.position, now_s - one.seen_s) for one in self._candidates if one.seen_s]  # 0: unknown
        return max((at for at, age_s in ages if age_s >= least_s), key=lambda at: at.order, default=None)

    def _committed(self) -> Position:
        """A position of the server's last commit, of now or before.

        File and offset are printed one after the other. While the binlog continues in another file, they may be of two
        positions; the next answer then has another file, or an earlier offset.
        """
        answers = [self._printed_position(), self._printed_position()]
        while answers[-1].file != answers[-2].file:
            answers.append(self._printed_position())
        return min(answers[-2:], key=lambda position: position.order)

    def _printed_position(self) -> Position:
        status = {row["Variable_name"].lower(): row["Value"] for row in query(self._connection, _SNAPSHOT_STATUS)}
        if not status["binlog_snapshot_file"]:
            raise binlog_off()
        return Position(status["binlog_snapshot_file"], int(status["binlog_snapshot_position"]))

    def _begun_xa_commits(self) -> int:
        return sum(int(row["Value"]) for row in query(self._connection, _XA_COMMITS))

    def _prepared(self) -> set[Xid]:
        """The XA transactions that are prepared and not yet committed in the engine."""
        if self._server.flavor == "mysql":
            return set()
        xids = set[Xid]()
        for row in query(self._connection, _XA_PREPARED):
            data, length = row["data"], int(row["gtrid_length"])
            data = data.encode("latin1") if isinstance(data, str) else bytes(data)
            xids.add((data[:length], data[length:], int(row["formatID"]) & 0xFFFFFFFF))
        return xids

    def _log_status(self) -> Position:
        (row,) = query(self._connection, _LOG_STATUS)
        log = json.loads(row["log"])
        position = Position(log["binary_log_file"], int(log["binary_log_position"]))
        if not row["ordered"]:
            self.kind = "aged"
            self.offer(Candidate(position, server_time_s(self._connection)))
            return self._aged()
        newest = self._candidates[-1] if self._candidates else None
        if newest is not None and newest.places != XaPlaces() and newest.position.order <= position.order:
            # An earlier position is right too, and there it is known where to find the rows.
            self.places = newest.places
            return newest.position
        return position

    def _settled(self) -> Position:
        def settled(candidate: Candidate) -> bool:
            # An unknown set proves nothing. The empty set of a server without transactions is settled.
            gtids = candidate.position.gtids
            if gtids is None:
                return False
            (row,) = query(self._connection, _SETTLED, (gtids,))
            if row["mode"] != "ON":
                raise gtid_mode_lowered(row["mode"])
            return bool(row["settled"])

        return self._newest(settled)

    def _aged(self) -> Position:
        least_s = self._settle_s + 2 * replica_wait_s(self._connection)

        def old_enough(candidate: Candidate) -> bool:
            return server_time_s(self._connection) - candidate.seen_s >= least_s

        return self._newest(old_enough)

    def _newest(self, fit: Callable[[Candidate], bool]) -> Position:
        """Wait for a candidate that fits, and return the newest one; older candidates are dropped."""
        deadline = clock.monotonic_s() + _PATIENCE_S
        while clock.monotonic_s() < deadline:
            for n in reversed(range(len(self._candidates))):
                if fit(self._candidates[n]):
                    self._candidates = self._candidates[n:]
                    self.places = self._candidates[0].places
                    return self._candidates[0].position
            clock.sleep(_POLL_S)
        raise _not_settled()


def _not_settled() -> TransientError:
    return TransientError(
        f"No low watermark settled within {_PATIENCE_S:.0f} s.",
        detail="The chunk was not read: without a proved low watermark, rows could be lost.",
        hint="The server may hang in a commit (disk full, semi-synchronous replica away); look at SHOW PROCESSLIST.",
    )

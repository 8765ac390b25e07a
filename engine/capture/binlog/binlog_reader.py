"""Reads a binlog range to its end, however often the server ends the dump early."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from engine.base import clock
from engine.base.errors import TransientError
from engine.capture.binlog.binlog_access import BinaryLog, runs_from
from engine.capture.binlog.binlog_range import BinlogRange
from engine.decode.stream import EventBatch
from engine.source.connect import Endpoint
from engine.source.positions import FIRST_OFFSET, Position

_PAUSE_S = 0.003
_PATIENCE_S = 60.0
Found_co = TypeVar("Found_co", covariant=True)


class EventConsumer(Protocol[Found_co]):
    """Consumes a binlog range run by run. position: after the last event fed; end: where it is done."""

    position: Position
    end: Position

    @property
    def is_done(self) -> bool: ...

    def feed(self, run: EventBatch) -> Iterator[Found_co]: ...


def read_range(endpoint: Endpoint, binlog_range: EventConsumer[Found_co], first_server_id: int) -> Iterator[Found_co]:
    """Yield what a consumer makes of its range; for a `BinlogRange`, its changes, in order within each table.

    `SHOW BINARY LOG STATUS` can show a position a moment before a dump can deliver it. The dump then ends early,
    between two transactions, and is requested again. Raises TransientError if no progress is made for a minute.
    """
    deadline = clock.monotonic_s() + _PATIENCE_S
    consumer: Any = binlog_range
    row_range = consumer if isinstance(consumer, BinlogRange) else None
    if row_range is not None and row_range.log is None:
        row_range.log = BinaryLog(endpoint, first_server_id)
    on_damage = row_range.statistics.read_twice if row_range is not None else lambda: None
    while not binlog_range.is_done:
        place = binlog_range.position
        with closing(runs_from(endpoint, place, first_server_id, on_damage)) as runs:
            for run in runs:
                yield from binlog_range.feed(run)
                if _done(binlog_range):
                    break
        if binlog_range.position != place:
            deadline = clock.monotonic_s() + _PATIENCE_S
        elif clock.monotonic_s() > deadline:
            raise TransientError(
                f"The binlog did not reach {binlog_range.end} within {_PATIENCE_S:.0f} s; it is still at "
                f"{binlog_range.position}.",
                detail="Nothing of this binlog range was published.",
                hint="The server may hang in a commit (disk full, semi-synchronous replica away); "
                "look at SHOW PROCESSLIST.",
            )
        if not binlog_range.is_done:
            clock.sleep(_PAUSE_S)


def _done(binlog_range: EventConsumer[object]) -> bool:
    """A function, so that type checkers know that `feed` may have changed the answer."""
    return binlog_range.is_done


@dataclass(frozen=True)
class Before:
    """The GTIDs of all transactions before a position, and how many its file has before it.

    The numbers are those of transactions with and without a GTID.
    """

    gtids: str
    count: int
    anonymous: int


def gtids_at(endpoint: Endpoint, position: Position, first_server_id: int, *, mariadb: bool = False) -> str:
    """The GTIDs of all transactions before a position: MySQL's set, MariaDB's position."""
    return before(endpoint, position, first_server_id, mariadb=mariadb).gtids


def before(endpoint: Endpoint, position: Position, first_server_id: int, *, mariadb: bool) -> Before:
    """Read from the binlog itself what comes before a position.

    `@@gtid_executed` may lag the binlog, and the set that `SHOW BINARY LOG STATUS` shows beside a position is no
    better. So the position's file is read once up to it: the GTIDs that its head lists for earlier files, and its own
    GTID events.
    """
    binlog_range = BinlogRange({}, Position(position.file, FIRST_OFFSET), position, mariadb=mariadb)
    for _ in read_range(endpoint, binlog_range, first_server_id):
        pass
    transactions = binlog_range.transactions
    return Before(str(transactions.gtids), transactions.count, transactions.anonymous)

"""Which GTIDs lie before the committed position, and what they may be used for.

They have two uses. A low watermark checks that the transactions before a position are visible. A set without anonymous
transactions is correct there, as long as `gtid_mode` is ON at that moment (`source.watermarks`). A failover checks that
the new server has every published transaction (`run.source_loss.failover`). A set that lacks published transactions
would pass that check wrongly. So once the binlog contains an anonymous transaction, the ledger keeps no GTIDs, and the
run cannot fail over.

A later run keeps them again if the committed position's file has transactions before the position, all with GTIDs. The
mode was ON since the file began, and a replica that executed them, in order, has everything before them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.base.errors import GtidModeError
from engine.capture.binlog.binlog_reader import before
from engine.capture.reports import RangeReport
from engine.decode.gtid import joined
from engine.source.ancestry import has_gtids
from engine.source.connect import Connection, Endpoint, Server, query
from engine.source.positions import Position
from engine.source.watermarks import WatermarkClass, gtid_mode_lowered


@dataclass(frozen=True)
class KnownGtids:
    """The GTIDs of the transactions before a position."""

    proved_set: str | None
    """The set as watermarks need it; None if it is unknown."""
    complete: bool
    """Whether every transaction before the position has a GTID."""

    @property
    def committed_set(self) -> str | None:
        """The set that the ledger keeps; None if transactions without a GTID precede the position."""
        return self.proved_set if self.complete else None

    def after(self, reports: Sequence[RangeReport], *, mariadb: bool) -> "KnownGtids":
        """The GTIDs before the end of the ranges that the reports cover."""
        if self.proved_set is None and not any(report.complete for report in reports):
            return self
        complete = self.complete and not any(report.anonymous for report in reports)
        texts = [self.proved_set or "", *(report.gtids for report in reports)]
        return KnownGtids(joined(texts, mariadb=mariadb), complete)


def known_gtids(
    connection: Connection, endpoint: Endpoint, server: Server, position: Position, first_server_id: int
) -> KnownGtids:
    """The GTIDs before the committed position, at the start of a run."""
    if position.gtids is not None:
        return KnownGtids(position.gtids, complete=True)
    if not has_gtids(connection, server):
        return KnownGtids(None, complete=False)
    try:
        transactions = before(endpoint, position, first_server_id, mariadb=server.flavor == "mariadb")
    except GtidModeError:  # raised by the file of the position; the next file's head has the set
        return KnownGtids(None, complete=False)
    return KnownGtids(transactions.gtids, complete=transactions.count > 0 and not transactions.anonymous)


def position_after(
    start: Position, end: Position, reports: Sequence[RangeReport], gtids: KnownGtids, *, mariadb: bool
) -> Position:
    """The position that an epoch commits, with its GTID set if known. gtids: those before `start`."""
    if end.order <= start.order:
        return replace(start, gtids=gtids.committed_set)
    return replace(
        end, gtids=gtids.after(reports, mariadb=mariadb).committed_set, born=reports[-1].births.get(end.file)
    )


def require_gtids(connection: Connection, kind: WatermarkClass, reports: Sequence[RangeReport]) -> None:
    """Raises SourceLostError if the binlog has transactions without a GTID and may get more.

    `gtid_mode = ON` keeps more of them out.
    """
    if kind != "gtid" or not any(report.anonymous for report in reports):
        return
    mode = query(connection, "SELECT @@global.gtid_mode AS mode")[0]["mode"]
    if mode != "ON":
        raise gtid_mode_lowered(mode)

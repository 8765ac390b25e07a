"""Which GTIDs lie before the committed position, and for what that may be used.

Two things ask. A low watermark asks whether what the log holds up to a position is visible: there a set without anonymous
transactions is right, as long as `gtid_mode` is ON when it is asked (`source.watermarks`). Another server, when it takes over,
is asked whether it has all that is published (`run.failover`): there a set that lacks published transactions would be believed
wrongly. So once the log holds an anonymous transaction the ledger keeps no GTIDs, and the run cannot move to another server.

They are kept again by the next run that finds the committed position in a file that has transactions, all with GTIDs: the
mode was ON since a whole file began, and a replica that has executed them, in their order, has what came before them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.capture.binlog.binlog_reader import before
from engine.capture.reports import RangeReport
from engine.decode.gtid import joined
from engine.errors import GtidModeError
from engine.source.ancestry import has_gtids
from engine.source.connect import Connection, Endpoint, Server, query
from engine.source.positions import Position
from engine.source.watermarks import WatermarkClass, gtid_mode_lowered


@dataclass(frozen=True)
class KnownGtids:
    """The GTIDs of all transactions before a position."""

    settled: str | None
    """The set, as watermarks need it; None where it is unknown."""
    whole: bool
    """Whether every transaction before the position has a GTID."""

    @property
    def committed(self) -> str | None:
        """What the ledger keeps of them."""
        return self.settled if self.whole else None

    def behind(self, reports: Sequence[RangeReport], *, mariadb: bool) -> "KnownGtids":
        """Those before the end of the ranges that the reports are of."""
        if self.settled is None and not any(report.complete for report in reports):
            return self
        whole = self.whole and not any(report.anonymous for report in reports)
        texts = [self.settled or "", *(report.gtids for report in reports)]
        return KnownGtids(joined(texts, mariadb=mariadb), whole)


def known_gtids(
    connection: Connection, endpoint: Endpoint, server: Server, position: Position, first_server_id: int
) -> KnownGtids:
    """Those before the committed position, when a run begins."""
    if position.gtids is not None:
        return KnownGtids(position.gtids, whole=True)
    if not has_gtids(connection, server):
        return KnownGtids(None, whole=False)
    try:
        found = before(endpoint, position, first_server_id, mariadb=server.flavor == "mariadb")
    except GtidModeError:  # of the position's file, before it; the head of the next file tells them
        return KnownGtids(None, whole=False)
    return KnownGtids(found.gtids, whole=found.count > 0 and not found.anonymous)


def position_after(
    known: Position, end: Position, reports: Sequence[RangeReport], gtids: KnownGtids, *, mariadb: bool
) -> Position:
    """The position that an epoch commits, with its GTID set where that is known. gtids: those before `known`."""
    if end.order <= known.order:
        return replace(known, gtids=gtids.committed)
    return replace(end, gtids=gtids.behind(reports, mariadb=mariadb).committed, born=reports[-1].births.get(end.file))


def require_gtids(connection: Connection, kind: WatermarkClass, reports: Sequence[RangeReport]) -> None:
    """Raises SourceLostError when the log holds transactions without a GTID, and the mode that keeps others away is not ON."""
    if kind != "gtid" or not any(report.anonymous for report in reports):
        return
    mode = query(connection, "SELECT @@global.gtid_mode AS mode")[0]["mode"]
    if mode != "ON":
        raise gtid_mode_lowered(mode)

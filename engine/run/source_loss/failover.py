"""Failover: a pipeline whose source was promoted, moved or rebuilt continues by GTID.

It does if the history is proved to be the same.

While a run reads, `source.connect.check_identity` notices that another server answers, and
`run.lifecycle.recovery_loop` begins again. `run.lifecycle.run_start` then asks this module what follows. Positions of
two servers cannot be compared, so the ledger's position is translated once. Three conditions must hold. The new
server's history contains everything published; it has purged nothing after that; and one place in its binlog has all
published transactions before it and all new ones after it (`capture.binlog.position_search`). A separate epoch commits
the new identity and place. No old position survives: finished chunks are exact at the committed position, which stands
for all of them, and uncommitted chunks are read again.
"""

from dataclasses import replace

from engine.base.errors import SourceLostError
from engine.capture.binlog.position_search import Binlog, NoPlaceError
from engine.decode.gtid import parse_gtids
from engine.journal.events import FailedOver
from engine.ledger.records import EpochRecord
from engine.ledger.state import State, following
from engine.source.ancestry import contains_within, has_gtids, lost_on_other_server
from engine.source.connect import Connection, Endpoint, Server, binlog_off, query
from engine.source.heads import read_head
from engine.source.positions import Position, binlog_files, current

_PURGED = "SELECT GTID_SUBSET(@@global.gtid_purged, %s) AS ours, @@global.gtid_purged AS purged"


def failed_over(
    state: State, connection: Connection, endpoint: Endpoint, server: Server, first_server_id: int, run: str
) -> EpochRecord:
    """The epoch that moves the ledger to another server.

    Raises SourceLostError without proof that the history is the same.

    It is a BinlogOffError if the server was the source before, and wrote no binlog for a while: it may have rows of
    that time that the server in between never had.
    """
    if (at := state.binlog_off.get(server.identity)) is not None:
        raise binlog_off(at)
    position = state.position
    place = _place(state, position, connection, endpoint, server, first_server_id)
    to = replace(place, gtids=position.gtids)
    return replace(following(state, run, {}), identity=server.identity, to_position=to)


def in_a_row(before: int, began: int, ended: int) -> int:
    """The number of failovers in a row, this one included. before: the number so far.

    began, ended: the epochs at which the time since the last failover began and ended. A commit in between starts the
    count again.
    """
    return before + 1 if began == ended else 1


def describe(state: State, record: EpochRecord) -> FailedOver:
    """The failover of `record`, for the journal. state: the state before it."""
    assert record.identity is not None
    return FailedOver(
        from_identity=state.identity,
        to_identity=record.identity,
        from_position=str(record.from_position),
        to_position=str(record.to_position),
        gtids=record.to_position.gtids,
    )


def _place(
    state: State,
    position: Position,
    connection: Connection,
    endpoint: Endpoint,
    server: Server,
    first_server_id: int,
) -> Position:
    def lost(verdict: str, reason: str, hint: str = "") -> SourceLostError:
        return lost_on_other_server(verdict, state.identity, server, reason, hint)

    mariadb = state.identity.startswith("mariadb")
    if mariadb != (server.flavor == "mariadb"):
        raise lost("another kind of server", f"it is {server.flavor} {server.version_text}")
    if not position.gtids:
        raise lost("no GTIDs", "the ledger knows no GTIDs of the committed position")
    if not has_gtids(connection, server):
        raise lost("no GTIDs", "it writes transactions without GTIDs")
    if not contains_within(connection, server, position.gtids):
        reason = f"it has not executed all of {position.gtids}, which are published"
        hint = "If it is a replica that is behind, start again when it has caught up."
        raise lost("diverged or behind", reason, hint)
    if not mariadb:
        (row,) = query(connection, _PURGED, (position.gtids,))
        if not row["ours"]:
            raise lost(
                "purged", f"it has purged transactions that are not published yet (gtid_purged is {row['purged']})"
            )
    # Read the end after the check of the history, so that none of the published transactions lies after it.
    end, files = current(connection, server), list(binlog_files(connection))
    binlog = Binlog(endpoint, first_server_id, files, end, mariadb)
    try:
        place = binlog.position_after(parse_gtids(position.gtids, mariadb=mariadb))
    except NoPlaceError as error:
        raise lost(error.verdict, error.seen) from error
    return (
        place if place.born is not None else replace(place, born=read_head(endpoint, place.file, first_server_id).born)
    )

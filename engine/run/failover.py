"""From one server to another: a pipeline whose source was promoted, moved or rebuilt goes on by GTID where that is proved.

That another server answers is noticed by `source.connect.check_identity` and `run.runner`; what follows is decided here.
Positions of two servers cannot be compared. So the ledger's position is translated once: everything published is in the new
server's history, nothing behind it is purged there, and one place in its binlog has all that is published before it and all that
is new behind it (`capture.binlog.position_search`). An epoch of its own commits the new identity and place. No other position
outlives it: finished chunks are exact through the committed position, which stands for all of them, and chunks that were read and
not committed are read again.
"""

from dataclasses import replace

from engine.capture.binlog.position_search import Binlog, NoPlaceError
from engine.decode.gtid import parse_gtids
from engine.errors import SourceLostError
from engine.events import FailedOver
from engine.ledger.records import EpochRecord
from engine.ledger.state import State, following
from engine.source.ancestry import contains_within, has_gtids, lost_on_other_server
from engine.source.connect import Connection, Endpoint, Server, query
from engine.source.heads import read_head
from engine.source.positions import Position, binlog_files, current, position_from_dict

_PURGED = "SELECT GTID_SUBSET(@@global.gtid_purged, %s) AS ours, @@global.gtid_purged AS purged"


def failed_over(
    state: State, connection: Connection, endpoint: Endpoint, server: Server, first_server_id: int, run: str
) -> EpochRecord:
    """The epoch that leads the ledger to another server. Raises SourceLostError when it cannot be proved to be the same history."""
    position = position_from_dict(state.position)
    place = _place(state, position, connection, endpoint, server, first_server_id)
    to = replace(place, gtids=position.gtids).as_dict()
    return following(state, run, {}, identity=server.identity, to=to)


def describe(state: State, record: EpochRecord) -> FailedOver:
    """The failover of `record`, for the journal. state: the state before it."""
    return FailedOver(
        from_identity=state.identity,
        to_identity=record["identity"],
        from_position=str(position_from_dict(record["from"])),
        to_position=str(position_from_dict(record["to"])),
        gtids=record["to"]["gtids"],
    )


def _place(
    state: State,
    position: Position,
    connection: Connection,
    endpoint: Endpoint,
    server: Server,
    first_server_id: int,
) -> Position:
    def lost(verdict: str, seen: str, do: str = "") -> SourceLostError:
        return lost_on_other_server(verdict, state.identity, server, seen, do)

    mariadb = state.identity.startswith("mariadb")
    if mariadb != (server.flavor == "mariadb"):
        raise lost("another kind of server", f"it is {server.flavor} {server.version_text}")
    if not position.gtids:
        raise lost("no GTIDs", "the ledger knows no GTIDs of the committed position")
    if not has_gtids(connection, server):
        raise lost("no GTIDs", "it writes transactions without GTIDs")
    if not contains_within(connection, server, position.gtids):
        seen = f"it has not executed all of {position.gtids}, which are published"
        do = "If it is a replica that is behind, start again when it has caught up."
        raise lost("diverged or behind", seen, do)
    if not mariadb:
        (row,) = query(connection, _PURGED, (position.gtids,))
        if not row["ours"]:
            raise lost(
                "purged", f"it has purged transactions that are not published yet (gtid_purged is {row['purged']})"
            )
    # Asked after the history was found to hold ours: none of them lies behind this end.
    end, files = current(connection, server), list(binlog_files(connection))
    binlog = Binlog(endpoint, first_server_id, files, end, mariadb)
    try:
        place = binlog.position_after(parse_gtids(position.gtids, mariadb=mariadb))
    except NoPlaceError as error:
        raise lost(error.verdict, error.seen) from error
    return (
        place if place.born is not None else replace(place, born=read_head(endpoint, place.file, first_server_id).born)
    )

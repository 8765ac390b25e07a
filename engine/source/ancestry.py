"""Checks that a server still has the history that the ledger streamed, and that its binlog did not go back.

A binlog goes back if a server is reset, or restored from an older copy and then written to. The same file names,
offsets and GTIDs can then appear again with other content. So three things are compared. Each finds what the others
miss:

* the end of the binlog, and the length of the committed position's file: catches a restored server with few writes;
* the time in that file's first event: catches a file that was created again under the same name. Servers begin a new
  file whenever they start, so a restored server never appends to an existing file;
* the GTIDs: everything published must be among what the server has executed.

A failed check ends the run with exit code 4 (SourceLostError); it never counts as "nothing new".
"""

from engine.base import clock
from engine.base.errors import SourceLostError, TransientError
from engine.decode.gtid import parse_gtid_position
from engine.source.connect import RESNAPSHOT_ALL, Connection, Endpoint, Server, query
from engine.source.heads import reaches, read_head
from engine.source.positions import Position, binlog_files, current, file_number

_CONTAINED = "SELECT GTID_SUBSET(%s, @@global.gtid_executed) AS contained"
_PATIENCE_S = 10.0
_POLL_S = 0.2
_RIGHT_SO_FAR = "Published data is correct up to the committed position; nothing after it was read."


def has_gtids(connection: Connection, server: Server) -> bool:
    """Whether every transaction of the server has a GTID."""
    return server.flavor == "mariadb" or query(connection, "SELECT @@global.gtid_mode AS mode")[0]["mode"] == "ON"


def contains(connection: Connection, server: Server, gtids: str) -> bool:
    """Whether the server has executed these transactions.

    `gtid_executed` may lag the binlog by transactions being committed.

    On MariaDB: whether its binlog has reached as far in each domain, by the same server's numbers.
    """
    if server.flavor == "mysql":
        return bool(query(connection, _CONTAINED, (gtids,))[0]["contained"])
    state = query(connection, "SELECT @@global.gtid_binlog_state AS state")[0]["state"]
    reached = {
        (domain, source): number
        for domain, source, number in (map(int, part.split("-")) for part in state.replace("\n", "").split(",") if part)
    }
    wanted = parse_gtid_position(gtids).last
    return all(reached.get((domain, source), 0) >= number for domain, (source, number) in wanted.items())


def contains_within(connection: Connection, server: Server, gtids: str, patience_s: float = _PATIENCE_S) -> bool:
    """Retry `contains` for up to `patience_s` seconds: a commit may be in progress, or a replica may be catching up."""
    deadline = clock.monotonic_s() + patience_s
    while not contains(connection, server, gtids):
        if clock.monotonic_s() >= deadline:
            return False
        clock.sleep(_POLL_S)
    return True


def check_same(
    connection: Connection, endpoint: Endpoint, server: Server, position: Position, first_server_id: int
) -> None:
    """Raises SourceLostError if the server, identified already, no longer has the history that leads to `position`."""
    files, end = list(binlog_files(connection)), current(connection, server)
    oldest = files[0]
    if end.order < position.order:
        raise _lost(
            "restored from an older copy, or reset",
            f"its binlog ends at {end}, before the committed position {position}",
        )
    if position.file not in files and file_number(position.file) < file_number(oldest):
        raise SourceLostError(
            f"The source no longer has the binlog file of the committed position {position}: it was purged.",
            detail=f"Its oldest file is {oldest}. Changes after the position are lost to Tidemark; "
            "published data is correct up to it.",
            hint=f"{RESNAPSHOT_ALL}. To avoid this, raise binlog_expire_logs_seconds.",
        )
    if position.file not in files:
        raise _lost("reset, or its binlog was renamed", f"it has no file {position.file}, but {oldest} to {files[-1]}")
    if position.file != end.file and not reaches(endpoint, position, first_server_id):
        raise _lost("restored from an older copy, or reset", f"{position.file} ends before it")
    if position.born is not None:
        born = read_head(endpoint, position.file, first_server_id).born
        check_born(position, born)
    if position.gtids is not None and not contains_within(connection, server, position.gtids):
        if position.born is not None:
            # The file is the same, so its binlog contains what was read; a commit of it hangs.
            raise TransientError(
                "The source's binlog contains transactions that gtid_executed does not.",
                detail="A commit seems to hang. Nothing was read again.",
                hint="Look at SHOW PROCESSLIST (disk full, semi-synchronous replica away).",
            )
        raise _lost("restored from an older copy, or reset", "it has not executed transactions that are published")


def check_born(position: Position, born: int | None) -> None:
    """Raises SourceLostError if the committed position's file was created at another time than this one."""
    if None not in (born, position.born) and born != position.born:
        raise _lost(
            "restored from an older copy, or reset, and then written to",
            f"its {position.file} is another file than the one of that name that was streamed",
        )


def went_back(position: Position, end: Position) -> SourceLostError:
    """The error for a running server whose binlog ends before the committed position."""
    return _lost("restored from an older copy, or reset", f"its binlog ends at {end}, before {position}")


def _lost(verdict: str, seen: str) -> SourceLostError:
    return SourceLostError(
        f"The source was {verdict}: {seen}.",
        detail="It does not have changes that are already published. (Or it is another server with the same "
        "server_uuid; on MariaDB, the same server_id.) " + _RIGHT_SO_FAR,
        hint=f"Point the spec at a server that has them; the run then continues by GTID. {RESNAPSHOT_ALL}.",
    )


def lost_on_other_server(verdict: str, identity: str, server: Server, seen: str, do: str = "") -> SourceLostError:
    """The error for a server other than `identity`, which the ledger streamed."""
    return SourceLostError(
        f"The source is another server ({server.identity}; the ledger streamed {identity}) and cannot be streamed "
        f"from, {verdict}: {seen}.",
        detail=_RIGHT_SO_FAR,
        hint=(do or "Point the spec at the previous server, or at a replica that has all its transactions.")
        + f" {RESNAPSHOT_ALL}.",
    )

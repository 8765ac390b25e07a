"""Heads of binlog files.

When a file was created, what the binlog contains before it, and whether it reaches a position.

Each takes a few hundred bytes of a dump.
"""

from dataclasses import dataclass

from engine.base.errors import BinlogDamagedError, SourceLostError, TransientError
from engine.decode.binlog_events import Kind
from engine.decode.gtid import GtidSet
from engine.decode.gtid_events import GtidList, read_gtid_list, read_previous_gtids
from engine.source.connect import Endpoint, open_connection
from engine.source.positions import FIRST_OFFSET, Position
from engine.source.replication import read_runs

_BEYOND_END = ("position > file size", "impossible position")
"""The texts of MySQL and MariaDB for a dump from an offset that the file does not have."""


@dataclass(frozen=True)
class Head:
    """The contents of a binlog file's head."""

    file: str
    born: int
    """The time of the file's FORMAT_DESCRIPTION event, in seconds since 1970."""
    before: GtidSet | GtidList
    """The transactions of earlier files."""


def read_head(endpoint: Endpoint, file: str, first_server_id: int) -> Head:
    """Read a file's head.

    Raises SourceLostError if the server does not have the file, TransientError if the dump ends early.

    Damaged events are requested once more. Raises BinlogDamagedError if they are damaged again.
    """
    try:
        return _read_head(endpoint, file, first_server_id)
    except BinlogDamagedError:
        return _read_head(endpoint, file, first_server_id)


def reaches(endpoint: Endpoint, position: Position, first_server_id: int) -> bool:
    """Whether the position's file has events up to its offset.

    The server answers by the events: an encrypted file is larger.

    Raises SourceLostError if the server does not have the file.
    """
    connection = open_connection(endpoint)
    try:
        for _ in read_runs(connection, position.file, position.offset, first_server_id, endpoint.silence_s):
            break
    except SourceLostError as error:
        if any(text in error.message for text in _BEYOND_END):
            return False
        raise
    finally:
        connection._force_close()  # noqa: SLF001 - the server is still sending; a clean close would wait for it
    return True


def _read_head(endpoint: Endpoint, file: str, first_server_id: int) -> Head:
    connection = open_connection(endpoint)
    born: int | None = None
    try:
        for run in read_runs(connection, file, FIRST_OFFSET, first_server_id, endpoint.silence_s):
            for n, kind in enumerate(run.headers.kind.tolist()):
                if run.file != file:
                    break
                if kind == Kind.FORMAT_DESCRIPTION:
                    born = int(run.headers.timestamp[n])
                elif kind == Kind.PREVIOUS_GTIDS and born is not None:
                    return Head(file, born, read_previous_gtids(run.body(n)))
                elif kind == Kind.MARIA_GTID_LIST and born is not None:
                    return Head(file, born, read_gtid_list(run.body(n)))
    finally:
        connection._force_close()  # noqa: SLF001 - the server is still sending; a clean close would wait for it
    raise TransientError(
        f"The head of the binlog file {file} could not be read: the dump ended early.",
        detail="Nothing of it was used.",
        hint="The server may have just begun this file. Tidemark retries.",
    )

"""The replication protocol: a bounded binlog range as blocks of events.

A dump is asked for without blocking (flag 1): the server sends what it has and an end packet, so that a read ends by
itself. That end may come before a position that `SHOW BINARY LOG STATUS` has shown already, as the server shows a
transaction a moment before it lets a dump have it; the caller then dumps again from where it is.

MySQL ends an older dump when a newer one announces the same replica uuid, MariaDB when it uses the same server id. So
every dump has a uuid of its own and a server id of its own within the pipeline's 4096.
"""

import secrets
import struct
import uuid
from collections.abc import Iterator

import pymysql

from engine.decode.stream import EventBatch, StreamPosition
from engine.source.connect import SILENCE_S, Connection, explain
from engine.source.packets import PacketReader
from engine.source.positions import FIRST_OFFSET

_BINLOG_DUMP = 0x12
_NON_BLOCKING = 1
_LARGEST_OFFSET = 0xFFFFFFFF
SERVER_IDS = 4096


def server_id(first: int) -> int:
    """A server id for one dump among the pipeline's; at random, so that two dumps that meet do not meet again when retried."""
    return first + secrets.randbelow(SERVER_IDS)


def open_dump(
    connection: Connection, file: str, offset: int, first_server_id: int, silence_s: float = SILENCE_S
) -> PacketReader:
    """Ask for the binlog from `file:offset` to its present end. Raises SourceLostError when the server no longer has it.

    silence_s: a server that sends nothing for so long counts as dead; it always has something to send, or the end.
    """
    doing = f"Reading the binlog from {file}:{offset}"
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SET @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = @@global.binlog_checksum"
            )
            cursor.execute(
                f"SET @mariadb_slave_capability = 4, @slave_uuid = '{uuid.uuid4()}', @replica_uuid = @slave_uuid"
            )
        request = struct.pack("<IHI", offset, _NON_BLOCKING, server_id(first_server_id)) + file.encode()
        connection._execute_command(_BINLOG_DUMP, request)  # noqa: SLF001
        connection._sock.settimeout(silence_s)  # noqa: SLF001 - the connection's own is for statements, which may take long
    except pymysql.Error as error:
        raise explain(error, doing) from error
    return PacketReader(connection, doing)


def read_runs(
    connection: Connection, file: str, offset: int, first_server_id: int, silence_s: float = SILENCE_S
) -> Iterator[EventBatch]:
    """The events from `file:offset` to the binlog's present end; each run is valid until the next one is asked for.

    The dump command has 32 bits for the offset. A position beyond them, behind a giant transaction, is reached by reading its file
    from the start and passing over what lies before it.
    """
    start = offset if offset <= _LARGEST_OFFSET else FIRST_OFFSET
    position = StreamPosition(file, start)
    for block in open_dump(connection, file, start, first_server_id, silence_s).blocks():
        for run in position.runs(block.buffer, block.start, block.end):
            if start == offset or run.file != file:
                yield run
            elif run.offset[-1] > offset:
                yield run.slice(int((run.offset <= offset).sum()), len(run.headers))

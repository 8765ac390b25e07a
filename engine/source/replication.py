"""The replication protocol: a bounded binlog range as blocks of events.

A dump is requested as non-blocking (flag 1): the server sends what it has and an end packet, so the read ends by
itself. That end may come before a position that `SHOW BINARY LOG STATUS` has already shown, because the server shows a
transaction a moment before a dump can deliver it. The caller then dumps again from its current position.

MySQL ends an older dump if a newer one announces the same replica uuid; MariaDB does if it uses the same server id. So
each dump has its own uuid, and its own server id among the pipeline's 4096.
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
    """A random server id for one dump among the pipeline's ids.

    Random, so that two colliding dumps do not collide on retry.
    """
    return first + secrets.randbelow(SERVER_IDS)


def open_dump(
    connection: Connection, file: str, offset: int, first_server_id: int, silence_s: float = SILENCE_S
) -> PacketReader:
    """Request the binlog from `file:offset` to its current end. Raises SourceLostError if the server no longer has it.

    silence_s: seconds without data after which the server counts as dead; it always has something to send, or the end.
    """
    doing = f"Reading the binlog from {file}:{offset}"
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SET @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = "
                "@@global.binlog_checksum"
            )
            cursor.execute(
                f"SET @mariadb_slave_capability = 4, @slave_uuid = '{uuid.uuid4()}', @replica_uuid = @slave_uuid"
            )
        request = struct.pack("<IHI", offset, _NON_BLOCKING, server_id(first_server_id)) + file.encode()
        connection._execute_command(_BINLOG_DUMP, request)  # noqa: SLF001
        connection._sock.settimeout(silence_s)  # noqa: SLF001 - the connection's own timeout is for long statements
    except pymysql.Error as error:
        raise explain(error, doing) from error
    return PacketReader(connection, doing)


def read_runs(
    connection: Connection, file: str, offset: int, first_server_id: int, silence_s: float = SILENCE_S
) -> Iterator[EventBatch]:
    """Yield the events from `file:offset` to the binlog's current end.

    Each run is valid until the next one is requested.

    The dump command has 32 bits for the offset. To reach a later position, after a giant transaction, the file is read
    from its start and everything before the position is skipped.
    """
    start = offset if offset <= _LARGEST_OFFSET else FIRST_OFFSET
    position = StreamPosition(file, start)
    for block in open_dump(connection, file, start, first_server_id, silence_s).blocks():
        for run in position.runs(block.buffer, block.start, block.end):
            if start == offset or run.file != file:
                yield run
            elif run.offset[-1] > offset:
                yield run.slice(int((run.offset <= offset).sum()), len(run.headers))

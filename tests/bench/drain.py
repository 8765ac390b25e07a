"""The yardsticks: the server's own speed, undecoded, and the libraries one would use otherwise."""

import struct
import time
from contextlib import closing, suppress

import pymysql
from pymysql.cursors import SSCursor
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from engine.source.connect import Endpoint, open_connection
from engine.source.packets import prepare
from engine.source.positions import Position
from tests.servers import PASSWORD, USER, Server

_SLICE = 4 << 20


def endpoint(server: Server) -> Endpoint:
    """The source as the engine sees it."""
    return Endpoint(server.host, server.port, USER, PASSWORD)


def rows_undecoded(server: Server, sql: str, rows: int) -> float:
    """Rows a second that the server sends over the binary protocol to a client that throws them away."""
    with closing(open_connection(endpoint(server))) as connection:
        statement = prepare(connection, sql, "drain")
        began = time.perf_counter()
        connection._execute_command(0x17, struct.pack("<IBI", statement.number, 0, 1))
        _drain(connection)
        return rows / (time.perf_counter() - began)


def log_undecoded(server: Server, start: Position, changes: int) -> tuple[float, float]:
    """(changes a second, bytes a second) of a binlog dump that is thrown away."""
    with closing(open_connection(endpoint(server))) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32'")
            cursor.execute("SET @mariadb_slave_capability = 4")
        began = time.perf_counter()
        connection._execute_command(0x12, struct.pack("<IHI", start.offset, 1, 99_001) + start.file.encode())
        size = _drain(connection)
        took = time.perf_counter() - began
        with suppress(pymysql.Error, OSError):
            connection._force_close()
        return changes / took, size / took


def _drain(connection: "pymysql.connections.Connection[object]") -> int:
    """Receive until an end packet is the last thing that came; returns the bytes."""
    buffer = bytearray(_SLICE)
    view, total, tail = memoryview(buffer), 0, b""
    data = connection._rfile.read1(1 << 16)  # type: ignore[attr-defined]
    while True:
        total += len(data)
        tail = (tail + bytes(data[-16:]))[-16:]
        if tail[-9:-6] == b"\x05\x00\x00" and tail[-5] == 0xFE:
            return total
        got = connection._sock.recv_into(view)  # type: ignore[attr-defined]
        if not got:
            return total
        data = view[:got]


def rows_by_pymysql(server: Server, sql: str, limit: int) -> float:
    """Rows a second through PyMySQL's unbuffered cursor."""
    with closing(server.connect()) as connection:
        cursor = connection.cursor(SSCursor)
        began, count = time.perf_counter(), 0
        cursor.execute(f"{sql} LIMIT {limit}")
        while batch := cursor.fetchmany(10_000):
            count += len(batch)
        return count / (time.perf_counter() - began)


def log_by_mysql_replication(server: Server, start: Position, limit_s: float) -> float:
    """Row changes a second through mysql-replication, over as many as it reads in `limit_s`."""
    settings = {"host": server.host, "port": server.port, "user": "root", "passwd": ""}
    stream = BinLogStreamReader(
        connection_settings=settings,
        server_id=99_002,
        log_file=start.file,
        log_pos=start.offset,
        resume_stream=True,
        blocking=False,
        is_mariadb=server.flavor == "mariadb",
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
    )
    began, count = time.perf_counter(), 0
    for event in stream:
        count += len(event.rows)
        if time.perf_counter() - began > limit_s:
            break
    took = time.perf_counter() - began
    stream.close()
    return count / took

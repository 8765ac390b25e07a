"""The yardsticks: the server's own speed without decoding, and the libraries that one would use otherwise."""

import struct
import time
from contextlib import closing, suppress
from itertools import islice

import pymysql
from pymysql.cursors import DictCursor, SSCursor
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from engine.source.connect import Endpoint, open_connection
from engine.source.packets import prepare
from engine.source.positions import Position
from tests.servers import PASSWORD, USER, Server

_SLICE = 4 << 20


def endpoint(server: Server) -> Endpoint:
    """The source's endpoint for the engine."""
    return Endpoint(server.host, server.port, USER, PASSWORD)


def rows_undecoded(server: Server, sql: str, rows: int) -> float:
    """Rows per second that the server sends over the binary protocol to a client that discards them."""
    with closing(open_connection(endpoint(server))) as connection:
        statement = prepare(connection, sql, "drain")
        began = time.perf_counter()
        connection._execute_command(0x17, struct.pack("<IBI", statement.number, 0, 1))
        _drain(connection)
        return rows / (time.perf_counter() - began)


def log_undecoded(server: Server, start: Position) -> tuple[float, int]:
    """(seconds, bytes) of a binlog dump from `start` to its present end, discarded."""
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
        return took, size


def _drain(connection: "pymysql.connections.Connection[object]") -> int:
    """Receive until an end packet is the last one; returns the bytes."""
    buffer = bytearray(_SLICE)
    view, total, tail = memoryview(buffer), 0, b""
    data = connection._rfile.read1(1 << 16)
    while True:
        total += len(data)
        tail = (tail + bytes(data[-16:]))[-16:]
        if tail[-9:-6] == b"\x05\x00\x00" and tail[-5] == 0xFE:
            return total
        got = connection._sock.recv_into(view)
        if not got:
            return total
        data = view[:got]


def rows_by_pymysql(server: Server, sql: str, limit: int) -> float:
    """Rows per second with PyMySQL's unbuffered cursor."""
    with closing(server.connect()) as connection:
        cursor = connection.cursor(SSCursor)
        began, count = time.perf_counter(), 0
        cursor.execute(f"{sql} LIMIT {limit}")
        while batch := cursor.fetchmany(10_000):
            count += len(batch)
        return count / (time.perf_counter() - began)


def log_by_mysql_replication(server: Server, start: Position, limit_s: float) -> dict[str, float | str]:
    """Row images per second with mysql-replication, over as many as it reads in `limit_s`.

    If it cannot decode an image, `mysql_replication_failed` says which and why.
    """
    failed: dict[str, float | str] = {}
    with closing(_stream(server, start, [WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent])) as stream:
        began, count = time.perf_counter(), 0
        try:
            for event in stream:
                count += len(event.rows) * (2 if isinstance(event, UpdateRowsEvent) else 1)
                if time.perf_counter() - began > limit_s:
                    break
        except Exception as error:  # noqa: BLE001 - whatever a library raises that meets what it does not know
            failed = {"mysql_replication_failed": f"at image {count + 1}, {type(error).__name__}: {error}"}
        return {"mysql_replication": count / (time.perf_counter() - began), **failed}


def wrong_by_mysql_replication(server: Server, start: Position, table: str) -> list[str]:
    """Columns in which some of the first rows inserted are not what `SELECT` gives the same connector.

    Compared are values that both give as the same Python type; FLOAT is left out, as `SELECT` rounds it.
    """
    with closing(server.connect()) as connection, connection.cursor(DictCursor) as cursor:
        with closing(_stream(server, start, [WriteRowsEvent])) as stream:
            inserted = {row["values"]["id"]: row["values"] for event in islice(stream, 200) for row in event.rows}
        cursor.execute(f"SELECT * FROM {table} WHERE id IN %s", (list(inserted),))
        return sorted(
            {
                name
                for row in cursor.fetchall()
                for name, value in row.items()
                if type(got := inserted[row["id"]][name]) is type(value) is not float and got != value
            }
        )


def _stream(server: Server, start: Position, events: list[type]) -> BinLogStreamReader:
    # Not `is_mariadb`: it forgets file and position, and its request is one byte longer than it says (1.0.17), upon
    # which the server may hang up.
    return BinLogStreamReader(
        connection_settings={"host": server.host, "port": server.port, "user": "root", "passwd": ""},
        server_id=99_002,
        log_file=start.file,
        log_pos=start.offset,
        resume_stream=True,
        blocking=False,
        only_events=events,
    )

"""Compressed transactions and events, as the servers write them."""

import struct
import zlib

import numpy as np
import pyarrow as pa

from engine.decode.binlog_events import among
from engine.decode.stream import EventBatch, StreamPosition
from engine.decode.unfold import STATEMENTS, Unfolded, unfolded
from tests.unit.support.cells import lenenc
from tests.unit.support.wire import Binlog, laid_out


def payload(events: bytes, *, compression: int = 0, size: int | None = None) -> bytes:
    """The body of a TRANSACTION_PAYLOAD event."""
    content = pa.compress(events, codec="zstd", asbytes=True) if compression == 0 else events
    fields = {2: compression, 3: len(events) if size is None else size, 1: len(content)}
    head = b"".join(bytes([n, len(lenenc(value))]) + lenenc(value) for n, value in fields.items())
    return head + b"\0" + content


def packed(content: bytes) -> bytes:
    """A part of an event as MariaDB compresses it."""
    length = len(content).to_bytes(4, "big").lstrip(b"\0")
    return bytes([0x80 | len(length)]) + length + zlib.compress(content)


def run_of(log: Binlog) -> EventBatch:
    """The events of the log as one batch, without those that open the dump."""
    *_, run = StreamPosition(log.file, 4).runs(*laid_out(log.payloads))
    return run


def statements(run: EventBatch) -> list[int]:
    """The numbers of the events that are decompressed before anything is read."""
    return np.flatnonzero(among(run.headers.kind, STATEMENTS)).tolist()


def opened(run: EventBatch, most: int = 1 << 24) -> list[Unfolded]:
    """The events that a batch stands for."""
    return list(unfolded(run, np.array(statements(run), np.int64), most))


def event(kind: int, body: bytes) -> bytes:
    """An event without checksum."""
    return struct.pack("<IBIIIH", 5, kind, 1, 19 + len(body), 0, 0) + body

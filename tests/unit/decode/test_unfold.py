"""Compressed events: what they contain, as a whole and in pieces, and what happens when they are damaged."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import SourceLostError
from engine.decode.binlog_events import ROWS_COMPRESSED, Kind
from engine.decode.query_event import read_query
from engine.decode.schema import Column, Table
from engine.decode.unfold import unfolded
from tests.unit.support.compressed import event, opened, packed, payload, run_of
from tests.unit.support.wire import Binlog, rows_body

ITEMS = Table("shop", "items", (Column("id", "bigint"),), ("id",))


@given(
    st.lists(st.one_of(st.binary(max_size=40), st.lists(st.binary(max_size=300), max_size=6)), max_size=8),
    st.sampled_from([100, 700, 1 << 24]),
    st.sampled_from([0, 255]),
)
def test_a_payload_stands_for_its_events(happened: list[bytes | list[bytes]], most: int, compression: int) -> None:
    """In order among plain events, each at its payload's position; in as many batches as the size limit requires."""
    log, expected = Binlog(), []
    for number, one in enumerate(happened):
        if isinstance(one, bytes):
            log.add(30, one)
            expected.append((30, one, log.position))
        else:
            log.add(40, payload(b"".join(event(100 + number, body) for body in one), compression=compression))
            expected += [(100 + number, body, log.position) for body in one]
    log.commit()
    expected.append((16, bytes(8), log.position))
    parts = opened(run_of(log), most)
    found = [
        (int(part.run.headers.kind[n]), part.run.body(n), int(part.run.offset[n]))
        for part in parts
        for n in range(len(part.run.headers))
    ]
    assert found == expected
    run = run_of(log)
    for part in parts:
        assert (run.offset[part.source] == part.run.offset).all()


def test_a_large_payload_comes_in_pieces() -> None:
    """Larger than one step of decompression, with events across the edges."""
    bodies = [bytes([n]) * (1_300_000 + n) for n in range(12)]
    log = Binlog()
    log.add(40, payload(b"".join(event(30, body) for body in bodies)))
    parts = opened(run_of(log), 6 << 20)
    assert len(parts) > 2
    assert max(len(part.run.buffer) for part in parts) < 8 << 20
    assert [part.run.body(n) for part in parts for n in range(len(part.run.headers))] == bodies


def test_statements_are_read_however_they_are_logged() -> None:
    """MariaDB's compressed statements, and those of LOAD DATA."""
    log = Binlog()
    head = struct.pack("<IIBHH", 7, 0, 4, 0, 3) + b"\0\0\0" + b"shop\0"
    log.add(165, head + packed(b"ALTER TABLE t ADD c INT"))
    log.add(18, struct.pack("<IIBHH", 7, 0, 4, 0, 3) + bytes(13) + b"\0\0\0" + b"shop\0" + b"LOAD DATA")
    (part,) = opened(run_of(log))
    assert part.run.headers.kind.tolist() == [Kind.QUERY] * 2
    queries = [read_query(part.run.body(n)) for n in range(2)]
    assert [(q.database, q.statement) for q in queries] == [("shop", "ALTER TABLE t ADD c INT"), ("shop", "LOAD DATA")]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("kind", "images"), [("insert", [[1], [2]]), ("update", [[1], [2]]), ("delete", [[3]])])
def test_compressed_row_events_are_what_they_were(version: int, kind: str, images: list[list[int]]) -> None:
    """Only the chosen events are decompressed; the others keep their type."""
    body = rows_body(ITEMS, 8, kind, images, version=version)
    at = 8 + (2 if version == 2 else 0) + 1 + (2 if kind == "update" else 1)
    number = (166 if version == 1 else 169) + ["insert", "update", "delete"].index(kind)
    log = Binlog()
    log.add(number, body[:at] + packed(body[at:]))
    log.add(number, body[:at] + b"not even packed")
    log.commit()
    (part,) = unfolded(run_of(log), np.array([0]))
    assert part.run.headers.kind.tolist() == [ROWS_COMPRESSED[Kind(number)], number, 16]
    assert part.run.body(0) == body


BROKEN = {
    "another algorithm": payload(b"", compression=1),
    "no fields": b"\0",
    "cut off": payload(event(30, b"x" * 90))[:-5],
    "another size": payload(event(30, b"x"), size=7),
    "half an event": payload(event(30, b"x" * 9)[:-3]),
    "an event without a size": payload(bytes(40)),
    "not packed": payload(b"x" * 50, compression=255)[:-1],
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_a_payload_that_is_not_whole_is_refused(body: bytes) -> None:
    """With its position; nothing of it is used."""
    log = Binlog()
    log.add(40, body)
    with pytest.raises(SourceLostError, match=f"bin.000001:{log.position}"):
        opened(run_of(log))


@pytest.mark.parametrize("content", [b"", b"\x01x", b"\x91\x01x", b"\x81\x05" + zlib.compress(b"abc"), b"\x81\x03abc"])
def test_a_compressed_event_that_is_not_whole_is_refused(content: bytes) -> None:
    """Another algorithm, a wrong length, invalid zlib data."""
    log = Binlog()
    log.add(165, struct.pack("<IIBHH", 7, 0, 4, 0, 0) + b"shop\0" + content)
    with pytest.raises(SourceLostError, match="cannot be unpacked"):
        opened(run_of(log))

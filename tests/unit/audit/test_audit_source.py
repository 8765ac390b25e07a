"""The headers of events: positions, and which events the package may see."""

import gc
import subprocess
import sys
import weakref
from types import SimpleNamespace

import pytest
from pymysql.protocol import MysqlPacket
from pymysqlreplication.event import XidEvent
from pymysqlreplication.packet import BinLogPacketWrapper

from engine.audit.audit_source import Frames, without_cycle
from engine.capture.position_order import pack

QUERY, XID, TABLE_MAP, INSERT, PARTIAL, PAYLOAD, COMPRESSED = 2, 16, 19, 30, 39, 40, 169


def event(kind: int, end: int, body: bytes = b"", flags: int = 0) -> bytes:
    """A packet with an event that ends at an offset, as the header says it: in 32 bits."""
    size = 19 + len(body)
    header = b"\0" * 4 + bytes([kind]) + b"\1\0\0\0" + size.to_bytes(4, "little")
    return b"\0" + header + (end & 0xFFFFFFFF).to_bytes(4, "little") + flags.to_bytes(2, "little") + body


def mapped(number: int, table: str, types: bytes) -> bytes:
    """The body of a table map of database d."""
    head = number.to_bytes(6, "little") + b"\1\0"
    return head + b"\1d\0" + bytes([len(table)]) + table.encode() + b"\0" + bytes([len(types)]) + types


def rows(number: int) -> bytes:
    """The body of a row event."""
    return number.to_bytes(6, "little") + b"\1\0\2\0"


@pytest.fixture
def frames() -> Frames:
    """Table t is audited."""
    return Frames({("d", "t")}, {3: "b.000003"}, "b.000003")


def test_positions_beyond_four_gigabytes(frames: Frames) -> None:
    """The header has 32 bits of the offset."""
    for offset in (100, 4_000_000_000, 4_400_000_000, 8_600_000_000):
        frames.admit(event(QUERY, offset))
        assert frames.order == pack(3, offset)
    frames.admit(event(QUERY, 4, flags=0x20))  # artificial
    assert frames.order == pack(3, 8_600_000_000)
    frames.rotated("b.000004")
    frames.admit(event(QUERY, 200))
    assert frames.order == pack(4, 200)


def test_other_tables_are_not_decoded(frames: Frames) -> None:
    """Neither their table maps nor their rows; a number may get another table."""
    assert frames.admit(event(TABLE_MAP, 10, mapped(7, "t", b"\3\xfe")))
    assert frames.admit(event(INSERT, 20, rows(7)))
    assert not frames.admit(event(TABLE_MAP, 30, mapped(8, "other", b"\3")))
    assert not frames.admit(event(INSERT, 40, rows(8)))
    assert not frames.admit(event(TABLE_MAP, 50, mapped(7, "other", b"\3")))
    assert not frames.admit(event(INSERT, 60, rows(7)))
    assert (frames.opaque, frames.anywhere, frames.undecoded) == ({}, {}, {})


def test_what_the_package_cannot_decode_is_noted(frames: Frames) -> None:
    """Compressed and partial events by position, and tables with unknown types."""
    frames.admit(event(TABLE_MAP, 10, mapped(7, "t", b"\3")))
    assert not frames.admit(event(COMPRESSED, 20, rows(7)))
    assert not frames.admit(event(PARTIAL, 30, rows(7)))
    assert not frames.admit(event(COMPRESSED, 40, rows(8)))
    assert not frames.admit(event(PAYLOAD, 50))
    assert frames.opaque == {("d", "t"): {pack(3, 20): "compressed", pack(3, 30): "partial_json"}}
    assert frames.anywhere == {pack(3, 50): "compressed"}
    assert not frames.admit(event(TABLE_MAP, 60, mapped(9, "t", b"\3\xf2")))
    assert "VECTOR" in frames.undecoded["d", "t"]


def test_the_package_writes_no_notices_to_the_terminal() -> None:
    """It advises to change settings of the source that an audit does not need."""
    code = "import logging, engine.audit.audit_source; logging.getLogger('pymysqlreplication').warning('set FULL')"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr == ""


def test_an_event_is_freed_without_the_garbage_collector() -> None:
    """The package's own events, which refer to their packets and back, are not."""

    def decoded() -> XidEvent:
        packet = MysqlPacket(event(XID, 100, b"\1" * 8), "utf8")
        control = SimpleNamespace(charset="utf8", _get_dbms=lambda: "mysql")
        settings = (False, {XidEvent}, None, None, None, None, False, False, False, True, False)
        return BinLogPacketWrapper(packet, {}, control, (8, 4, 0), *settings).event

    gc.disable()
    try:
        cyclic, freed = weakref.ref(decoded()), weakref.ref(without_cycle(decoded()))
        assert cyclic() is not None
        assert freed() is None
    finally:
        gc.enable()

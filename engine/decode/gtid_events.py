"""GTID events that Python decodes one by one: heads of files, and MySQL's tagged GTIDs.

Tagged GTIDs (MySQL 8.3 on) are written with `mysql::serialization`. An integer has variable length: the number of
trailing 1 bits in its first byte is the number of bytes that follow. The value is above these bits and the 0 after
them, little-endian. A message is its version, its size, the id of the last field that must be understood, and then the
fields, each after its id. An array of bytes has one integer per byte. A signed integer has its sign in the lowest bit;
if it is negative, the rest is inverted.
"""

import struct
import uuid
from dataclasses import dataclass

from engine.decode.framing import broken
from engine.decode.gtid import GtidPosition, GtidSet

_TAGGED_FORMAT = 1


@dataclass(frozen=True)
class TaggedGtid:
    """A GTID_TAGGED event: `source` is `uuid:tag:` (`uuid:` without a tag)."""

    source: str
    number: int
    commit_us: int
    """Microseconds since 1970."""


@dataclass(frozen=True)
class GtidList:
    """A MariaDB GTID_LIST event: the GTIDs in the binlog before its file."""

    entries: dict[tuple[int, int], int]
    """The last number of each (domain, server id)."""
    position: GtidPosition
    """The last transaction of each domain, whichever server wrote it."""


def sid_text(low: int, high: int) -> str:
    """A server uuid, from the two little-endian words of its sixteen bytes."""
    return str(uuid.UUID(bytes=struct.pack("<QQ", low, high)))


def read_tagged_gtid(body: bytes) -> TaggedGtid:
    """Decode the body of a GTID_TAGGED event. Raises SourceLostError if it is malformed."""
    try:
        return _tagged_gtid(body)
    except (IndexError, ValueError) as error:
        raise broken("GTID_TAGGED") from error


def read_previous_gtids(body: bytes) -> GtidSet:
    """Decode the body of a PREVIOUS_GTIDS event, without checksum: the GTID set before the file's first transaction.

    Raises SourceLostError if it is malformed.
    """
    try:
        return _previous_gtids(body)
    except (struct.error, IndexError, ValueError) as error:
        raise broken("PREVIOUS_GTIDS") from error


def read_gtid_list(body: bytes) -> GtidList:
    """Decode the body of a GTID_LIST event. Raises SourceLostError if it is malformed."""
    try:
        (count,) = struct.unpack_from("<I", body)
        rows = [struct.unpack_from("<IIQ", body, 4 + 16 * n) for n in range(count & 0x0FFFFFFF)]
    except struct.error as error:
        raise broken("GTID_LIST") from error
    # For each domain, the server writes the newest entry last (MariaDB source, rpl_binlog_state::get_gtid_list).
    position = GtidPosition({domain: (server, number) for domain, server, number in rows})
    return GtidList({(domain, server): number for domain, server, number in rows}, position)


def _previous_gtids(body: bytes) -> GtidSet:
    (count,) = struct.unpack_from("<Q", body)
    tagged = count >> 56 == _TAGGED_FORMAT
    if tagged:  # the lowest byte also contains the format's number
        count = (count >> 8) & 0xFFFFFFFFFFFF
    at, intervals = 8, {}
    for _ in range(count):
        source = str(uuid.UUID(bytes=body[at : at + 16]))
        at += 16
        if tagged:
            tag, at = _string(body, at)
            source += f":{tag}" if tag else ""
        (ranges,) = struct.unpack_from("<Q", body, at)
        bounds = struct.unpack_from(f"<{2 * ranges}q", body, at + 8)
        at += 8 + 16 * ranges
        intervals[source] = tuple((a, b - 1) for a, b in zip(bounds[0::2], bounds[1::2], strict=True))
    return GtidSet(intervals)


def _tagged_gtid(body: bytes) -> TaggedGtid:
    at, field = 0, -1
    for _ in range(3):
        _, at = _integer(body, at)
    sid, tag, number, commit_us = bytearray(), "", 0, 0
    while field < 6:  # flags, uuid, number, tag, last committed, sequence number, commit time; the rest is not needed
        following, at = _integer(body, at)
        if following <= field:
            raise ValueError("the fields are not in order")
        field = following
        if field == 1:
            for _ in range(16):
                byte, at = _integer(body, at)
                sid.append(byte)
        elif field == 3:
            tag, at = _string(body, at)
        else:
            value, at = _integer(body, at)
            number = _signed(value) if field == 2 else number
            commit_us = value if field == 6 else commit_us
    source = f"{uuid.UUID(bytes=bytes(sid))}:"
    if number < 1:
        raise ValueError("not a transaction's number")
    return TaggedGtid(f"{source}{tag}:" if tag else source, number, commit_us)


def _integer(body: bytes, at: int) -> tuple[int, int]:
    """An integer of variable length, and the offset after it."""
    first = body[at]
    more = (~first & (first + 1)).bit_length() - 1  # trailing 1 bits
    end = at + 1 + more
    if end > len(body):
        raise IndexError("the event ends in an integer")
    whole = int.from_bytes(body[at:end], "little")
    return whole >> min(more + 1, 8), end


def _signed(value: int) -> int:
    return ~(value >> 1) if value & 1 else value >> 1


def _string(body: bytes, at: int) -> tuple[str, int]:
    size, at = _integer(body, at)
    if at + size > len(body):
        raise IndexError("the event ends in a text")
    return body[at : at + size].decode(), at + size

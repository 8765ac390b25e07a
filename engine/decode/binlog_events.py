"""Binlog events: decodes headers in bulk, and the bodies of events that are not rows.

A replication stream consists of packets of one zero byte and one event. An event is a header of 19 bytes (timestamp 4,
type 1, server id 4, size 4, end position 4, flags 2), a body and, with `binlog_checksum=CRC32`, four bytes of checksum
("Binlog Event Header", MySQL internals manual). Headers are decoded with numpy. Python only looks at the few events
that have meaning by themselves (table maps, queries, rotations).

`engine.decode.stream` computes the positions of events in their file.
"""

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from engine.base.errors import SourceLostError
from engine.decode.checksums import CHECKSUM
from engine.decode.framing import Bytes, Offsets, broken, words
from engine.decode.tablemap import describe_columns, packed_integer
from engine.decode.types.base import Mapped

HEADER = 19


class Kind(IntEnum):
    """Event types (MySQL `Log_event_type`; from 160 on MariaDB's)."""

    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    APPEND_BLOCK = 9
    DELETE_FILE = 11
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    MARIA_ANNOTATE_ROWS = 160
    MARIA_BINLOG_CHECKPOINT = 161
    MARIA_GTID = 162
    MARIA_GTID_LIST = 163
    MARIA_START_ENCRYPTION = 164
    MARIA_QUERY_COMPRESSED = 165
    MARIA_WRITE_ROWS_COMPRESSED_V1 = 166
    MARIA_UPDATE_ROWS_COMPRESSED_V1 = 167
    MARIA_DELETE_ROWS_COMPRESSED_V1 = 168
    MARIA_WRITE_ROWS_COMPRESSED = 169
    MARIA_UPDATE_ROWS_COMPRESSED = 170
    MARIA_DELETE_ROWS_COMPRESSED = 171


ROWS_V1 = (Kind.WRITE_ROWS_V1, Kind.UPDATE_ROWS_V1, Kind.DELETE_ROWS_V1)
ROWS_V2 = (Kind.WRITE_ROWS, Kind.UPDATE_ROWS, Kind.DELETE_ROWS, Kind.PARTIAL_UPDATE_ROWS)
ROWS_COMPRESSED = {
    Kind(166 + n): kind for n, kind in enumerate((*ROWS_V1, Kind.WRITE_ROWS, Kind.UPDATE_ROWS, Kind.DELETE_ROWS))
}
"""MariaDB's compressed row events, and their types when unpacked."""
UPDATES = (Kind.UPDATE_ROWS_V1, Kind.UPDATE_ROWS, Kind.PARTIAL_UPDATE_ROWS)
DELETES = (Kind.DELETE_ROWS_V1, Kind.DELETE_ROWS)
ROWS = (*ROWS_V1, *ROWS_V2, *ROWS_COMPRESSED)
BEGINS = (Kind.GTID, Kind.ANONYMOUS_GTID, Kind.GTID_TAGGED, Kind.MARIA_GTID)
IGNORABLE_FLAG = 0x80
"""LOG_EVENT_IGNORABLE_F: a reader that does not know the event may skip it."""


def among(kind: npt.NDArray[np.uint8], kinds: tuple[Kind, ...]) -> npt.NDArray[np.bool_]:
    """A mask of the events of these types. Translating bytes is several times as fast as indexing a table with them."""
    return np.frombuffer(bytearray(kind).translate(_table(kinds)), bool)


@lru_cache
def _table(kinds: tuple[Kind, ...]) -> bytes:
    return bytes(kind in kinds for kind in range(256))


_UNDERSTOOD = tuple(frozenset(Kind) - {Kind.INCIDENT})


@dataclass(frozen=True)
class Headers:
    """The headers of consecutive events, one array per field."""

    timestamp: npt.NDArray[np.int64]
    kind: npt.NDArray[np.uint8]
    size: Offsets
    end_position: npt.NDArray[np.int64]
    flags: npt.NDArray[np.int64]
    body: Offsets
    end: Offsets
    """`body` and `end` are offsets in the buffer; `end` is the end of the body, before the checksum."""

    def __len__(self) -> int:
        return len(self.kind)

    def slice(self, begin: int, end: int) -> "Headers":
        """Events `begin` to `end`, exclusive."""
        return Headers(**{field.name: getattr(self, field.name)[begin:end] for field in fields(self)})

    def take(self, chosen: npt.NDArray[np.bool_] | Offsets) -> "Headers":
        """Events by a mask or by index."""
        return Headers(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})

    def moved(self, by: int) -> "Headers":
        """The same events in a buffer in which they lie `by` bytes further."""
        return replace(self, body=self.body + by, end=self.end + by)

    @staticmethod
    def joined(parts: Sequence["Headers"]) -> "Headers":
        """Concatenate events of one buffer."""
        return Headers(
            **{field.name: np.concatenate([getattr(p, field.name) for p in parts]) for field in fields(Headers)}
        )


def sound_sizes(buffer: Bytes, start: Offsets, end: Offsets) -> int:
    """The number of leading events that are long enough for a header and have the size that it states."""
    long = (end - start) >= 1 + HEADER
    size = words(buffer, "<u4")[np.where(long, start, 0) + 10]
    wrong = np.flatnonzero(~long | (size != end - start - 1))
    return int(wrong[0]) if len(wrong) else len(start)


def read_headers(buffer: Bytes, start: Offsets, end: Offsets) -> Headers:
    """Decode the headers of the events in the packet payloads `buffer[start[i]:end[i]]`.

    The result's `end` still includes the checksum. Raises SourceLostError if a payload is too short or the sizes
    disagree.
    """
    if ((end - start) < 1 + HEADER).any():
        raise SourceLostError(
            "The server sent a binlog event that is shorter than its header.", detail="Nothing of it was used."
        )
    loads, at = words(buffer), start + 1
    first, second = loads[at], loads[at + 9]
    size = (second & np.uint64(0xFFFFFFFF)).astype(np.int64)
    if (size != end - at).any():
        raise SourceLostError("A binlog event's size disagrees with its packet.", detail="Nothing of it was used.")
    return Headers(
        timestamp=(first & np.uint64(0xFFFFFFFF)).astype(np.int64),
        kind=buffer[at + 4],
        size=size,
        end_position=(second >> np.uint64(32)).astype(np.int64),
        flags=buffer[at + 17].astype(np.int64),
        body=at + HEADER,
        end=end,
    )


def kind_name(kind: int) -> str:
    """An event type's name, or its number."""
    return Kind(kind).name if kind in Kind._value2member_map_ else f"type {kind}"


def refuse_unknown(headers: Headers) -> Counter[str]:
    """Raises SourceLostError for an event that this version does not decode and that may contain rows.

    Events that the server marks as ignorable are skipped. Returns their counts by type.
    """
    strange = headers.kind[~among(headers.kind, _UNDERSTOOD)]
    passed: Counter[str] = Counter()
    for kind in np.unique(strange).tolist():
        chosen = headers.kind == kind
        if ((headers.flags[chosen] & IGNORABLE_FLAG) == 0).any():
            if kind == Kind.INCIDENT:
                raise SourceLostError(
                    "The binlog contains an INCIDENT: the server reports that changes are missing in it.",
                    detail="A statement was executed but could not be logged, so its changes are unknown. The position "
                    "stays before it, and published data is correct up to there.",
                    hint="The server's error log names the cause, mostly max_binlog_cache_size or "
                    "max_binlog_stmt_cache_size. Fix it, then resnapshot the tables.",
                )
            raise SourceLostError(
                f"The binlog contains an event that this version does not decode: {kind_name(kind)}.",
                detail="It may contain changes of captured tables, so the position stays before it. "
                "Nothing was skipped.",
                hint="Report this with the server's version.",
            )
        passed[kind_name(kind)] += int(chosen.sum())
    return passed


@dataclass(frozen=True)
class TableMap:
    """A TABLE_MAP event: describes the rows that follow."""

    table_id: int
    database: str
    table: str
    columns: tuple[Mapped, ...]
    names: tuple[str, ...] | None
    """The columns' names; None unless `binlog_row_metadata=FULL`."""


METADATA_BYTES = dict.fromkeys((4, 5, 17, 18, 19, 140, 242, 245, 249, 250, 251, 252, 255), 1)
METADATA_BYTES |= dict.fromkeys((15, 16, 141, 246, 247, 248, 253, 254), 2)
"""Bytes of metadata by type code; other types have none."""


def table_id(body: bytes) -> int:
    """The table id at the start of a TABLE_MAP body."""
    return int.from_bytes(body[:6], "little")


def read_table_map(body: bytes, *, mariadb: bool) -> TableMap:
    """Decode the body of a TABLE_MAP event, without checksum. Raises SourceLostError if it is malformed."""
    try:
        return _table_map(body, mariadb=mariadb)
    except (IndexError, UnicodeDecodeError) as error:
        raise broken("TABLE_MAP") from error


@lru_cache(128)  # a busy table has the same one in each of its transactions; one of 2 000 columns takes 0.5 MB
def _table_map(body: bytes, *, mariadb: bool) -> TableMap:
    at = 8
    database, at = _short_string(body, at)
    table, at = _short_string(body, at)
    count, at = packed_integer(body, at)
    codes = body[at : at + count]
    at += count
    size, at = packed_integer(body, at)
    metadata, columns = body[at : at + size], []
    at, used = at + size + (count + 7) // 8, 0
    for code in codes:
        width = METADATA_BYTES.get(code, 0)
        columns.append(Mapped(code, metadata[used : used + width]))
        used += width
    if len(columns) != count or len(metadata) != size or used != size or at > len(body):
        raise broken("TABLE_MAP")
    described, names = describe_columns(columns, body[at:], mariadb=mariadb)
    return TableMap(table_id(body), database, table, described, names)


def _short_string(body: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + body[at]
    return body[at + 1 : end].decode(), end + 1


def read_xa_prepare(body: bytes) -> tuple[tuple[bytes, bytes, int], bool]:
    """Decode the body of an XA_PREPARE event: the xid (gtrid, bqual, format id), and whether it commits in one phase.

    Raises SourceLostError if it is malformed.
    """
    try:
        one_phase, form, gtrid, bqual = struct.unpack_from("<BIII", body)
    except struct.error as error:
        raise broken("XA_PREPARE") from error
    data = body[13:]
    if len(data) < gtrid + bqual:
        raise broken("XA_PREPARE")
    return (data[:gtrid], data[gtrid : gtrid + bqual], form), bool(one_phase)


def read_rotate(body: bytes) -> tuple[str, int]:
    """Decode the body of a ROTATE event: the next file and the position in it.

    Raises SourceLostError if it is malformed.
    """
    file = body[8:].decode("utf-8", "replace")
    if not file.rpartition(".")[2].isdecimal():
        raise broken("ROTATE")
    return file, int.from_bytes(body[:8], "little")


def checksum_bytes(body: bytes) -> int:
    """Bytes of checksum in the events after this FORMAT_DESCRIPTION event; `body` includes its own checksum.

    The algorithm's byte comes before the event's own four bytes of checksum, which are always present.
    """
    return CHECKSUM if body[-CHECKSUM - 1] == 1 else 0

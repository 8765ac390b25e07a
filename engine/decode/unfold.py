"""Replaces events that contain other events, or compressed content, by the plain events that they stand for.

* MySQL's TRANSACTION_PAYLOAD (`binlog_transaction_compression`): fields, each with a number, a length and a value (all
  packed integers; 0 ends them, 1 is the payload's size, 2 its compression, 0 for zstd and 255 for none, 3 its unpacked
  size), then events without checksums ("Transaction_payload_event", MySQL source, libs/mysql/binlog/event/codecs).
* MariaDB's compressed events (`log_bin_compress`): after a statement's database, or a row event's column bitmaps, come
  one byte (0x80, the algorithm in bits 4 to 6, and the number of length bytes), the length, big-endian, and zlib's data
  (`binlog_buf_compress`, MariaDB source, sql/log_event.cc).
* The statement of a LOAD DATA logged as a statement: 13 more bytes before the content of a QUERY event.

Plain events keep the position of the event that contained them. A run that would become larger than `MOST` is split, so
that a payload of a few megabytes that unpacks to many gigabytes needs no more memory than another.

Content that cannot be unpacked is read from the server once more. zlib's data ends with a checksum of its content.
zstd's, as MySQL writes it, has none; instead, the sizes of the frame, of the payload and of its events are compared.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.base.errors import BinlogDamagedError
from engine.decode.binlog_events import HEADER, ROWS_COMPRESSED, ROWS_V2, UPDATES, Headers, Kind
from engine.decode.framing import PADDING, Bytes, Offsets, words
from engine.decode.stream import EventBatch
from engine.decode.tablemap import packed_integer

Reread = Callable[[EventBatch, int], bytes | None]
"""Reads the body of event `n` of a run from the server again; returns None if that is not possible."""
MOST = 16 << 20
"""Bytes that unfolding may add to a run; a single event may be larger."""
STATEMENTS = (Kind.TRANSACTION_PAYLOAD, Kind.MARIA_QUERY_COMPRESSED, Kind.EXECUTE_LOAD_QUERY)
_HINT = (
    "Check the binlog with mysqlbinlog --verify-binlog-checksum; if it is intact, "
    "report this with the server's version."
)
_PIECE = 4 << 20
_QUERY_HEAD, _LOAD_HEAD = 13, 13
_SIZE, _COMPRESSION, _UNPACKED = 1, 2, 3
_ZSTD, _NONE = 0, 255


@dataclass(frozen=True)
class Unfolded:
    """A run of plain events."""

    run: EventBatch
    source: Offsets
    """For each event, its number in the original batch."""


def unfolded(run: EventBatch, chosen: Offsets, most: int = MOST, reread: Reread | None = None) -> Iterator[Unfolded]:
    """Yield the run with its events `chosen` replaced by plain events, as one run or, if that gets large, as several.

    reread: reads an event again that cannot be unpacked. Raises BinlogDamagedError if that does not help.
    """
    if not len(chosen):
        yield Unfolded(run, np.arange(len(run.headers)))
        return
    begin, contents, size = 0, list[tuple[int, Bytes]](), 0
    for n in chosen.tolist():
        for content in _contents(run, n, reread):
            if size and size + len(content) > most:
                yield _merged(run, begin, n, contents)
                begin, contents, size = n, [], 0
            contents.append((n, content))
            size += len(content)
    yield _merged(run, begin, len(run.headers), contents)


def _contents(run: EventBatch, n: int, reread: Reread | None = None) -> Iterator[Bytes]:
    """Yield whole events without checksums in pieces; at least one piece, which may be empty."""
    yielded, body = 0, run.buffer[run.headers.body[n] : run.headers.end[n]]
    while True:
        number = 0
        try:
            for content in _unfolded(run, n, body):
                number += 1
                if number > yielded:  # after a second read, skip the pieces that were yielded before the damage
                    yielded += 1
                    yield content
            return  # noqa: TRY300 - what follows handles damaged content
        except (IndexError, ValueError, OSError, zlib.error) as error:
            other = reread(run, n) if reread else None
            if other is None:
                raise _cannot_be_unpacked(run, n, error) from error
            reread, body = None, np.frombuffer(other, np.uint8)


def _unfolded(run: EventBatch, n: int, body: Bytes) -> Iterator[Bytes]:
    kind = run.headers.kind[n]
    if kind == Kind.TRANSACTION_PAYLOAD:
        yield from _payload(body)
        return
    packed = bytes(body)
    if kind == Kind.EXECUTE_LOAD_QUERY:
        kind, plain = Kind.QUERY, packed[:_QUERY_HEAD] + packed[_QUERY_HEAD + _LOAD_HEAD :]
    elif kind == Kind.MARIA_QUERY_COMPRESSED:
        kind, plain = Kind.QUERY, _unpacked(packed, _statement_at(packed))
    else:
        kind = ROWS_COMPRESSED[Kind(kind)]
        plain = _unpacked(packed, _images_at(packed, kind))
    at = int(run.headers.body[n]) - HEADER
    head = bytearray(run.buffer[at : at + HEADER])
    head[4] = kind
    head[9:13] = (HEADER + len(plain)).to_bytes(4, "little")
    yield np.frombuffer(bytes(head) + plain, np.uint8)


def _cannot_be_unpacked(run: EventBatch, n: int, why: object) -> BinlogDamagedError:
    return BinlogDamagedError(
        f"An event at {run.file}:{run.offset[n]} cannot be unpacked: {why}.",
        detail="It may contain changes of the captured tables; nothing of it was used. Published data is correct up to "
        "the transaction before it.",
        hint=_HINT,
    )


def _payload(event: Bytes) -> Iterator[Bytes]:
    head, fields, at = bytes(event[:64]), dict[int, int](), 0
    while True:
        field, at = packed_integer(head, at)
        if not field:
            break
        length, at = packed_integer(head, at)
        fields[field], _ = packed_integer(head, at)
        at += length
    content, size = event[at:], fields.get(_UNPACKED, len(event) - at)
    if fields.get(_COMPRESSION) not in (_ZSTD, _NONE) or fields.get(_SIZE, len(content)) != len(content):
        raise ValueError(f"its fields are {fields}")
    if fields[_COMPRESSION] == _NONE:
        yield content
    elif size <= _PIECE:
        yield np.frombuffer(pa.decompress(pa.py_buffer(content), size, codec="zstd"), np.uint8)
    else:
        yield from _streamed(content, size)


def _streamed(content: Bytes, size: int) -> Iterator[Bytes]:
    """Yield the events of a large payload in pieces; the rest of a piece goes before the next one."""
    stream, rest, total = pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(content)), "zstd"), b"", 0
    while part := stream.read(_PIECE):
        total += len(part)
        rest += part
        used = _whole(rest)
        if used:
            yield np.frombuffer(rest, np.uint8, used)
            rest = rest[used:]
    if rest or total != size:
        raise ValueError(f"it contains {total} bytes instead of {size}")


def _whole(data: bytes) -> int:
    """The end of the last complete event in `data`; 0 if none is complete."""
    at = 0
    while at + HEADER <= len(data):
        end = at + _event_size(data, at)
        if end > len(data):
            break
        at = end
    return at


def _event_size(data: bytes | memoryview, at: int) -> int:
    size = int.from_bytes(data[at + 9 : at + 13], "little")
    if size < HEADER:
        raise ValueError(f"an event in it has {size} bytes")
    return size


def _starts(content: Bytes) -> Offsets:
    view, at, offsets = memoryview(content.data), 0, []
    while at < len(view):
        offsets.append(at)
        at += _event_size(view, at)
    if at != len(view):
        raise ValueError("its last event is incomplete")
    return np.array(offsets, np.int64)


def _statement_at(body: bytes) -> int:
    """The offset of the statement in a QUERY event."""
    return _QUERY_HEAD + int.from_bytes(body[11:13], "little") + body[8] + 1


def _images_at(body: bytes, kind: int) -> int:
    """The offset of the first image in a row event."""
    at = 8 + (int.from_bytes(body[8:10], "little") if kind in ROWS_V2 else 0)
    count, at = packed_integer(body, at)
    return at + (count + 7) // 8 * (2 if kind in UPDATES else 1)


def _unpacked(body: bytes, at: int) -> bytes:
    first = body[at]
    length = int.from_bytes(body[at + 1 : at + 1 + (first & 7)], "big")
    if not first & 0x80 or first & 0x70:
        raise ValueError(f"it is packed with an unknown method, {first:#x}")
    stream = zlib.decompressobj()
    content = stream.decompress(body[at + 1 + (first & 7) :])
    if not stream.eof or stream.unused_data:
        raise ValueError("it ends too early or too late")
    if len(content) != length:
        raise ValueError(f"it contains {len(content)} bytes instead of {length}")
    return body[:at] + content


def _merged(run: EventBatch, begin: int, stop: int, contents_by_number: list[tuple[int, Bytes]]) -> Unfolded:
    """The events from `begin` to `stop`; the `contents_by_number` ones replace the events that contained them."""
    pieces: list[tuple[int, int]] = []
    at = begin
    for n, _ in contents_by_number:
        if at < n:
            pieces.append((at, n))
        pieces.append((n, -1))
        at = n + 1
    if at < stop:
        pieces.append((at, stop))
    plain = [run.headers.slice(a, b) for a, b in pieces if b >= 0]
    low = min((int(h.body.min()) for h in plain), default=HEADER + 1) - HEADER - 1
    high = max((int(h.end.max()) for h in plain), default=low)
    contents = [content for _, content in contents_by_number]
    buffer = np.concatenate([run.buffer[low:high], *contents, np.zeros(PADDING, np.uint8)])
    headers, sources, base, waiting = [], [], high - low, iter(contents)
    for a, b in pieces:
        if b >= 0:
            headers.append(run.headers.slice(a, b).moved(-low))
            sources.append(np.arange(a, b))
            continue
        content = next(waiting)
        try:
            starts = _starts(content)
        except ValueError as error:
            raise _cannot_be_unpacked(run, a, error) from error
        headers.append(_headers(buffer, starts + base, np.append(starts, len(content))[1:] + base))
        sources.append(np.full(len(starts), a))
        base += len(content)
    source = np.concatenate(sources)
    return Unfolded(EventBatch(buffer, Headers.joined(headers), run.file, run.offset[source]), source)


def _headers(buffer: Bytes, at: Offsets, end: Offsets) -> Headers:
    loads = words(buffer)
    first, second = loads[at], loads[at + 9]
    return Headers(
        timestamp=(first & np.uint64(0xFFFFFFFF)).astype(np.int64),
        kind=buffer[at + 4],
        size=end - at,
        end_position=(second >> np.uint64(32)).astype(np.int64),
        flags=buffer[at + 17].astype(np.int64),
        body=at + HEADER,
        end=end,
    )

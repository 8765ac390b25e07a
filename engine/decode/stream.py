"""The position of a replication stream: file, offset and checksum, updated as blocks of packets pass.

Each event is verified.

The server opens a dump with an artificial ROTATE (the file's name) and the file's FORMAT_DESCRIPTION (the checksum
algorithm). At a file's end, a real ROTATE is followed by an artificial one that names the next file. Artificial events
have end position 0 and do not move the offset. Others state their end position in 32 bits, which overflow in files
larger than 4 GiB. MariaDB does not send all events of a file (annotations), so sizes need not add up to positions, but
events never overlap.

A FORMAT_DESCRIPTION always has a checksum, and says whether later events have one. The first artificial ROTATE comes
before it: one without a correct checksum must name the requested file or, at a file's end, one that can follow it. A
damaged event ends the stream (BinlogDamagedError). The events before it are yielded first, so that the stream's
position is right before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from engine.base.errors import BinlogDamagedError, SourceLostError
from engine.decode.binlog_events import (
    HEADER,
    Headers,
    Kind,
    checksum_bytes,
    read_headers,
    read_rotate,
    sound_sizes,
)
from engine.decode.checksums import CHECKSUM, first_damaged, is_sound, is_sound_description
from engine.decode.framing import Bytes, Offsets

_LOW_BITS = 0xFFFFFFFF


@dataclass(frozen=True)
class EventBatch:
    """Consecutive events of one binlog file."""

    buffer: Bytes
    headers: Headers
    """Headers; their `end` is before the checksum."""
    file: str
    """The name of the file."""
    offset: Offsets
    """For each event, the position after it."""

    def body(self, n: int) -> bytes:
        """The body of event `n`, without checksum."""
        return bytes(self.buffer[self.headers.body[n] : self.headers.end[n]])

    def slice(self, begin: int, end: int) -> "EventBatch":
        """Events `begin` to `end`, exclusive."""
        return replace(self, headers=self.headers.slice(begin, end), offset=self.offset[begin:end])


class StreamPosition:
    """Tracks one dump. `file`, `offset`: the position after the last event."""

    def __init__(self, file: str, offset: int) -> None:
        self.file = file
        self.offset = offset
        self._checksum = CHECKSUM

    def runs(self, buffer: Bytes, start: Offsets, end: Offsets) -> Iterator[EventBatch]:
        """Split the events of a block where the file changes. Packet headers between events are overwritten.

        Raises BinlogDamagedError for a damaged event, SourceLostError if positions do not add up.
        """
        sized = len(start)
        try:
            headers = read_headers(buffer, start, end)
        except SourceLostError:
            sized = sound_sizes(buffer, start, end)
            headers = read_headers(buffer, start[:sized], end[:sized])
        marks = np.flatnonzero((headers.kind == Kind.ROTATE) | (headers.kind == Kind.FORMAT_DESCRIPTION))
        begin = 0
        for mark in [*marks.tolist(), len(headers)]:
            if mark > begin:
                sound = self._sound(buffer, headers, begin, mark)
                if sound > begin:
                    yield self._run(buffer, headers, begin, sound)
                if sound < mark:
                    raise self._damaged("its checksum is wrong")
            if mark < len(headers):
                if not self._opens(buffer, headers, mark):
                    raise self._damaged("its checksum is wrong")
                yield self._run(buffer, headers, mark, mark + 1)
                self._apply_mark(buffer, headers, mark)
            begin = mark + 1
        if sized < len(start):
            raise self._damaged("its size is not that of its packet")

    def _sound(self, buffer: Bytes, headers: Headers, begin: int, end: int) -> int:
        """The number of the first damaged event from `begin` on; `end` if there is none."""
        if not self._checksum:
            return end
        number = first_damaged(buffer, headers.body[begin:end] - HEADER - 1, headers.end[begin:end])
        return end if number is None else begin + number

    def _opens(self, buffer: Bytes, headers: Headers, mark: int) -> bool:
        """Whether a FORMAT_DESCRIPTION or ROTATE is intact."""
        event = buffer[headers.body[mark] - HEADER : headers.end[mark]]
        if headers.kind[mark] == Kind.FORMAT_DESCRIPTION:
            return is_sound_description(event)
        if headers.end_position[mark] == 0:
            return is_sound(event) or _may_follow(self.file, bytes(event[HEADER + 8 :]))
        return not self._checksum or is_sound(event)

    def _damaged(self, fault: str) -> BinlogDamagedError:
        return BinlogDamagedError(
            f"The binlog event at {self.file}:{self.offset} is damaged: {fault}.",
            detail="It was read again from the server and came damaged again. Nothing of it was used. Published data "
            "is correct up to the transaction before it. The event's changes are unknown.",
            hint="Check the file on the source: mysqlbinlog --verify-binlog-checksum, and the disk below it. If a "
            "replica has it intact, point the spec at that server; the run then continues by GTID. Otherwise "
            "resnapshot the tables: tidemark redump SPEC --all",
        )

    def _run(self, buffer: Bytes, headers: Headers, begin: int, end: int) -> EventBatch:
        part = headers.slice(begin, end)
        checksum = CHECKSUM if part.kind[0] == Kind.FORMAT_DESCRIPTION else self._checksum
        real = (part.end_position != 0) & (part.kind != Kind.HEARTBEAT) & (part.kind != Kind.HEARTBEAT_V2)
        stated = np.where(real, part.end_position, 0)
        # Artificial events are where the event before them ended. Where 32 bits overflow, the next 4 GiB begin.
        last_real = np.maximum.accumulate(np.where(real, np.arange(len(stated)), -1))
        low = np.where(last_real < 0, self.offset & _LOW_BITS, stated[last_real])
        wraps = np.cumsum(np.diff(low, prepend=self.offset & _LOW_BITS) < 0)
        offset = (self.offset & ~_LOW_BITS) + low + (wraps << 32)
        gap = offset - part.size - np.concatenate([[self.offset], offset[:-1]])
        # A position that goes back looks like an overflow. But no server leaves out a part that long.
        if (real & ((gap < 0) | (gap > _LOW_BITS >> 1))).any():
            raise SourceLostError(
                f"The positions of the events in {self.file} do not follow one another.",
                detail="No binlog looks like this; nothing of it was used.",
                hint="Report this with the server's version.",
            )
        self.offset = int(offset[-1])
        part = replace(part, end=part.end - checksum)
        if (part.end < part.body).any():
            raise SourceLostError(
                f"An event in {self.file} is shorter than its header and checksum.", detail="Nothing of it was used."
            )
        return EventBatch(buffer, part, self.file, offset)

    def _apply_mark(self, buffer: Bytes, headers: Headers, mark: int) -> None:
        event = bytes(buffer[headers.body[mark] - HEADER : headers.end[mark]])
        if headers.kind[mark] == Kind.FORMAT_DESCRIPTION:
            self._checksum = checksum_bytes(event[HEADER:])
        elif headers.end_position[mark] == 0:
            # The first one comes before the format description, so its own bytes must show whether it has a checksum.
            checksum = CHECKSUM if is_sound(np.frombuffer(event, np.uint8)) else 0
            self.file, self.offset = read_rotate(event[HEADER : len(event) - checksum])


def _may_follow(file: str, following: bytes) -> bool:
    """Whether a name is the file's own, or can be that of the next file. With four additional bytes it is neither."""
    base, _, number = file.rpartition(".")
    following_base, _, following_number = following.decode("utf-8", "replace").rpartition(".")
    longer = len(following_number) - len(number)
    return base == following_base and following_number.isdecimal() and longer in (0, 1)

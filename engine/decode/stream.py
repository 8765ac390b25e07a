"""Where a replication stream stands: file, offset and checksum, kept while blocks of packets pass; each event is verified.

The server opens a dump with an artificial ROTATE (which file this is) and the file's FORMAT_DESCRIPTION (which
checksum); at a file's end a real ROTATE is followed by an artificial one that names the next file. Artificial events
have end position 0 and do not move the offset. Others state their end position in 32 bits, which run over in files of
more than 4 GiB; MariaDB does not send all events of a file (annotations), so sizes need not add up to positions, but
they never overlap.

A FORMAT_DESCRIPTION always has a checksum, and says whether the events behind it have one. The first artificial ROTATE comes before
it: one without a right checksum must name the file that was asked for, or, at a file's end, one that can follow it. A damaged
event ends the stream (BinlogDamagedError); those in front of it are handed out first, so that the stream stands right before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

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
from engine.errors import BinlogDamagedError, SourceLostError

_LOW_BITS = 0xFFFFFFFF


@dataclass(frozen=True)
class EventBatch:
    """Consecutive events of one binlog file."""

    buffer: Bytes
    headers: Headers
    """Headers; their `end` is in front of the checksum."""
    file: str
    """The name of the file."""
    offset: Offsets
    """For each event, the position behind it."""

    def body(self, n: int) -> bytes:
        """The body of event `n`, without checksum."""
        return bytes(self.buffer[self.headers.body[n] : self.headers.end[n]])

    def slice(self, begin: int, end: int) -> "EventBatch":
        """Events `begin` to `end`, the latter not included."""
        return replace(self, headers=self.headers.slice(begin, end), offset=self.offset[begin:end])


class StreamPosition:
    """Follows one dump. `file`, `offset`: the position behind the last event that was seen."""

    def __init__(self, file: str, offset: int) -> None:
        self.file, self.offset = file, offset
        self._checksum = CHECKSUM

    def runs(self, buffer: Bytes, start: Offsets, end: Offsets) -> Iterator[EventBatch]:
        """Split the events of a block where the file changes; packet headers between events are overwritten.

        Raises BinlogDamagedError for an event that is not what the server wrote, SourceLostError when positions do not add up.
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
                self._follow(buffer, headers, mark)
            begin = mark + 1
        if sized < len(start):
            raise self._damaged("its size is not that of its packet")

    def _sound(self, buffer: Bytes, headers: Headers, begin: int, end: int) -> int:
        """The number of the first event from `begin` on that is damaged; `end` when none is."""
        if not self._checksum:
            return end
        found = first_damaged(buffer, headers.body[begin:end] - HEADER - 1, headers.end[begin:end])
        return end if found is None else begin + found

    def _opens(self, buffer: Bytes, headers: Headers, mark: int) -> bool:
        """Whether a FORMAT_DESCRIPTION or ROTATE is what the server wrote."""
        event = buffer[headers.body[mark] - HEADER : headers.end[mark]]
        if headers.kind[mark] == Kind.FORMAT_DESCRIPTION:
            return is_sound_description(event)
        if headers.end_position[mark] == 0:
            return is_sound(event) or _follows(self.file, bytes(event[HEADER + 8 :]))
        return not self._checksum or is_sound(event)

    def _damaged(self, seen: str) -> BinlogDamagedError:
        return BinlogDamagedError(
            f"The binlog event at {self.file}:{self.offset} is damaged: {seen}.",
            detail="It was read again from the server and came damaged again. Nothing of it was used; what is published is right "
            "up to the transaction in front of it. What it changed cannot be known.",
            hint="Check the file on the source: mysqlbinlog --verify-binlog-checksum, and the disk below it. If a replica has it "
            "whole, point the spec at that server and the run follows it by GTID. Otherwise resnapshot the tables: "
            "tidemark redump SPEC --all",
        )

    def _run(self, buffer: Bytes, headers: Headers, begin: int, end: int) -> EventBatch:
        part = headers.slice(begin, end)
        checksum = CHECKSUM if part.kind[0] == Kind.FORMAT_DESCRIPTION else self._checksum
        real = (part.end_position != 0) & (part.kind != Kind.HEARTBEAT) & (part.kind != Kind.HEARTBEAT_V2)
        stated = np.where(real, part.end_position, 0)
        # Artificial events stand where the event before them ended; where 32 bits run over, the next 4 GiB begin.
        held = np.maximum.accumulate(np.where(real, np.arange(len(stated)), -1))
        low = np.where(held < 0, self.offset & _LOW_BITS, stated[held])
        wraps = np.cumsum(np.diff(low, prepend=self.offset & _LOW_BITS) < 0)
        offset = (self.offset & ~_LOW_BITS) + low + (wraps << 32)
        gap = offset - part.size - np.concatenate([[self.offset], offset[:-1]])
        # A position that goes back looks like one that ran over: nothing that a server leaves out is that long.
        if (real & ((gap < 0) | (gap > _LOW_BITS >> 1))).any():
            raise SourceLostError(
                f"The positions of the events in {self.file} do not follow one another.",
                detail="The stream is not what a binlog can be; nothing of it was used.",
                hint="Report this with the server's version.",
            )
        self.offset = int(offset[-1])
        part = replace(part, end=part.end - checksum)
        if (part.end < part.body).any():
            raise SourceLostError(
                f"An event in {self.file} is shorter than its header and checksum.", detail="Nothing of it was used."
            )
        return EventBatch(buffer, part, self.file, offset)

    def _follow(self, buffer: Bytes, headers: Headers, mark: int) -> None:
        event = bytes(buffer[headers.body[mark] - HEADER : headers.end[mark]])
        if headers.kind[mark] == Kind.FORMAT_DESCRIPTION:
            self._checksum = checksum_bytes(event[HEADER:])
        elif headers.end_position[mark] == 0:
            # The first one comes before the format description, so its own bytes must tell whether it has a checksum.
            checksum = CHECKSUM if is_sound(np.frombuffer(event, np.uint8)) else 0
            self.file, self.offset = read_rotate(event[HEADER : len(event) - checksum])


def _follows(file: str, following: bytes) -> bool:
    """Whether a name is the file's own or can be that of the file behind it; with four bytes more behind it, it is neither."""
    base, _, number = file.rpartition(".")
    following_base, _, following_number = following.decode("utf-8", "replace").rpartition(".")
    longer = len(following_number) - len(number)
    return base == following_base and following_number.isdecimal() and longer in (0, 1)

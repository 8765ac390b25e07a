"""Where a replication stream stands: file, offset and checksum, kept while blocks of packets pass.

The server opens a dump with an artificial ROTATE (which file this is) and the file's FORMAT_DESCRIPTION (which
checksum); at a file's end a real ROTATE is followed by an artificial one that names the next file. Artificial events
have end position 0 and do not move the offset. Others state their end position in 32 bits, which run over in files of
more than 4 GiB; MariaDB does not send all events of a file (annotations), so sizes need not add up to positions, but
they never overlap.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from engine.decode.events import (
    CHECKSUM,
    HEADER,
    Headers,
    Kind,
    checksum_bytes,
    read_headers,
    read_rotate,
)
from engine.decode.framing import Bytes, Offsets
from engine.errors import SourceLostError

_LOW_BITS = 0xFFFFFFFF


@dataclass(frozen=True)
class Run:
    """Consecutive events of one binlog file.

    headers: their `end` is without checksum. file: its name. offset: for each event the position behind it.
    """

    buffer: Bytes
    headers: Headers
    file: str
    offset: Offsets

    def body(self, n: int) -> bytes:
        """The body of event `n`, without checksum."""
        return bytes(self.buffer[self.headers.body[n] : self.headers.end[n]])

    def slice(self, begin: int, end: int) -> "Run":
        """Events `begin` to `end`, the latter not included."""
        return replace(self, headers=self.headers.slice(begin, end), offset=self.offset[begin:end])


class StreamPosition:
    """Follows one dump. `file`, `offset`: the position behind the last event that was seen."""

    def __init__(self, file: str, offset: int) -> None:
        self.file, self.offset = file, offset
        self._checksum = CHECKSUM

    def runs(self, buffer: Bytes, start: Offsets, end: Offsets) -> Iterator[Run]:
        """Split the events of a block where the file changes. Raises SourceLostError when positions do not add up."""
        headers = read_headers(buffer, start, end)
        marks = np.flatnonzero((headers.kind == Kind.ROTATE) | (headers.kind == Kind.FORMAT_DESCRIPTION))
        begin = 0
        for mark in [*marks.tolist(), len(headers)]:
            if mark > begin:
                yield self._run(buffer, headers, begin, mark)
            if mark < len(headers):
                yield self._run(buffer, headers, mark, mark + 1)
                self._follow(buffer, headers, mark)
            begin = mark + 1

    def _run(self, buffer: Bytes, headers: Headers, begin: int, end: int) -> Run:
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
        return Run(buffer, part, self.file, offset)

    def _follow(self, buffer: Bytes, headers: Headers, mark: int) -> None:
        event = bytes(buffer[headers.body[mark] - HEADER : headers.end[mark]])
        if headers.kind[mark] == Kind.FORMAT_DESCRIPTION:
            self._checksum = checksum_bytes(event[HEADER:])
        elif headers.end_position[mark] == 0:
            # The first one comes before the format description, so its own bytes must tell whether it has a checksum.
            checksum = CHECKSUM if zlib.crc32(event[:-CHECKSUM]) == int.from_bytes(event[-CHECKSUM:], "little") else 0
            self.file, self.offset = read_rotate(event[HEADER : len(event) - checksum])

"""Packet streams from a connection: the common part of a prepared SELECT and a binlog dump.

PyMySQL logs in, encrypts and sends commands. Then we read the socket into one large buffer and yield blocks of complete
packets. A packet that starts with 0x00 is a row or an event; 0xFE ends the stream; 0xFF is an error.

A trap: `readinto1` of PyMySQL's buffered reader blocks forever if everything still to come is already in its buffer. So
we first take what is buffered with `read1`, and then read the socket itself.
"""

import struct
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np
import pymysql

from engine.base.errors import SourceAwayError
from engine.decode.framing import HEADER, MAX_PAYLOAD, PADDING, Bytes, Offsets, grown, packet_starts
from engine.source.connect import Connection, explain

BUFFER = 4 << 20
_READ = 64 << 10
_STATEMENT_PREPARE, _STATEMENT_EXECUTE, _STATEMENT_CLOSE = 0x16, 0x17, 0x19
_END, _ERROR = 0xFE, 0xFF
_END_SIZE = 9
"""An end packet is shorter than this. A longer packet that starts with 0xFE is not an end."""


@dataclass(frozen=True)
class Block:
    """Packets in one buffer: payload `i` is `buffer[start[i]:end[i]]`. Valid until the next block is requested."""

    buffer: Bytes
    start: Offsets
    end: Offsets


class PacketReader:
    """Reads the packets of one response, after PyMySQL has sent the command and read the head of the response.

    Raises SourceAwayError if the connection breaks, and the server's own error if it sends one.
    """

    def __init__(self, connection: Connection, doing: str, size: int = BUFFER) -> None:
        """size: bytes of the buffer, at least 64 KiB; blocks are about as large."""
        self._doing = doing
        self._connection = connection
        self._socket = connection._sock  # noqa: SLF001 - we must read the socket ourselves
        try:
            # This does not block: at least the end packet is still to come.
            carry = connection._rfile.read1(_READ)  # noqa: SLF001
        except OSError as error:
            raise self._broken(error) from error
        self._buffer = np.empty(size + PADDING, dtype=np.uint8)
        self._filled = len(carry)
        self._buffer[: len(carry)] = np.frombuffer(carry, dtype=np.uint8)

    def blocks(self) -> Iterator[Block]:
        """Yield all packets up to the end of the response, in order."""
        first_pass = True
        while True:
            if not first_pass or not self._may_be_over():
                self._fill()
            first_pass = False
            starts, used = packet_starts(self._buffer, self._filled)
            if not len(starts):
                continue
            start, end = starts + HEADER, np.append(starts[1:], used)
            final = self._final(start, end)
            count = len(start) - (final is not None)
            used = yield from self._blocks_of(start[:count], end[:count], used)
            if final is not None:
                self._raise_error(final)
                return
            rest = self._filled - used
            self._buffer[:rest] = self._buffer[used : self._filled].copy()
            self._filled = rest

    def _fill(self) -> None:
        """Receive until the buffer is full or the stream may have ended; at least once."""
        if self._filled > (len(self._buffer) - PADDING) // 2:
            self._buffer = grown(self._buffer, self._filled)
        limit = len(self._buffer) - PADDING
        view = memoryview(self._buffer.data)
        while True:
            try:
                got = self._socket.recv_into(view[self._filled : limit])
            except OSError as error:
                raise self._broken(error) from error
            if not got:
                raise SourceAwayError(
                    f"{self._doing} broke off: the server closed the connection.", detail="Nothing of it was published."
                )
            self._filled += got
            if self._filled + _READ > limit or self._may_be_over():
                return

    def _broken(self, error: OSError) -> SourceAwayError:
        detail = "Nothing of it was published."
        if not isinstance(error, TimeoutError):
            return SourceAwayError(f"{self._doing} broke off: {error}.", detail=detail)
        return SourceAwayError(
            f"{self._doing} broke off: the server was silent for {self._socket.gettimeout():g} s.",
            detail=detail,
            hint="The connection is dead or the server hangs. Tidemark retries. "
            "A slower server needs a larger source.silence_s.",
        )

    def _may_be_over(self) -> bool:
        """Whether the buffer ends like an end packet. A row may look the same; then reading just continues later."""
        n, b = self._filled, self._buffer
        return n >= HEADER and (
            (n > 8 and b[n - 5] == _END and b[n - 9] == 5 and not b[n - 8] and not b[n - 7]) or self._error_at_end()
        )

    def _error_at_end(self) -> bool:
        n = self._filled
        tail = bytes(self._buffer[max(0, n - 1024) : n])
        at = tail.rfind(b"\xff")
        while at >= HEADER:
            if int.from_bytes(tail[at - HEADER : at - 1], "little") == len(tail) - at:
                return True
            at = tail.rfind(b"\xff", 0, at)
        return False

    def _final(self, start: Offsets, end: Offsets) -> bytes | None:
        """The payload of the last packet if it ends the stream, else None."""
        first, size = self._buffer[start[-1]], end[-1] - start[-1]
        continued = len(start) > 1 and end[-2] - start[-2] == MAX_PAYLOAD
        if continued or not (first == _ERROR or (first == _END and size < _END_SIZE)):
            return None
        return bytes(self._buffer[start[-1] : end[-1]])

    def _blocks_of(self, start: Offsets, end: Offsets, used: int) -> Generator[Block, None, int]:
        """Yield the packets, with those of 16 MiB and more reassembled. Returns the number of buffer bytes consumed."""
        large = np.flatnonzero(end - start == MAX_PAYLOAD)
        begin = 0
        while len(large):
            first = int(large[0])
            last = first
            while last < len(start) and end[last] - start[last] == MAX_PAYLOAD:
                last += 1
            if first > begin:
                yield Block(self._buffer, start[begin:first], end[begin:first])
            if last == len(start):
                return int(start[first]) - HEADER
            yield self._joined(start[first : last + 1], end[first : last + 1])
            begin, large = last + 1, large[large > last]
        if begin < len(start):
            yield Block(self._buffer, start[begin:], end[begin:])
        return used

    def _joined(self, start: Offsets, end: Offsets) -> Block:
        parts = [self._buffer[a:b] for a, b in zip(start.tolist(), end.tolist(), strict=True)]
        whole = np.concatenate([*parts, np.zeros(PADDING, np.uint8)])
        return Block(whole, np.array([0]), np.array([len(whole) - PADDING]))

    def _raise_error(self, final: bytes) -> None:
        if final[0] == _ERROR:
            try:
                pymysql.err.raise_mysql_exception(final)
            except pymysql.Error as error:
                raise explain(error, self._doing) from error


@dataclass(frozen=True)
class Statement:
    """A prepared SELECT."""

    connection: Connection
    number: int

    def execute(self, doing: str, size: int = BUFFER) -> tuple[list[int], PacketReader]:
        """Run the statement.

        Returns the columns' protocol type codes and a reader of the rows, with a buffer of `size` bytes.
        """
        try:
            self.connection._execute_command(_STATEMENT_EXECUTE, struct.pack("<IBI", self.number, 0, 1))  # noqa: SLF001
            count = self.connection._read_packet().read_length_encoded_integer()  # noqa: SLF001
            types = [
                self.connection._read_packet(pymysql.protocol.FieldDescriptorPacket).type_code  # noqa: SLF001
                for _ in range(count)
            ]
            self.connection._read_packet()  # noqa: SLF001 - the end of the column definitions
        except pymysql.Error as error:
            raise explain(error, doing) from error
        return types, PacketReader(self.connection, doing, size)

    def close(self) -> None:
        """Close the statement; the server sends no answer."""
        self.connection._execute_command(_STATEMENT_CLOSE, struct.pack("<I", self.number))  # noqa: SLF001


def prepare(connection: Connection, sql: str, doing: str) -> Statement:
    """Prepare a SELECT without parameters. Raises the server's error."""
    try:
        connection._execute_command(_STATEMENT_PREPARE, sql)  # noqa: SLF001
        answer = connection._read_packet().get_all_data()  # noqa: SLF001
        number, columns, parameters = struct.unpack("<IHH", answer[1:9])
        for _ in range(columns + 1 + (parameters + 1 if parameters else 0)):
            connection._read_packet()  # noqa: SLF001
    except pymysql.Error as error:
        raise explain(error, doing) from error
    return Statement(connection, number)

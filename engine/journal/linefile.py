"""A file to which lines are appended, each whole or not at all. A full disk costs neither lines nor callers.

A line that cannot be written now is kept in memory and written in order when there is room. Beyond `MOST_LINES` or
`MOST_BYTES` the oldest are dropped and counted. Half a line is removed again (`ftruncate`, which needs no room). If
that fails, or if an earlier process left half a line, the next line starts on a new line. Readers skip the torn one.
"""

import os
from collections import deque
from contextlib import suppress
from pathlib import Path

from engine.base.durable import naming
from engine.base.errors import is_disk_full

MOST_LINES, MOST_BYTES = 20_000, 16 << 20
"""The most that is kept in memory."""


class LineFile:
    """One file. It is created at once, or, if the disk is full, with the first line that finds room.

    Not thread-safe. Raises OSError if the file cannot be opened for another reason.

    error: why lines are being kept in memory; None if all are written.
    dropped: lines lost since the last call of `take_dropped`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.error: OSError | None = None
        self.dropped = 0
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._descriptor: int | None = None
        self._torn = False
        try:
            self._open()
        except OSError as error:
            if not is_disk_full(error):
                raise

    def append(self, line: str) -> None:
        """Append a line (without its newline). Never raises OSError."""
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        self.flush()
        while self._waiting and (len(self._waiting) > MOST_LINES or self._waiting_bytes > MOST_BYTES):
            self._waiting_bytes -= len(self._waiting.popleft())
            self.dropped += 1

    def flush(self) -> bool:
        """Write the lines kept in memory. Returns whether all of them are written."""
        try:
            with naming(self.path):
                while self._waiting:
                    self._write(self._waiting[0])
                    self._waiting_bytes -= len(self._waiting.popleft())
        except OSError as error:
            self.error = error
            return False
        self.error = None
        return True

    @property
    def waiting(self) -> int:
        """The number of lines kept in memory."""
        return len(self._waiting)

    def take_dropped(self) -> int:
        """The number of lines dropped since the last call."""
        dropped, self.dropped = self.dropped, 0
        return dropped

    def close(self) -> int:
        """Write the lines kept in memory and close the file. Returns the number of lines lost."""
        self.flush()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        return len(self._waiting) + self.dropped

    def _write(self, data: bytes) -> None:
        descriptor = self._open()
        size = os.fstat(descriptor).st_size
        unwritten = memoryview(b"\n" + data if self._torn else data)
        try:
            while unwritten:
                unwritten = unwritten[os.write(descriptor, unwritten) :]
        except OSError:
            if os.fstat(descriptor).st_size != size:
                self._torn = True
                with suppress(OSError):
                    os.ftruncate(descriptor, size)
                    self._torn = self._ends_within_line(descriptor)
            raise
        self._torn = False

    def _open(self) -> int:
        if self._descriptor is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            self._torn = self._ends_within_line(self._descriptor)
        return self._descriptor

    @staticmethod
    def _ends_within_line(descriptor: int) -> bool:
        size = os.fstat(descriptor).st_size
        return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"

"""Whether a position of MariaDB's last commit proves anything (`source.watermarks`, class snapshot). For one reader.

It does once its file is settled: before the position, the file has a BINLOG_CHECKPOINT event that names it.
"""

from collections.abc import Iterator
from contextlib import closing

import numpy as np

from engine.capture.binlog.binlog_access import runs_from
from engine.decode.binlog_events import Kind
from engine.decode.stream import EventBatch
from engine.source.connect import Endpoint
from engine.source.positions import FIRST_OFFSET, Position

_MOST_BYTES = 16 << 20
"""Bytes of a file that one question reads at most. The event comes a second after the file's beginning."""
_LENGTH = 4


class CommitVisibility:
    """Reads the head of each binlog file once, as far as its event."""

    def __init__(self, endpoint: Endpoint, first_server_id: int) -> None:
        self._endpoint = endpoint
        self._first_server_id = first_server_id
        self._read_to = Position("", 0)
        """In the newest file that was asked about; the event is not before it."""
        self._settled_at: int | None = None
        """Where the event of that file ends."""

    def is_settled(self, position: Position) -> bool:
        """Whether the position comes after the event of its file."""
        if position.file != self._read_to.file:
            self._read_to = Position(position.file, FIRST_OFFSET)
            self._settled_at = None
        if self._settled_at is None and position.offset > self._read_to.offset:
            self._read_on(min(position.offset, self._read_to.offset + _MOST_BYTES))
        return self._settled_at is not None and position.offset > self._settled_at

    def _read_on(self, end: int) -> None:
        with closing(runs_from(self._endpoint, self._read_to, self._first_server_id)) as runs:
            for run in runs:
                if run.file != self._read_to.file:
                    return
                self._settled_at = next(_checkpoints(run), None)
                if self._settled_at is not None:
                    return
                self._read_to = Position(run.file, max(int(run.offset[-1]), self._read_to.offset))
                if self._read_to.offset >= end:
                    return


def _checkpoints(run: EventBatch) -> Iterator[int]:
    """Where events end that name the run's own file."""
    for n in np.flatnonzero(run.headers.kind == Kind.MARIA_BINLOG_CHECKPOINT).tolist():
        body = run.body(n)
        name = body[_LENGTH : _LENGTH + int.from_bytes(body[:_LENGTH], "little")]
        if name.decode("utf-8", "replace") == run.file:
            yield int(run.offset[n])

"""Since when a binlog file of MariaDB proves what is committed (`source.watermarks`, class snapshot). For one reader.

It does from its BINLOG_CHECKPOINT event on that names the file itself.
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
        self._settled_at: Position | None = None
        """Where the event of that file ends."""

    def settled_at(self, end: Position) -> Position | None:
        """Where the event of `end`'s file ends; None if it is not at or before `end`."""
        if end.file != self._read_to.file:
            self._read_to = Position(end.file, FIRST_OFFSET)
            self._settled_at = None
        if self._settled_at is None and end.offset > self._read_to.offset:
            self._read_on(min(end.offset, self._read_to.offset + _MOST_BYTES))
        return None if self._settled_at is None or self._settled_at.order > end.order else self._settled_at

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


def _checkpoints(run: EventBatch) -> Iterator[Position]:
    """Where events end that name the run's own file."""
    for n in np.flatnonzero(run.headers.kind == Kind.MARIA_BINLOG_CHECKPOINT).tolist():
        body = run.body(n)
        name = body[_LENGTH : _LENGTH + int.from_bytes(body[:_LENGTH], "little")]
        if name.decode("utf-8", "replace") == run.file:
            yield Position(run.file, int(run.offset[n]))

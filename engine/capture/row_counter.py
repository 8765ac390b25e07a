"""The rows that a reader has read of its current chunk, in a small file that the runner looks at once per second.

A chunk is reported only when it is finished, which takes long if it is large or throttled. The file is in the
destination, the one folder that the runner shares with all workers. It is only for display: nothing depends on it, and
errors are ignored.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.base import clock

_INTERVAL_S = 1.0


@dataclass(frozen=True)
class RowsRead:
    """What a reader has read so far."""

    table: str
    chunk: int
    rows: int


class RowCounter:
    """Counts the rows of one chunk.

    The file is written at most once per second, and not for a chunk that takes less.
    """

    def __init__(
        self, path: Path | None, table: str = "", chunk: int = 0, now_s: Callable[[], float] = clock.monotonic_s
    ) -> None:
        """path: None to write no file."""
        self._path = path
        self._table = table
        self._chunk = chunk
        self._now_s = now_s
        self._rows = 0
        self._written_s = now_s()

    def add(self, rows: int) -> None:
        """Count some rows."""
        self._rows += rows
        if self._path is None or self._now_s() - self._written_s < _INTERVAL_S:
            return
        temporary = self._path.with_suffix(".new")
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(asdict(RowsRead(self._table, self._chunk, self._rows))), encoding="utf-8")
            temporary.replace(self._path)
        self._written_s = self._now_s()


def rows_read(path: Path) -> RowsRead | None:
    """What a reader has read so far; None if it has shown nothing."""
    try:
        return RowsRead(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None

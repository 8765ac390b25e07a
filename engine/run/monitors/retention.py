"""Forecasts when the source purges the committed position. Pure.

A server purges a binlog file when a newer one begins and the file is due: a number of seconds after it was closed,
which is when the next file began, or when all files together exceed a size (MariaDB 11.4 on). The result is the
earliest such time. MariaDB keeps files longer while fewer replicas than `slave_connections_needed_for_purge` are
connected, and both servers keep a file that is being dumped; the forecast does not count on that.
"""

from collections import deque

from engine.source.positions import Position, Retention, bytes_between, file_number

WINDOW_S = 600.0
_MIN_SPAN_S = 10.0


class Growth:
    """The growth rate of the binlog over the last minutes."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()
        self._end: Position | None = None
        self._total = 0

    def observe(self, now_s: float, end: Position, files: dict[str, int]) -> float | None:
        """Add an observation. Returns bytes per second; None until the rate is known."""
        if self._end is not None and end.order < self._end.order:  # another server: start over
            self._samples.clear()
        elif self._end is not None:
            self._total += bytes_between(files, self._end, end)
        self._end = end
        self._samples.append((now_s, self._total))
        while self._samples[-1][0] - self._samples[0][0] > WINDOW_S:
            self._samples.popleft()
        (first_s, first), (last_s, last) = self._samples[0], self._samples[-1]
        return (last - first) / (last_s - first_s) if last_s - first_s >= _MIN_SPAN_S else None


def following(position: Position, files: dict[str, int]) -> str | None:
    """The file after the position's file; None if the server still writes the latter."""
    return next((name for name in files if file_number(name) > file_number(position.file)), None)


def retention_left_s(
    position: Position,
    files: dict[str, int],
    now_s: float,
    retention: Retention,
    closed_s: float | None,
    bytes_per_s: float | None,
) -> float | None:
    """Seconds until the source may purge the position's file.

    0 if it is due or gone; None if that never happens by itself.

    files: sizes by name, oldest first. now_s, closed_s: by the server's clock. closed_s: when the file was closed; None
    for the current file.
    """
    if position.file not in files:
        return 0.0
    due: list[float] = []
    if retention.seconds is not None:
        due.append((now_s if closed_s is None else closed_s) + retention.seconds - now_s)
    if retention.total_bytes is not None and bytes_per_s:
        from_here = sum(size for name, size in files.items() if file_number(name) >= file_number(position.file))
        due.append((retention.total_bytes - from_here) / bytes_per_s)
    return max(min(due), 0.0) if due else None

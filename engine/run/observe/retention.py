"""How long the source will keep the committed position: the purge forecast. Pure.

Servers purge a binlog file when a newer one is begun and the file is due: so many seconds after it was closed (which is when the
file after it was begun), or when all files together exceed a size (MariaDB 11.4 on). The result is the earliest such time.
MariaDB keeps files longer while fewer replicas than `slave_connections_needed_for_purge` are connected, and both keep a file that
is being dumped; nothing is counted on that.
"""

from collections import deque

from engine.source.positions import Position, Retention, bytes_between, file_number

WINDOW_S = 600.0
_LEAST_S = 10.0


class Growth:
    """How fast the binlog grows, over the last minutes."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._end: Position | None = None
        self._total = 0

    def see(self, now_s: float, end: Position, files: dict[str, int]) -> float | None:
        """Bytes a second, with what is seen now; None before that is known."""
        if self._end is not None and end.order < self._end.order:  # another server: start over
            self._seen.clear()
        elif self._end is not None:
            self._total += bytes_between(files, self._end, end)
        self._end = end
        self._seen.append((now_s, self._total))
        while self._seen[-1][0] - self._seen[0][0] > WINDOW_S:
            self._seen.popleft()
        (first_s, first), (last_s, last) = self._seen[0], self._seen[-1]
        return (last - first) / (last_s - first_s) if last_s - first_s >= _LEAST_S else None


def following(position: Position, files: dict[str, int]) -> str | None:
    """The file after the position's own; None when that is still written."""
    return next((name for name in files if file_number(name) > file_number(position.file)), None)


def runway_s(
    position: Position,
    files: dict[str, int],
    now_s: float,
    retention: Retention,
    closed_s: float | None,
    bytes_per_s: float | None,
) -> float | None:
    """Seconds until the position's file may be purged, 0 when it is due or gone; None when it never will be by itself.

    files: with their sizes, oldest first. now_s, closed_s: by the server's clock; the latter when the file was closed, None for the
    one that is written.
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

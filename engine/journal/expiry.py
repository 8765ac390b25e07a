"""Compresses the closed parts of journals and deletes old ones.

Parts with lines of the last day stay as they are, and so do the newest two of the current run: status, alerts and
operators read them. A part counts as old by its last line. The first part of a run stays while the run has younger
parts: it says what was started.
"""

import gzip
import os
import shutil
from contextlib import suppress
from pathlib import Path

from engine.base import clock
from engine.base.durable import sync_folder
from engine.journal.parts import Part, compressed, parts_in, plain

_WORTH_BYTES, _RECENT_S = 64 << 10, 86_400.0
_KEPT_PLAIN = 2
_EXPIRE_S = 3600.0


class HourlyExpiry:
    """Expires the journals of a folder once an hour. run: the current run. retention_s: None: delete none."""

    def __init__(self, folder: Path, run: str, retention_s: float | None) -> None:
        self._folder = folder
        self._run = run
        self._retention_s = retention_s
        self._due_s = 0.0

    def step(self) -> None:
        """Do it if an hour is over, and again at the next call while there is a part to compress. Raises OSError."""
        if clock.monotonic_s() < self._due_s:
            return
        self._due_s = clock.monotonic_s() + _EXPIRE_S
        if expire_and_compress(self._folder, self._run, self._retention_s):
            self._due_s = 0.0


def expire_and_compress(folder: Path, run: str, retention_s: float | None) -> bool:
    """Delete parts that are older than `retention_s` (None: none), and compress at most one.

    Returns whether it compressed one.

    run: the current run. Only its runner may call this. Raises OSError.
    """
    parts = parts_in(folder)
    if retention_s is not None:
        parts = _delete(parts, run, clock.unix_s() - retention_s)
    by_run: dict[str, list[Part]] = {}
    for part in parts:
        by_run.setdefault(part.run, []).append(part)
    for name, its in by_run.items():
        for part in its[:-_KEPT_PLAIN] if name == run else its:
            if not part.compressed and _is_worth_it(part.path.stat()):
                _compress(part.path)
                return True
            if part.compressed:
                plain(part.path).unlink(missing_ok=True)  # a crash has left both
    return False


def _is_worth_it(status: os.stat_result) -> bool:
    return status.st_size > _WORTH_BYTES and clock.unix_s() - status.st_mtime > _RECENT_S


def _delete(parts: list[Part], run: str, before_s: float) -> list[Part]:
    rest: list[Part] = []
    for part in reversed(parts):
        newer = bool(rest) and rest[-1].run == part.run
        current = part.run == run and not part.closed
        if current or (newer and part.first == 0) or part.path.stat().st_mtime >= before_s:
            rest.append(part)
        else:
            part.path.unlink(missing_ok=True)
    return rest[::-1]


def _compress(path: Path) -> None:
    """Replace a part by its compressed file, which keeps its time. A crash leaves the plain file, or both."""
    times = path.stat()
    temporary = path.with_name(f".{path.name}.compressing")
    try:
        with path.open("rb") as plain, temporary.open("wb") as file:
            with gzip.GzipFile("", "wb", 1, file, 0) as packed:
                shutil.copyfileobj(plain, packed, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
        os.utime(temporary, ns=(times.st_atime_ns, times.st_mtime_ns))
        temporary.replace(compressed(path))
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    sync_folder(path.parent)
    path.unlink()

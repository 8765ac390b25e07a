"""Whether there is room on the disks: a pipeline that met a full one waits, says so, and goes on by itself.

Whoever meets a full disk says `met`, whoever got through says `worked`, each under a name of its own ("ledger", "chunks" …). The
pipeline waits while one of the names stands. Every `RETRY_S` it looks whether a file of `PROBE_BYTES` can be written into its
folders; when it can, work goes on, and the work itself shows whether that was enough. So an error is reported once an episode, not
once a try. Disks of remote workers cannot be probed: there the next chunk is the probe.
"""

import os
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from engine import clock
from engine.errors import DiskFullError, is_disk_full
from engine.events import DiskFreed, ErrorReported
from engine.journal import Journal

RETRY_S = 3.0
"""Between two looks, and between two tries."""
PROBE_BYTES = 1 << 20
_FORGOTTEN_S = 60.0
"""A name that nobody said again for so long, while work goes on, stands no more."""
T = TypeVar("T")


class Disk:
    """What one run knows of it; safe to use from several threads.

    folders: where a file must find room. full: called once an episode, with the reason. freed: called at its end.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        journal: Journal,
        full: Callable[[str], None] = lambda _: None,
        freed: Callable[[], None] = lambda: None,
    ) -> None:
        self._folders, self._journal, self._full, self._freed = folders, journal, full, freed
        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._since_s = self._met_s = self._next_s = 0.0
        self._trying = False
        self._attempts = 0
        self.reason = ""
        """Why the pipeline waits, in words; empty while there is room."""

    def met(self, name: str, error: BaseException) -> None:
        """Something of this name failed, as a disk is full."""
        with self._lock:
            first, now_s = not self._names, clock.monotonic_s()
            self._names.add(name)
            self._met_s, self._next_s, self._trying = now_s, now_s + RETRY_S, False
            self._attempts += 1
            if first:
                self._since_s, self._attempts = now_s, 1
                self.reason = f"disk full ({name}: {_reason(error)})"
            reason, attempt = self.reason, self._attempts
        if first:
            where = " or ".join(str(folder) for folder in self._folders)
            error = DiskFullError(
                f"A disk is full: {name}: {_reason(error)}",
                detail="The pipeline waits. Nothing is lost: what is committed is whole, the rest is read when there is room.",
                hint=f"Free space{f' in {where}' if where else ''}, or raise the quota. It goes on by itself then.",
            )
            self._journal.write(ErrorReported.of(error, attempt=attempt, retry_in_s=RETRY_S))
            self._full(reason)

    def worked(self, name: str) -> None:
        """Something of this name found room. While the pipeline waits, that is work that was begun before: it proves nothing."""
        if name in self._names and self._trying:
            self._forget({name})

    def holds(self) -> bool:
        """Whether nothing should be begun now; looks for room when it is time."""
        if not self._names:
            return False
        now_s = clock.monotonic_s()
        if self._trying:
            if now_s - self._met_s > _FORGOTTEN_S:
                self._forget(set(self._names))
            return False
        if now_s < self._next_s:
            return True
        room = all(map(_room, self._folders))
        with self._lock:
            self._trying, self._next_s = room, clock.monotonic_s() + RETRY_S
        return not room

    def try_now(self) -> None:
        """Do not wait for the next look."""
        self._next_s = 0.0

    def through(self, name: str, step: Callable[[], T], stopping: Callable[[], bool]) -> T:
        """What a step returns, which is tried until there is room for it. Raises its error when it is another, or to stop."""
        while True:
            try:
                result = step()
            except Exception as error:
                if not is_disk_full(error):
                    raise
                self.met(name, error)
                while self.holds():
                    if stopping():
                        raise
                    clock.sleep(0.2)
            else:
                self.worked(name)
                return result

    def _forget(self, names: set[str]) -> None:
        with self._lock:
            before = bool(self._names)
            self._names -= names
            freed = before and not self._names
            if freed:
                self.reason, self._trying = "", False
            attempts, duration_s = self._attempts, clock.monotonic_s() - self._since_s
        if freed:
            self._journal.write(DiskFreed(attempts=attempts, duration_s=round(duration_s, 3)))
            self._freed()


def _room(folder: Path) -> bool:
    """Whether a file of some size can be written there; a folder that is not there yet says nothing."""
    if not folder.is_dir():
        return True
    probe = folder / f".tidemark-room-{uuid.uuid4().hex}"
    try:
        with probe.open("wb") as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return not is_disk_full(error)
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
    return True


def _reason(error: BaseException) -> str:
    return f"{str(error) or type(error).__name__}".splitlines()[0]

"""Disks that take no files: the pipeline waits, reports it, and continues by itself once its folders can be written.

They are full or read-only, or a folder's permissions have changed.

A component calls `failed` when it meets such a disk and `succeeded` when it gets through, each under its own name
("ledger", "chunks" …). The pipeline waits while any name is set. Every `RETRY_S`, it checks if a file of `PROBE_BYTES`
fits into each of its folders. If so, work continues, and shows whether that was enough. So an error is reported once
per episode, not per try. Disks of remote workers cannot be probed: there, the next chunk is the probe.
"""

import os
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from engine.base import clock
from engine.base.errors import DiskFullError, is_forbidden, is_store_away, is_unwritable, trace_ending
from engine.journal import Journal
from engine.journal.events import DiskFreed, ErrorReported
from engine.pipeline.full_disks import fault_of, file_of, mount_of, room_on
from engine.store.folder import Folder

RETRY_S = 1.0
"""Seconds between two probes, and between two tries."""
PROBE_BYTES = 1 << 20
_EXPIRES_S = 60.0
"""A name expires if nobody reports it again for this long while work continues."""
T = TypeVar("T")


class Disk:
    """The disk state of one run. Thread-safe.

    folders: must have room for files. full: called once per episode with the reason. freed: called at its end.
    """

    def __init__(
        self,
        folders: Sequence[Path | Folder],
        journal: Journal,
        full: Callable[[str], None] = lambda _: None,
        freed: Callable[[], None] = lambda: None,
    ) -> None:
        self._folders = folders
        self._local = [folder for folder in folders if isinstance(folder, Path)]
        self._journal = journal
        self._full = full
        self._freed = freed
        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._since_s = 0.0
        self._failed_s = 0.0
        self._next_s = 0.0
        self._trying = False
        self._attempts = 0
        self.reason = ""
        """Why the pipeline waits; empty while there is room."""
        self.hint = ""
        """What to do about it, with the folder."""
        self.since = ""
        """Since when: UTC text."""

    def takes(self, error: BaseException) -> bool:
        """Whether an error is one to wait for: a disk is full or read-only, or a folder may not be written any more."""
        return is_unwritable(error) or (is_forbidden(error) and not all(map(_room, self._folders)))

    def failed(self, name: str, error: BaseException) -> None:
        """Record that `name` failed because a disk took no file."""
        fault, place = fault_of(error), self._full_places(error)
        with self._lock:
            first, now_s, what = not self._names, clock.monotonic_s(), ""
            self._names.add(name)
            self._failed_s = now_s
            self._next_s = now_s + RETRY_S
            self._trying = False
            self._attempts += 1
            if first:
                self._since_s = now_s
                self._attempts = 1
                self.since = clock.utc_text()
                what = f"{name}: {_reason(error)}{_named(place, error)}"
                self.reason = f"{fault.state} ({what})"
                where = " or ".join(map(str, place or self._local)) or "its folders"
                self.hint = fault.remedy.format(where=where)
            reason, attempt = self.reason, self._attempts
        if first:
            error = DiskFullError(
                f"{fault.message}: {what}",
                detail="The pipeline waits. Nothing is lost: committed data is complete, "
                "and the rest is read once there is room.",
                hint=f"{self.hint} The pipeline then continues by itself.",
            )
            self._journal.write(ErrorReported.of(error, attempt=attempt, retry_in_s=RETRY_S))
            self._full(reason)

    def _full_places(self, error: BaseException) -> list[Path]:
        """The file that did not fit; if the error does not name it, the folders that take no files now."""
        if is_store_away(error):
            return []
        file = file_of(error)
        return [file] if file is not None else [folder for folder in self._local if not _room(folder)]

    def succeeded(self, name: str) -> None:
        """Record that `name` found room. While the pipeline waits, that is older work and proves nothing."""
        if name in self._names and self._trying:
            self._drop_names({name})

    def blocks_work(self) -> bool:
        """Whether to start no new work; probes the folders when due."""
        if not self._names:
            return False
        now_s = clock.monotonic_s()
        if self._trying:
            if now_s - self._failed_s > _EXPIRES_S:
                self._drop_names(set(self._names))
            return False
        if now_s < self._next_s:
            return True
        room = all(map(_room, self._folders))
        with self._lock:
            self._trying = room
            self._next_s = clock.monotonic_s() + RETRY_S
        return not room

    def as_dict(self) -> dict[str, str | None]:
        """Why the pipeline waits, what to do, and since when, for `runner.json`."""
        if not self.reason:
            return {"disk_full": None, "disk_full_hint": None, "disk_full_since": None}
        return {"disk_full": self.reason, "disk_full_hint": self.hint, "disk_full_since": self.since}

    def probe_now(self) -> None:
        """Probe at the next call of `holds`."""
        self._next_s = 0.0

    def retry_when_full(self, name: str, step: Callable[[], T], stopping: Callable[[], bool]) -> T:
        """The result of a step, retried while a disk is full. Raises any other error, and the disk error on a stop."""
        while True:
            try:
                result = step()
            except Exception as error:
                if not self.takes(error):
                    raise
                self.failed(name, error)
                while self.blocks_work():
                    if stopping():
                        raise
                    clock.sleep(0.2)
            else:
                self.succeeded(name)
                return result

    def _drop_names(self, names: set[str]) -> None:
        with self._lock:
            before = bool(self._names)
            self._names -= names
            freed = before and not self._names
            if freed:
                self.reason = ""
                self._trying = False
            attempts, duration_s = self._attempts, clock.monotonic_s() - self._since_s
        if freed:
            self._journal.write(DiskFreed(attempts=attempts, duration_s=round(duration_s, 3)))
            self._freed()


def _room(folder: Path | Folder) -> bool:
    """Whether the folder has room for a probe file; True if it does not exist yet."""
    if not isinstance(folder, Path):
        return _answers(folder)
    if not folder.is_dir():
        return True
    probe = folder / f".tidemark-room-{uuid.uuid4().hex}"
    try:
        with probe.open("wb") as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return not (is_unwritable(error) or is_forbidden(error))
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
    return True


def _answers(folder: Folder) -> bool:
    """Whether a store can be used. Nothing is written: a probe is made every few seconds."""
    try:
        folder.find(".tidemark-room")
    except OSError as error:
        return not is_store_away(error)
    return True


def _named(places: Sequence[Path], error: BaseException) -> str:
    """The places and their disks: `; /data/ledger/7.json; /data has 12 KB of 64 MB free`."""
    if is_store_away(error):
        return ""
    if not places:
        return "; which disk is not known"
    mounts = dict.fromkeys(mount for path in places if (mount := mount_of(path)) is not None)
    named = [str(path) for path in places if str(path) not in _reason(error)]
    return "".join(f"; {part}" for part in (*named, *map(room_on, mounts)) if part)


def _reason(error: BaseException) -> str:
    return f"{trace_ending(str(error)) or type(error).__name__}".splitlines()[0]

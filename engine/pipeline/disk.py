"""Places that take no files: the pipeline waits, reports it, and continues by itself once its folders can be written.

A disk is full or read-only, or a folder's permissions have changed; or the destination's store does not answer, or
refuses the credentials.

A component calls `failed` when it meets such a place and `succeeded` when it gets through, each under its own name
("ledger", "chunks" …). The pipeline waits while any name is set, without a limit. Every `RETRY_S`, it checks if a file
of `PROBE_BYTES` fits into each of its folders; a store is asked for a file, after longer and longer pauses. If all of
them answer, work continues, and shows whether that was enough. So a disk's error is reported once per episode, not per
try; a store's tries are journaled as those of the source are. Disks of remote workers cannot be probed: there, the next
chunk is the probe.

A store that hangs is found by a probe alone (`ask_stores`, `store_watch`), long before a request fails. Then the next
probe that it answers ends the wait.

The cause that is shown is the worst (`WRITE_ERRORS`); as soon as a probe finds another one alone, it is that.
"""

import os
import tempfile
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from engine.base import clock
from engine.base.errors import DiskFullError, is_forbidden, is_unwritable, trace_ending
from engine.base.writable import is_denied_in
from engine.base.write_causes import WRITE_ERRORS, WriteCause, write_cause
from engine.journal import Journal
from engine.journal.events import DiskFreed, ErrorReported
from engine.journal.store_events import StoreAway, StoreBack
from engine.pipeline.full_disks import FULL, Fault, fault_of, file_of, folder_of, mount_of, room_on
from engine.pipeline.state_words import WRITE_ENDS
from engine.pipeline.write_outage import WriteOutage
from engine.store.folder import Folder

RETRY_S = 1.0
"""Seconds between two probes of disks, and between two tries; the first pause after a failed try of a store."""
MAX_PAUSE_S = 10.0
"""The longest pause between two tries of a store."""
PROBE_BYTES = 1 << 20
_EXPIRES_S = 60.0
"""A name expires if nobody reports it again for this long while work continues."""
_STORE_EXPIRES_S = 35.0
"""The same for a store, counted from the probe that it answered. Longer than a request waits (30 s): one that takes no
files although it answers the probe stays away, so that its alert fires."""
_PROBE = "probe"
"""The name of a failure that no component has met."""
_WORST_FIRST = tuple(WRITE_ERRORS)
T = TypeVar("T")


class Disk:
    """The places that one run writes to. Thread-safe.

    folders: must have room for files. full: called once per episode with the reason. freed: called at its end with the
    reason.
    """

    def __init__(
        self,
        folders: Sequence[Path | Folder],
        journal: Journal,
        full: Callable[[str], None] = lambda _: None,
        freed: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._folders = folders
        self._local = [folder for folder in folders if isinstance(folder, Path)]
        self._own = [folder for folder in self._local if folder != Path(tempfile.gettempdir())]  # that is everybody's
        self._journal = journal
        self._full = full
        self._freed = freed
        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._since_s = 0.0
        self._failed_s = 0.0
        self._tried_s = 0.0
        self._next_s = 0.0
        self._trying = False
        self._met: set[WriteCause] = set()  # in this episode
        self.outage: WriteOutage | None = None
        """Why the pipeline waits; None while everything can be written."""

    @property
    def has_stores(self) -> bool:
        """Whether some of the places are stores."""
        return len(self._local) < len(self._folders)

    @property
    def reason(self) -> str:
        """Why the pipeline waits; empty while everything can be written."""
        return self.outage.reason if self.outage else ""

    def takes(self, error: BaseException) -> bool:
        """Whether an error is one to wait for: a disk or a store takes no files, or a folder may not be written."""
        if is_unwritable(error) or is_denied_in(error, self._own):
            return True
        return is_forbidden(error) and not all(map(_room, self._local))

    def failed(self, name: str, error: BaseException) -> None:
        """Record that `name` failed because a place took no file."""
        fault, place = fault_of(error), self._full_places(error)
        outage = self._outage_of(name, error, fault, place)
        with self._lock:
            before, now_s, tried = self.outage, clock.monotonic_s(), self._trying
            self._names.add(name)
            self._failed_s = now_s
            self._trying = False
            if before is None:
                self._since_s = now_s
                self._met = set()
                current = replace(outage, attempt=1)
            else:
                worse = _WORST_FIRST.index(outage.cause) < _WORST_FIRST.index(before.cause)
                counts = tried or outage.cause == "disk"  # readers that began before all fail for the same store
                other = tried and outage.cause == before.cause  # maybe in another folder, or with another fault
                current = replace(
                    outage if worse or other else before, since=before.since, attempt=before.attempt + counts
                )
            new = current.cause not in self._met
            self._show(current, waits=new or tried)
        if current.cause == "disk" and new:
            self._report_disk(fault, name, place, error, current)
        elif current.cause != "disk" and (new or tried):
            self._report_store(current, error)
        if before is None:
            self._full(current.reason)

    def _outage_of(self, name: str, error: BaseException, fault: Fault, place: Sequence[Path]) -> WriteOutage:
        where = " or ".join(map(str, dict.fromkeys(map(folder_of, place or self._local)))) or "its folders"
        reason = f"{fault.state} ({name}: {_reason(error)}{_named(place, error, fault)})"
        return WriteOutage(
            write_cause(error),
            reason,
            fault.remedy.format(where=where),
            clock.utc_text(),
            disk_fault=fault.disk_fault,
        )

    def _show(self, outage: WriteOutage, *, waits: bool = True) -> None:
        self.outage = outage
        self._met.add(outage.cause)
        if waits:
            self._next_s = clock.monotonic_s() + _pause_s(outage)

    def _report_disk(
        self, fault: Fault, name: str, place: Sequence[Path], error: BaseException, outage: WriteOutage
    ) -> None:
        full = DiskFullError(
            f"{fault.message}: {name}: {_reason(error)}{_named(place, error, fault)}",
            detail="The pipeline waits. Nothing is lost: committed data is complete, "
            f"and the rest is read once {WRITE_ENDS[fault.disk_fault]}.",
            hint=f"{outage.hint} The pipeline then continues by itself.",
        )
        self._journal.write(ErrorReported.of(full, attempt=1, retry_in_s=RETRY_S))

    def _report_store(self, outage: WriteOutage, error: BaseException) -> None:
        self._journal.write(
            StoreAway(
                since=outage.since,
                attempt=outage.attempt,
                retry_in_s=_pause_s(outage),
                message=_reason(error),
                hint=outage.hint,
                cause=outage.cause,
            )
        )

    def _full_places(self, error: BaseException) -> list[Path]:
        """The file that did not fit; if the error does not name it, the folders that take no files now."""
        if write_cause(error) != "disk":
            return []
        file = file_of(error)
        return [file] if file is not None else [folder for folder in self._local if not _room(folder)]

    def succeeded(self, name: str) -> None:
        """Record that `name` got through. While the pipeline waits, that is older work and proves nothing."""
        if name in self._names and self._trying:
            self._drop_names({name})

    def blocks_work(self) -> bool:
        """Whether to start no new work; probes the folders when due."""
        if not self._names:
            return False
        now_s = clock.monotonic_s()
        if self._trying:
            only_stores = "disk" not in self._met
            if now_s > (self._tried_s + _STORE_EXPIRES_S if only_stores else self._failed_s + _EXPIRES_S):
                self._drop_names(set(self._names))
            return False
        with self._lock:
            if now_s < self._next_s:
                return True
            self._next_s = now_s + MAX_PAUSE_S  # no other thread probes meanwhile
        room, away = all(map(_room, self._local)), self._store_fault()
        with self._lock:
            self._trying = room and away is None
            self._tried_s = clock.monotonic_s()
            self._next_s = clock.monotonic_s() + RETRY_S
        if away is not None and room:
            self._still_away(away)
        if self._trying:
            self._drop_names({_PROBE})
            return False
        return True

    def ask_stores(self) -> None:
        """Ask the stores for a file, and wait if one does not answer, although no component has failed yet.

        Blocks for seconds.
        """
        if (error := self._store_fault()) is not None and self.outage is None:
            self.failed(_PROBE, error)

    def _store_fault(self) -> OSError | None:
        return next((error for folder in self._folders if (error := _store_error(folder)) is not None), None)

    def _still_away(self, error: OSError) -> None:
        """Record a probe that failed for a store alone."""
        outage = self._outage_of(_PROBE, error, fault_of(error), ())
        with self._lock:
            if (before := self.outage) is None:
                return
            same = outage.cause == before.cause
            current = replace(before if same else outage, since=before.since, attempt=before.attempt + 1)
            self._show(current)
        self._report_store(current, error)

    def probe_now(self) -> None:
        """Probe at the next call of `holds`."""
        self._next_s = 0.0

    def retry_when_full(self, name: str, step: Callable[[], T], stopping: Callable[[], bool]) -> T:
        """The result of a step, retried while nothing can be written. Raises other errors, and that one on a stop."""
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
            outage = self.outage
            self._names -= names
            if outage is None or self._names:
                return
            self.outage = None
            self._trying = False
            met, seconds = self._met, round(clock.monotonic_s() - self._since_s, 3)
        if "disk" in met:
            self._journal.write(DiskFreed(attempts=outage.attempt, duration_s=seconds))
        if met - {"disk"}:
            self._journal.write(StoreBack(since=outage.since, seconds=seconds))
        self._freed("files can be written again" if "disk" in met else "the store can be used again")


def _pause_s(outage: WriteOutage) -> float:
    """Seconds until the next try."""
    if outage.cause == "disk":
        return RETRY_S
    return min(RETRY_S * float(2 ** min(outage.attempt - 1, 10)), MAX_PAUSE_S)


def _room(folder: Path) -> bool:
    """Whether the folder has room for a probe file; True if it does not exist yet."""
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


def _store_error(folder: Path | Folder) -> OSError | None:
    """Why a store cannot be used; None if it can. Nothing is written: a probe is made every few seconds."""
    if isinstance(folder, Path):
        return None
    try:
        folder.find(".tidemark-room")
    except OSError as error:
        return error if is_unwritable(error) else None
    return None


def _named(places: Sequence[Path], error: BaseException, fault: Fault) -> str:
    """The places and full disks: `; /data/ledger/7.json; /data has 12 KB of 64 MB free`."""
    if write_cause(error) != "disk":
        return ""
    if not places:
        return "; which disk is not known"
    disks = places if fault is FULL else ()  # the room on another disk is not what is missing
    mounts = dict.fromkeys(mount for path in disks if (mount := mount_of(path)) is not None)
    named = [str(path) for path in places if str(path) not in _reason(error)]
    return "".join(f"; {part}" for part in (*named, *map(room_on, mounts)) if part)


def _reason(error: BaseException) -> str:
    return f"{trace_ending(str(error)) or type(error).__name__}".splitlines()[0]

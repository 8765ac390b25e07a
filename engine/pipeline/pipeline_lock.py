"""Ensures that one runner at a time runs a pipeline.

It does so by a lock if possible, by its heartbeat always, and finally by its term.

    lock        `runner.lock`, held while the runner lives. Some network file systems have no locks, someone may delete
                the lock file, and a copied folder has its own lock
    lease       the heartbeat in `runner.json`. A runner whose heartbeat changes is alive, whatever the lock says. No
                clock is compared: the file is watched for `LEASE_S`. A runner that is dead on this machine is not
                waited for
    term        stops any runner that gets past both, before it does harm: in the ledger (`ledger.store`: the epoch that
                it would create exists already) and in the destination (`destination.fence`: so does the version that
                it would commit). `engine.run.lifecycle.takeover` takes the next one

A runner that finds another one alive exits with code 5. A standby runner waits until the lease ends, and takes over;
meanwhile `standby/<host>-<pid>.json` shows it.
"""

import errno
import fcntl
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from engine.base import clock, processes
from engine.base.durable import make_folders, sync_folder, write_atomically
from engine.base.errors import PipelineHeldError
from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import HEARTBEAT_S, HEARTBEAT_STALE_S

LEASE_S = HEARTBEAT_STALE_S
"""Seconds without a heartbeat after which a runner's lease ends."""
_LOOK_S = 0.5
_TAKEN = (errno.EWOULDBLOCK, errno.EACCES)


@dataclass(frozen=True)
class StandbyRunner:
    """A waiting runner."""

    host: str
    pid: int
    since: str
    """When it began to wait: UTC text."""


@contextmanager
def held(directory: Directory, *, standby: bool = False, report: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the pipeline. standby: wait until it is free. report: called with the reason for the wait.

    Raises PipelineHeldError when another runner holds it.
    """
    make_folders(directory.root)
    if not directory.ledger.exists():  # whoever made the folder: a power cut must not take it, and leave the lake
        with suppress(PermissionError):  # it belongs to somebody else, who may not let it be opened
            sync_folder(directory.root.parent)
    with directory.lock.open("a+") as file:
        if standby:
            _await(directory, file, report)
        elif (why := _holder(directory, file)) is not None:
            raise _held(directory, why)
        yield


def _await(directory: Directory, file: IO[str], report: Callable[[str], None] | None) -> None:
    last = None
    while (why := _holder(directory, file)) is not None:
        if report is not None and why != last:
            report(why)
        last = why
        clock.sleep(_LOOK_S)


def _holder(directory: Directory, file: IO[str]) -> str | None:
    """Who holds the pipeline, as text; None if this call took the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            return "another process on this machine holds its lock"
        # This file system has no locks: the lease and the term decide.
    why = _lease_holder(directory)
    if why is not None:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)
    return why


def _lease_holder(directory: Directory) -> str | None:
    """The runner with a live heartbeat, as text; None if there is none. Takes up to `LEASE_S`."""
    first = _runner(directory)
    if first is None or first.get("state") == "ended" or _dead(first):
        return None
    deadline = clock.monotonic_s() + LEASE_S
    while clock.monotonic_s() < deadline:
        clock.sleep(HEARTBEAT_S / 4)
        now = _runner(directory)
        if now is None or now.get("state") == "ended" or _dead(now):
            return None
        if now != first:
            return f"run {now.get('run')} on {now.get('host')} (pid {now.get('pid')}) shows its heartbeat"
    return None


def _runner(directory: Directory) -> dict[str, Any] | None:
    with suppress(OSError, ValueError):
        record: dict[str, Any] = json.loads(directory.runner.read_text(encoding="utf-8"))
        return record
    return None


def _dead(runner: dict[str, Any]) -> bool:
    """Whether a runner of this machine has ended; its pid may belong to another process by now."""
    lives = processes.lives(int(runner.get("pid", 0)), runner.get("process") or {})
    if lives is not None:
        return not lives
    if runner.get("host") != socket.gethostname():
        return False
    pid = int(runner.get("pid", 0))
    if pid == os.getpid():
        return True
    try:
        return not any("engine" in word for word in psutil.Process(pid).cmdline())
    except psutil.AccessDenied:
        return False
    except psutil.Error:
        return True


@contextmanager
def standing_by(directory: Directory) -> Iterator[None]:
    """Show that this runner waits, and end it at once by SIGTERM."""
    own = StandbyRunner(socket.gethostname(), os.getpid(), clock.utc_text())
    path: Path = directory.root / "standby" / f"{own.host}-{own.pid}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({"format": 1, **vars(own), "process": processes.here()}))
    main = threading.current_thread() is threading.main_thread()
    # A standby runner has nothing to finish.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)) if main else None
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)
        path.unlink(missing_ok=True)


def _held(directory: Directory, why: str) -> PipelineHeldError:
    return PipelineHeldError(
        f"Another runner holds the pipeline in {directory.root}: {why}.",
        detail="That runner continues undisturbed; this one did nothing.",
        hint="`status` shows it; `stop` ends it. To wait for its end and take over: tidemark run SPEC --standby",
    )

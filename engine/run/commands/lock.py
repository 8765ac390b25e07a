"""Who may run a pipeline: one runner at a time, by a lock where there is one, by its heartbeat everywhere, by its term in the end.

    lock        `runner.lock`, held for as long as the runner lives. Some network file systems have no locks, a lock file may be
                deleted, and a copied folder has a lock of its own
    lease       the heartbeat in `runner.json`. A runner whose heartbeat changes lives, whatever the lock says. Nobody's clock is
                asked: the file is watched for `LEASE_S`. One that is dead on this machine is not waited for
    term        `sink.fence`: what both of these let pass by is stopped there before it does harm

A runner that finds another one alive ends with exit code 5. One that is started to stand by waits until the lease ends, and takes
over; while it waits, it says so in `standby/<host>-<pid>.json`.
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

from engine import clock, processes
from engine.directory import HEARTBEAT_S, HEARTBEAT_STALE_S, Directory, write_atomically
from engine.errors import PipelineHeldError

LEASE_S = HEARTBEAT_STALE_S
"""Seconds without a heartbeat after which a runner's lease has ended."""
_LOOK_S = 0.5
_TAKEN = (errno.EWOULDBLOCK, errno.EACCES)


@dataclass(frozen=True)
class Standby:
    """A runner that waits."""

    host: str
    pid: int
    since: str
    """Since when it waits: UTC text."""


@contextmanager
def held(directory: Directory, *, standby: bool = False, said: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the pipeline. standby: wait until it is free. said: is given in words why it waits.

    Raises PipelineHeldError when another runner has it.
    """
    directory.root.mkdir(parents=True, exist_ok=True)
    with directory.lock.open("a+") as file:
        if standby:
            with _standing_by(directory):
                _await(directory, file, said)
        elif (why := _kept_by(directory, file)) is not None:
            raise _held(directory, why)
        yield


def _await(directory: Directory, file: IO[str], said: Callable[[str], None] | None) -> None:
    last = None
    while (why := _kept_by(directory, file)) is not None:
        if said is not None and why != last:
            said(why)
        last = why
        clock.sleep(_LOOK_S)


def _kept_by(directory: Directory, file: IO[str]) -> str | None:
    """Who has the pipeline, in words; None when it is free, and then the lock is ours."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            return "another process on this machine holds its lock"
        # There are no locks here: the lease decides, and the term.
    why = _leased(directory)
    if why is not None:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)
    return why


def _leased(directory: Directory) -> str | None:
    """Which runner's heart beats, in words; None when none does. Takes up to `LEASE_S`."""
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
        found: dict[str, Any] = json.loads(directory.runner.read_text(encoding="utf-8"))
        return found
    return None


def _dead(runner: dict[str, Any]) -> bool:
    """Whether a runner of this machine is gone, or its number is another process's by now."""
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
def _standing_by(directory: Directory) -> Iterator[None]:
    own = Standby(socket.gethostname(), os.getpid(), clock.utc_text())
    path: Path = directory.root / "standby" / f"{own.host}-{own.pid}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({"format": 1, **vars(own), "process": processes.here()}))
    main = threading.current_thread() is threading.main_thread()
    # It has nothing to finish.
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
        detail="It goes on undisturbed; this one did nothing.",
        hint="`status` shows it; `stop` ends it. To wait for its end and take over: tidemark run SPEC --standby",
    )

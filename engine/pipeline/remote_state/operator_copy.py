"""The copy that operators of a host read, and what they leave for the runner: `tidemark` and the console.

What they leave is in the bucket before it is in the copy. Nothing here does anything for a pipeline whose state is its
own directory.
"""

import fcntl
import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.base import clock
from engine.base.durable import write_atomically
from engine.base.errors import TransientError
from engine.pipeline.directory import Directory
from engine.pipeline.remote_state.lease import LeaseRecord, SeenLease, knock, ledger_name, seen_lease
from engine.pipeline.remote_state.names import SPEC, is_copied
from engine.pipeline.remote_state.place import note_state, remote_state, state_url
from engine.pipeline.remote_state.state_copy import StateCopy
from engine.store.folder import Folder
from engine.store.local_folder import LocalFolder

REFRESH_S = 2.0
_CURRENT_S = 15.0
_KNOCKS = 3
_SEEN: dict[Path, SeenLease] = {}
_REFRESHED_S: dict[Path, float] = {}
_FOLLOWED: set[Path] = set()
_LOCKS: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)


def refresh(directory: Directory) -> None:
    """Make the copy what the bucket has. One request if nothing has changed. Raises TransientError."""
    state = remote_state(directory)
    if state is None:
        return
    with reaching(state), _alone(directory):
        before = _SEEN.get(directory.root)
        seen = seen_lease(state, before)
        if seen is None or before is None or not _same_files(before.record, seen.record):
            copy = StateCopy(directory.root, state, ledger_name(state, seen))
            also = [SPEC] if copy.has(SPEC) or not directory.spec.exists() else []
            copy.download(is_copied, also, keeps_commands=True)
        if seen is not None and seen is not before:
            _show_runner(directory, seen.record)
        if seen is not None:
            _SEEN[directory.root] = seen
        _REFRESHED_S[directory.root] = clock.monotonic_s()


def is_current(directory: Directory) -> bool:
    """Whether the copy is as new as it can be: it was refreshed a moment ago, or there is no bucket."""
    if state_url(directory) is None:
        return True
    refreshed_s = _REFRESHED_S.get(directory.root)
    return refreshed_s is not None and clock.monotonic_s() - refreshed_s < _CURRENT_S


def _same_files(one: LeaseRecord, other: LeaseRecord) -> bool:
    return _files_of(one) == _files_of(other)


def _files_of(record: LeaseRecord) -> tuple[object, ...]:
    return record.holder, record.uploads, record.orders, record.ended, record.ledger


def _show_runner(directory: Directory, record: LeaseRecord) -> None:
    """Write `runner.json` as the holder of the lease has it. It is as old as a renewal may be."""
    if record.runner:
        write_atomically(directory.runner, json.dumps({**record.runner, "renewed_every_s": record.valid_s}, indent=1))


def committed_ledger(directory: Directory) -> Folder:
    """The ledger as it is committed: the bucket's, if the state is in one, because the copy may be old.

    Raises TransientError.
    """
    state = remote_state(directory)
    if state is None:
        return LocalFolder(directory.ledger)
    with reaching(state):
        return state / ledger_name(state, seen_lease(state))


def leave(directory: Directory, name: str, content: bytes) -> bool:
    """Put a file into the bucket, then into the copy, and let the runner look.

    Returns False if there is no bucket, and does nothing then. Raises TransientError if the bucket cannot be reached;
    the file may be there then.
    """
    state = remote_state(directory)
    if state is None:
        return False
    with reaching(state), _alone(directory):
        state.write(name, content)
        StateCopy(directory.root, state).take(name, content)
        _knock(state)
    return True


def claim(directory: Directory, name: str, content: bytes) -> bytes | None:
    """Claim a command in the bucket (`pipeline.command_queue`). Returns the claim that is there: another's, perhaps.

    None if there is no bucket: the claim in the directory decides. Raises TransientError.
    """
    state = remote_state(directory)
    if state is None:
        return None
    with reaching(state):
        return content if state.create(name, content) else state.read(name)


def discard(directory: Directory, names: Iterable[str]) -> None:
    """Delete files in the bucket, in this order; the copy has them no more. Raises TransientError."""
    state = remote_state(directory)
    if state is None:
        return
    with reaching(state), _alone(directory):
        copy = StateCopy(directory.root, state)
        for name in names:
            state.delete([name])
            copy.forget(name)
        _knock(state)


def _knock(state: Folder) -> None:
    """Let the runner look. The file is in the bucket, so a failure does not undo it: the next knock is for it too."""
    for _ in range(_KNOCKS):
        try:
            knock(state)
        except (OSError, ValueError):
            continue
        return


def follow(directory: Directory, url: str | None) -> None:
    """Note where the state is, and keep the copy current, in a thread, for as long as this process lives.

    url: by the spec; None if it is the directory itself.
    """
    note_state(directory, url)
    if url is not None and directory.root not in _FOLLOWED:
        _FOLLOWED.add(directory.root)
        threading.Thread(target=_follow, args=(directory,), name="remote state", daemon=True).start()


def _follow(directory: Directory) -> None:
    while True:
        with suppress(Exception):  # the copy grows old, which its heartbeat shows
            refresh(directory)
        clock.sleep(REFRESH_S)


@contextmanager
def _alone(directory: Directory) -> Iterator[None]:
    """One thread of one process at a time uses a copy."""
    directory.root.mkdir(parents=True, exist_ok=True)
    with _LOCKS[directory.root], (directory.root / ".remote-state.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def reaching(state: Folder) -> Iterator[None]:
    """Raise TransientError for errors of the folder of a state."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise TransientError(
            f"The pipeline's state in {state.url} cannot be reached: {error}",
            detail="What was asked may have been done. A runner elsewhere is not affected by that.",
            hint="Make sure that this host reaches the store and that its credentials are valid, then look before you "
            "try again.",
        ) from error

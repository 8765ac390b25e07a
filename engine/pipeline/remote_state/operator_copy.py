"""The copy that operators of a host read, and what they leave for the runner: `tidemark` and the console.

Nothing here does anything for a pipeline whose state is its own directory.
"""

import fcntl
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.base import clock
from engine.base.durable import write_atomically
from engine.base.errors import TransientError
from engine.pipeline.directory import Directory
from engine.pipeline.remote_state.lease import LeaseRecord, SeenLease, knock, seen_lease
from engine.pipeline.remote_state.place import note_state, remote_state
from engine.pipeline.remote_state.state_copy import StateCopy, files_in
from engine.store.folder import Folder

OPERATORS = ("acknowledged/", "silences/")
"""Folders whose files operators write, besides commands."""
SPEC = "pipeline.toml"
REFRESH_S = 2.0
_SEEN: dict[Path, SeenLease] = {}
_FOLLOWED: set[Path] = set()
_AT_ONCE = threading.Lock()


def refresh(directory: Directory) -> None:
    """Make the copy what the bucket has. One request if nothing has changed. Raises TransientError."""
    state = remote_state(directory)
    if state is None:
        return
    with reaching(state), _alone(directory):
        before = _SEEN.get(directory.root)
        seen = seen_lease(state, before)
        if seen is not None and seen is not before:
            _show_runner(directory, seen.record)
        if seen is None or before is None or not _same_files(before.record, seen.record):
            copy = StateCopy(directory.root, state)
            copy.download(lambda name: name != SPEC or copy.has(SPEC) or not directory.spec.exists())
        if seen is not None:
            _SEEN[directory.root] = seen


def _same_files(one: LeaseRecord, other: LeaseRecord) -> bool:
    return (one.holder, one.uploads, one.orders, one.ended) == (other.holder, other.uploads, other.orders, other.ended)


def _show_runner(directory: Directory, record: LeaseRecord) -> None:
    """Write `runner.json` as the holder of the lease has it. It is as old as a renewal may be."""
    if record.runner:
        write_atomically(directory.runner, json.dumps({**record.runner, "renewed_every_s": record.valid_s}, indent=1))


def leave(directory: Directory, name: str, content: bytes) -> bool:
    """Put a command's file into the bucket, then into the copy. Raises TransientError.

    Returns False if there is no bucket, and does nothing then.
    """
    state = remote_state(directory)
    if state is None:
        return False
    with reaching(state), _alone(directory):
        state.write(name, content)
        StateCopy(directory.root, state).take(name, content)
        knock(state)
    return True


def claim(directory: Directory, name: str, content: bytes) -> bool:
    """Claim a command in the bucket (`pipeline.command_queue`). Returns False if it is claimed. Raises TransientError.

    True without a bucket: the claim in the directory decides.
    """
    state = remote_state(directory)
    if state is None:
        return True
    with reaching(state):
        return state.create(name, content)


def publish(directory: Directory, *gone: str) -> None:
    """Let the bucket have what operators of this host have written or deleted. Raises TransientError.

    gone: files that are not theirs alone and were deleted, such as a withdrawn command.
    """
    state = remote_state(directory)
    if state is None:
        return
    with reaching(state), _alone(directory):
        copy = StateCopy(directory.root, state)
        names = files_in(directory.root, [*OPERATORS, "inbox/withdrawn/"])
        changed = copy.upload(names, lambda name: name.startswith(OPERATORS))
        if gone:
            state.delete(gone)
        if changed or gone:
            knock(state)


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
        with suppress(TransientError, OSError):  # the copy grows old, which its heartbeat shows
            refresh(directory)
        clock.sleep(REFRESH_S)


@contextmanager
def _alone(directory: Directory) -> Iterator[None]:
    """One thread of one process at a time uses a copy."""
    directory.root.mkdir(parents=True, exist_ok=True)
    with _AT_ONCE, (directory.root / ".remote-state.lock").open("a") as lock:
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
            detail="Nothing was changed. A runner elsewhere is not affected by that.",
            hint="Make sure that this host reaches the store and that its credentials are valid, then try again.",
        ) from error

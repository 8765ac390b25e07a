"""A place for a restored ledger beside the pipeline's own, which it replaces at once when it is complete.

On a file system, both are folders of the pipeline's directory, and are renamed. In a bucket, nothing is renamed: the
lease names the ledger's folder (`pipeline.remote_state.lease`), and only who holds the lease can change that. The old
ledger stays beside the new one. A late commit of a runner that has lost its lease ends up there, and nobody reads it.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from engine.base import clock
from engine.base.durable import rename, sync_folder
from engine.pipeline.directory import Directory
from engine.pipeline.pipeline_lock import held
from engine.pipeline.remote_state.names import ledger_folders, new_ledger_folder
from engine.pipeline.remote_state.operator_copy import reaching
from engine.pipeline.remote_state.place import remote_state, runner_copy
from engine.pipeline.remote_state.runner_sync import RunnerSync, kept
from engine.store.folder import Folder
from engine.store.local_folder import LocalFolder

_UNFINISHED = "ledger.restored-"


@dataclass(frozen=True)
class NewLedger:
    """A folder for a restored ledger; empty."""

    folder: Folder
    directory: Directory
    """Takes the other files that are restored."""
    switch: Callable[[], None]
    """Makes it the pipeline's ledger."""


@contextmanager
def new_ledger(directory: Directory, pipeline: str) -> Iterator[NewLedger]:
    """Hold a pipeline, and make a place for a ledger, which is deleted after an error.

    pipeline: its name. Raises PipelineHeldError while a runner lives, TransientError if the bucket of its state cannot
    be reached.
    """
    state, quick = remote_state(directory), remote_state(directory, quick=True)
    if state is None or quick is None:
        with held(directory):
            yield from _renamed(directory)
        return
    copy = runner_copy(directory)
    with held(copy):
        with reaching(state):
            sync = RunnerSync(copy, state, quick, pipeline, None)
        with kept(sync):
            yield from _named(state, copy, sync)


def _renamed(directory: Directory) -> Iterator[NewLedger]:
    for unfinished in directory.root.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(unfinished)
    now = f"{clock.utc_now():%Y%m%dT%H%M%S.%f}"
    new = directory.root / f"{_UNFINISHED}{now}"

    def switch() -> None:
        if directory.ledger.exists():
            rename(directory.ledger, directory.ledger.with_name(f"ledger.before-{now}"))
        rename(new, directory.ledger)
        sync_folder(directory.root)

    try:
        yield NewLedger(LocalFolder(new), directory, switch)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _named(state: Folder, copy: Directory, sync: RunnerSync) -> Iterator[NewLedger]:
    with reaching(state):
        folders = ledger_folders(state)
        for name in folders:
            if name > sync.ledger.name:  # a restore that was killed has left it
                _empty(state / name)
    new = state / new_ledger_folder(folders)
    switches = False

    def switch() -> None:
        nonlocal switches
        switches = True
        with reaching(state):
            sync.switch_ledger(new.name)

    try:
        yield NewLedger(new, copy, switch)
    except BaseException:
        if not switches:  # else the store may have done it, and only the answer was lost
            with suppress(OSError):
                _empty(new)
        raise


def _empty(folder: Folder) -> None:
    folder.delete([entry.name for entry in folder.entries()])

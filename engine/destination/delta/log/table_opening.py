"""Opens Delta tables by the deltalake library, which reads them from a file system or a bucket by itself."""

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from engine.destination.delta.log.log_files import (
    CHECKPOINT_POINTER,
    checkpoint_version,
    commit_name,
    commit_version,
    log_of,
)
from engine.store.folder import Folder
from engine.store.requests import COUNTER, RequestCounts

_CHECKPOINTED, _CHECKPOINT_GETS = 20, 30
"""The library asks for the pointer to a checkpoint, and for each commit twice or more often. From this version on there
may be a checkpoint, and how many commits come after it is not known. So both are estimates."""


def open_table(folder: Folder, version: int | None = None) -> DeltaTable:
    """A version of the table in a folder; None for the newest.

    Raises DeltaError or OSError when it cannot be read, StoreAwayError or StoreAccessError when its store cannot be
    used: the library does not tell one from the other.
    """
    try:
        delta = DeltaTable(folder.url, version=version, storage_options=dict(folder.options) or None)
    except (DeltaError, OSError):
        log_of(folder).find(CHECKPOINT_POINTER)
        raise
    if folder.options:
        COUNTER.add(folder.url, RequestCounts(lists=1, gets=_gets(delta.version())))
    return delta


def _gets(version: int) -> int:
    return 1 + (2 * (version + 1) if version < _CHECKPOINTED else _CHECKPOINT_GETS)


def is_table(folder: Folder) -> bool:
    """Whether there is a Delta table in a folder.

    The library's own answer takes Python's lock until the store has given its own, which stops all other threads.
    """
    log = log_of(folder)
    if log.find(CHECKPOINT_POINTER) is not None or log.find(commit_name(0)) is not None:
        return True
    names = (entry.name for entry in log.entries())
    return any(commit_version(name) is not None or checkpoint_version(name) is not None for name in names)

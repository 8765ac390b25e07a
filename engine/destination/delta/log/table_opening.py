"""Opens Delta tables by the deltalake library, which reads them from a file system or a bucket by itself."""

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from engine.destination.delta.log.log_files import CHECKPOINT_POINTER, log_of
from engine.store.folder import Folder


def open_table(folder: Folder, version: int | None = None) -> DeltaTable:
    """A version of the table in a folder; None for the newest.

    Raises DeltaError or OSError when it cannot be read, StoreAwayError or StoreAccessError when its store cannot be
    used: the library does not tell one from the other.
    """
    try:
        return DeltaTable(folder.url, version=version, storage_options=dict(folder.options) or None)
    except (DeltaError, OSError):
        log_of(folder).find(CHECKPOINT_POINTER)
        raise


def is_table(folder: Folder) -> bool:
    """Whether there is a Delta table in a folder."""
    try:
        return DeltaTable.is_deltatable(folder.url, dict(folder.options) or None)
    except (DeltaError, OSError):
        log_of(folder).find(CHECKPOINT_POINTER)
        raise

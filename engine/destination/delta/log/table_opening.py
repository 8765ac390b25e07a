"""Opens Delta tables by the deltalake library, which reads them from a file system or a bucket by itself."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from engine.base.store_errors import StoreAwayError, access_error
from engine.destination.delta.log.log_files import (
    CHECKPOINT_POINTER,
    checkpoint_version,
    commit_name,
    commit_version,
    log_of,
)
from engine.store.folder import Folder
from engine.store.operations import OPERATIONS
from engine.store.requests import COUNTER, RequestCounts

_CHECKPOINTED, _CHECKPOINT_GETS = 20, 30
"""The library asks for the pointer to a checkpoint, and for each commit twice or more often. From this version on there
may be a checkpoint, and how many commits come after it is not known. So both are estimates."""


_VERSION = re.compile(r"\bversion: (\d+)")
_REQUEST_FAILED = re.compile("Generic (?:S3|MicrosoftAzure) error.*")
"""How the library begins when a request was not answered, or with an error of the store: nothing of the table is
damaged. What is not there is "not found"."""


@contextmanager
def _of_store(url: str) -> Iterator[None]:
    """An operation of the library. Raises StoreAwayError or StoreAccessError for its errors of requests."""
    try:
        with OPERATIONS.under_way():
            yield
    except (DeltaError, OSError) as error:
        if (failed := _REQUEST_FAILED.search(str(error))) is None:
            raise
        if (refused := access_error(url, str(error)[failed.start() :])) is not None:
            raise refused from error
        raise StoreAwayError(f"The store does not answer: {url}: {failed[0]}") from error


class BucketTable(DeltaTable):
    """A table in a bucket. The library reads its log again for some questions, so they can fail as `open_table`."""

    def transaction_version(self, app_id: str) -> int | None:
        """As the library's. Raises StoreAwayError."""
        with _of_store(self.table_uri):
            return super().transaction_version(app_id)

    def get_add_actions(self, flatten: bool = False) -> Any:
        """As the library's. Raises StoreAwayError."""
        with _of_store(self.table_uri):
            return super().get_add_actions(flatten)

    def load_as_version(self, version: int | str | datetime) -> None:
        """As the library's. Raises StoreAwayError."""
        with _of_store(self.table_uri):
            super().load_as_version(version)


def library_text(error: Exception) -> str:
    """What the library says: one line, without the inner records of a gap between commits."""
    text = str(error).strip().partition("\n")[0]
    if "found gap" in text and len(versions := _VERSION.findall(text)) == 2:
        return f"the commits between version {versions[0]} and version {versions[1]} are gone"
    return text


def open_table(folder: Folder, version: int | None = None) -> DeltaTable:
    """A version of the table in a folder; None for the newest.

    Raises DeltaError or OSError when it cannot be read, StoreAwayError or StoreAccessError when its store cannot be
    used: the library does not tell one from the other.
    """
    if not folder.options:
        return DeltaTable(folder.url, version=version)
    try:
        with _of_store(folder.url):
            delta = BucketTable(folder.url, version=version, storage_options=dict(folder.options))
    except (DeltaError, OSError):
        log_of(folder).find(CHECKPOINT_POINTER)
        raise
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

"""Which errors of a task are outages of the folders that it writes to."""

import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from engine.base.errors import TidemarkError, WriteOutageError, is_unwritable
from engine.base.writable import is_denied_in, named_paths
from engine.base.write_causes import WRITE_ERRORS, WriteCause, write_cause
from engine.store.folder import Folder
from engine.store.local_folder import LocalFolder

_HINTS: Mapping[WriteCause, str] = {
    "disk": "Make room in {folder}, or on the reader's own disk.",
    "store_away": "If it lasts, make sure that the store runs, and that the reader's host reaches it.",
    "store_refused": "Renew the credentials that the reader finds, or give them the permissions of docs/s3.md "
    "or docs/azure.md.",
}
_LET_IN = "Let the reader's user write to {folder}."


def outage_of(
    error: Exception, what: str, folders: Collection[Folder], detail: str, then: str
) -> WriteOutageError | None:
    """The outage that an error of a task is; None if it is another error, such as of the worker's own code.

    what: what the task did, as the beginning of a sentence. then: the end of the hint.
    """
    if is_unwritable(error):
        hint = _HINTS[write_cause(error)]
    elif is_denied(error, folders):
        hint = _LET_IN
    else:
        return None
    urls = " or ".join(dict.fromkeys(folder.url for folder in _named_of(error, folders) or folders))
    return WRITE_ERRORS[write_cause(error)](
        f"{what} could not write in {urls} on {socket.gethostname()}: {error}",
        detail=detail,
        hint=f"{hint.format(folder=urls)} {then}",
    )


def _named_of(error: Exception, folders: Collection[Folder]) -> list[Folder]:
    """The folders whose files the error names: of many, one may be at fault."""
    paths = list(named_paths(error))
    local = (folder for folder in folders if isinstance(folder, LocalFolder))
    return [folder for folder in local if any(path.is_relative_to(folder.path) for path in paths)]


def is_denied(error: Exception, folders: Collection[Folder]) -> bool:
    """Whether the reader's user may not use a file in one of the folders."""
    return is_denied_in(error, [folder.path for folder in folders if isinstance(folder, LocalFolder)])


@contextmanager
def writing(what: str, folders: Collection[Folder]) -> Iterator[None]:
    """Raises an outage for folders or a store that cannot be written, which fail all readers alike.

    Other errors fail the task, also those of the reader's own disk: Spark tries it again, perhaps elsewhere.
    """
    try:
        yield
    except TidemarkError:
        raise
    except Exception as error:
        shared = is_unwritable(error) and (bool(_named_of(error, folders)) or write_cause(error) != "disk")
        if not shared and not is_denied(error, folders):
            raise
        outage = outage_of(
            error, what, folders, "Nothing of it was published.", "Tidemark retries when it can be written."
        )
        assert outage is not None
        raise outage from error

"""Tries a folder: writes, reads, races two creations of one name, deletes.

Some stores answer yes to both of two writers that create one file. Commits would then be lost, so such a store is
refused.
"""

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from engine.base.store_errors import StoreAccessError
from engine.store.folder import Folder

_RACES, _WRITERS = 4, 4


@dataclass(frozen=True)
class FolderTrial:
    """The result. Both are empty for a folder that can be used."""

    fault: str = ""
    remedy: str = ""


def tried(folder: Folder) -> FolderTrial:
    """Whether a folder can be used. Leaves nothing there."""
    try:
        return _tried(folder)
    except StoreAccessError as error:
        return FolderTrial(
            str(error), "Give the credentials of the environment or of the role the permissions of docs/s3.md."
        )
    except OSError as error:
        return FolderTrial(
            str(error), "Make sure that the bucket exists, and that this host reaches the store's endpoint."
        )


def _tried(folder: Folder) -> FolderTrial:
    names = [f".tidemark-trial-{uuid.uuid4().hex}" for _ in range(_RACES)]
    try:
        with ThreadPoolExecutor(_WRITERS) as pool:
            for name in names:
                contents = [uuid.uuid4().bytes for _ in range(_WRITERS)]
                won = list(pool.map(lambda content, name=name: folder.create(name, content), contents))
                if sum(won) != 1 or folder.read(name) != contents[won.index(True)]:
                    return FolderTrial(
                        f"{folder.url} has no conditional writes: {sum(won)} of {_WRITERS} writers created one file",
                        "Use a store that knows If-None-Match, as S3 does, or a folder: commits would be lost here.",
                    )
        return FolderTrial()
    finally:
        folder.delete(names)

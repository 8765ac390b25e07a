"""Tries a folder: writes, reads, lists, races several creations of one name, and replacements of one content, deletes.

Some stores answer yes to both of two writers that create one file. Commits would then be lost, so such a store is
refused. Others do so to two that replace one, where two runners would have one lease. And some list names in an order
of their own, such as folder by folder.
"""

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from engine.base.store_errors import StoreAccessError
from engine.store.folder import Folder
from engine.store.folder_state import remove

_RACES, _WRITERS = 4, 4


@dataclass(frozen=True)
class FolderTrial:
    """The result. Both are empty for a folder that can be used."""

    fault: str = ""
    remedy: str = ""


def tried(folder: Folder, *, replaces: bool = False) -> FolderTrial:
    """Whether a folder can be used. Leaves nothing there. replaces: whether files in it will be replaced too."""
    try:
        return _tried(folder, replaces=replaces)
    except StoreAccessError as error:
        return FolderTrial(
            str(error),
            "Give the credentials of the environment or of the role the permissions of docs/s3.md or docs/azure.md.",
        )
    except OSError as error:
        return FolderTrial(
            str(error), "Make sure that the bucket exists, and that this host reaches the store's endpoint."
        )


def _tried(folder: Folder, *, replaces: bool) -> FolderTrial:
    names = [f".tidemark-trial-{uuid.uuid4().hex}" for _ in range(_RACES)]
    try:
        with ThreadPoolExecutor(_WRITERS) as pool:
            for name in names:
                contents = [uuid.uuid4().bytes for _ in range(_WRITERS)]
                won = list(pool.map(lambda content, name=name: bool(folder.create(name, content)), contents))
                if sum(won) != 1 or folder.read(name) != contents[won.index(True)]:
                    return FolderTrial(
                        f"{folder.url} has no conditional writes: {sum(won)} of {_WRITERS} writers created one file",
                        "Use a store that knows If-None-Match, as S3 does, or a folder: commits would be lost here.",
                    )
        return _replaced(folder, names[0]) if replaces else _listed(folder)
    finally:
        folder.delete(names)


def _listed(folder: Folder) -> FolderTrial:
    """The trial of the order of names."""
    place, names = folder / f".tidemark-trial-{uuid.uuid4().hex}", ["a-b", "a/b"]
    try:
        for name in reversed(names):
            place.write(name, b"")
        if [entry.name for entry in place.below()] == names:
            return FolderTrial()
    finally:
        remove(place)
    return FolderTrial(
        f"{folder.url} does not list files in the order of their names",
        "Use a general purpose bucket, or an Azure account without a hierarchical namespace.",
    )


def _replaced(folder: Folder, name: str) -> FolderTrial:
    """The trial of replacements. One after the other: a store that looks at no condition lets all of them win."""
    before = folder.find(name)
    tag = before.tag if before is not None else ""
    won = sum(bool(folder.replace(name, uuid.uuid4().bytes, tag)) for _ in range(_WRITERS))
    if won == 1:
        return _listed(folder)
    return FolderTrial(
        f"{folder.url} has no conditional writes: {won} of {_WRITERS} writers replaced one content",
        "Use a store that knows If-Match, as S3 does, or leave out state: two runners would have one lease here.",
    )

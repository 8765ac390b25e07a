"""Whole folders: the state of one in which other programs write too, and folders that are made and removed."""

import hashlib
import shutil
from dataclasses import dataclass
from itertools import islice

from engine.base.durable import make_folders, sync_file, sync_folder
from engine.store.folder import Folder
from engine.store.local_folder import LocalFolder

_MARK = "_made"
"""A file without content, which says that a folder of a bucket is there. Readers of tables leave such names alone."""


@dataclass(frozen=True)
class Stamp:
    """The state of a folder."""

    tag: str
    """Changes whenever a file is made, removed or renamed in the folder; in a bucket, also in folders below."""
    changed_s: float
    """When that last happened, as far as it is known: seconds since 1970, by the store's clock. A later change may
    leave the tag as it is within the resolution of that clock."""


def stamp_of(folder: Folder) -> Stamp:
    """Of a file system: inode and change time, which no tool can set back. Of a bucket: all names, listed."""
    if isinstance(folder, LocalFolder):
        try:
            status = folder.path.stat()
        except FileNotFoundError:
            return Stamp("", 0.0)
        return Stamp(f"{status.st_ino}-{status.st_ctime_ns}", status.st_ctime)
    digest, changed_s = hashlib.sha256(), 0.0
    for entry in folder.below():
        digest.update(f"{entry.name}\0{entry.tag}\n".encode())
        changed_s = max(changed_s, entry.changed_s)
    return Stamp(digest.hexdigest()[:32], changed_s)


def sync(folder: Folder, *names: str) -> None:
    """Make durable what another program has written: these files, or the folder's own names if none is given.

    What can be seen in a bucket is durable. Raises FileNotFoundError.
    """
    if isinstance(folder, LocalFolder):
        for name in names:
            sync_file(folder.path / name)
        if not names:
            sync_folder(folder.path)


def make(folder: Folder) -> None:
    """Let a folder be there before it has files: of a bucket, by a mark."""
    if isinstance(folder, LocalFolder):
        make_folders(folder.path)
    elif not folder.is_there:
        folder.write(_MARK, b"")


def is_empty(folder: Folder) -> bool:
    """Whether a folder has no files, and no folders either if it is one of a file system."""
    if isinstance(folder, LocalFolder):
        return not folder.is_there or not any(folder.path.iterdir())
    return all(entry.name == _MARK for entry in islice(folder.below(), 2))


def remove(folder: Folder) -> None:
    """Delete a folder with all that is in it. Half of it may be left after a crash."""
    if not isinstance(folder, LocalFolder):
        folder.delete([entry.name for entry in folder.below()])
    elif folder.is_there:
        shutil.rmtree(folder.path)

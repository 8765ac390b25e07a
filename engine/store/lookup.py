"""Looks for several files at once: a bucket answers after a while, whatever it is asked for."""

from collections.abc import Sequence

from engine.base.parallel import map_parallel
from engine.store.folder import FileEntry, Folder


def find_all(names: Sequence[tuple[Folder, str]]) -> list[FileEntry | None]:
    """The files by folder and name; None for each that is not there."""
    at_once = max((folder.at_once for folder, _ in names), default=1)
    return map_parallel(lambda pair: pair[0].find(pair[1]), names, at_once)

"""Missing data files that a Delta table names: a VACUUM without retention, or a cleaner, removed them.

A commit checks a file before it adds it (`destination.delta.log.delta_log`). A VACUUM may list the folder before that
commit and delete after it. So we check again: during a run, the files that the newest commits added; at its start, all
files of a table.
"""

from collections.abc import Iterable, Sequence

from engine.capture.files import DataFile
from engine.destination.delta.log.deletion_vectors import FOLDER
from engine.destination.delta.log.delta_actions import StoredFile
from engine.store.folder import Folder


def missing_names(files: Iterable[StoredFile], folder: Folder) -> list[str]:
    """The missing ones among these files and their deletion vectors, sorted.

    Lists the folders once, however many there are.
    """
    named = set[str]()
    for file in files:
        named |= {file.name} if file.vector is None or file.vector.file is None else {file.name, file.vector.file}
    if not named:
        return []
    existing = {entry.name for entry in folder.entries()}
    existing |= {f"{FOLDER}/{entry.name}" for entry in (folder / FOLDER).entries()}
    return sorted(name for name in named - existing if folder.find(name) is None)


class RecentFiles:
    """The files that commits added since the last check and that still belong to the table."""

    def __init__(self) -> None:
        self._files: dict[str, DataFile] = {}

    def add(self, add: Iterable[DataFile], remove: Iterable[DataFile]) -> None:
        """Record a commit."""
        for file in remove:  # first: a file with a new deletion vector is removed and added
            self._files.pop(file.name, None)
        self._files |= {file.name: file for file in add}

    def take(self) -> Sequence[DataFile]:
        """The files to check; the next call returns later ones."""
        files, self._files = list(self._files.values()), {}
        return files

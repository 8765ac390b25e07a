"""Missing data files that a Delta table names: a VACUUM without retention, or a cleaner, removed them.

A commit checks a file before it adds it (`destination.delta.log.delta_log`). A VACUUM may list the folder before that
commit and delete after it. So we check again: during a run, the files that the newest commits added; at its start, all
files of a table.
"""

from collections.abc import Iterable, Sequence

from engine.capture.files import DataFile, check_files, missing_files
from engine.destination.delta.log.deletion_vectors import FOLDER
from engine.destination.delta.log.delta_actions import StoredFile, vector_of
from engine.store.folder import Folder
from engine.store.lookup import find_all


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
    unlisted = sorted(named - existing)
    entries = find_all([(folder, name) for name in unlisted])
    return [name for name, entry in zip(unlisted, entries, strict=True) if entry is None]


def check_vectors(folder: Folder, files: Iterable[DataFile]) -> None:
    """Raises MissingFilesError when a file or its deletion vector is missing or damaged."""
    files = list(files)
    check_files(folder, files)
    # A merge writes all of its vectors to one file.
    named = dict.fromkeys(vector.file for file in files if (vector := vector_of(file)) is not None and vector.file)
    entries = find_all([(folder, name) for name in named])
    if missing := [name for name, entry in zip(named, entries, strict=True) if entry is None]:
        raise missing_files(folder, missing)


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

"""Data files that a Delta table names and that are not there: somebody's VACUUM without retention, or a cleaner, removed them.

We look at a file before a commit adds it (`sink.delta_log`). A VACUUM may list the folder before that commit and delete after it,
so we look again: at what the newest commits added while the run goes on, and at all that a table names when a run starts.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from engine.capture.files import DataFile


def lost_names(delta: DeltaTable, folder: Path) -> list[str]:
    """The files of this version that are not in the folder, sorted. One listing of the folder, whatever the number of files."""
    named = {unquote(path) for path in pa.table(delta.get_add_actions())["path"].to_pylist()}
    try:
        there = set(os.listdir(folder))  # noqa: PTH208 - names alone, of perhaps many thousand files
    except FileNotFoundError:
        there = set()
    return sorted(name for name in named - there if not (folder / name).exists())


class Recent:
    """The files that commits added since the last look, and that are part of the table still."""

    def __init__(self) -> None:
        self._files: dict[str, DataFile] = {}

    def committed(self, add: Iterable[DataFile], remove: Iterable[DataFile]) -> None:
        """A commit was made."""
        self._files |= {file.name: file for file in add}
        for file in remove:
            self._files.pop(file.name, None)

    def take(self) -> Sequence[DataFile]:
        """What there is to look at; the next call has what came since."""
        found, self._files = list(self._files.values()), {}
        return found

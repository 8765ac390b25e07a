"""Several files are looked for at once where each answer takes a while, and one after the other where none does."""

import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest

from engine.store.folder import FileEntry
from engine.store.local_folder import LocalFolder
from engine.store.lookup import find_all
from tests.support.patience import PATIENCE_S


class _Distant(LocalFolder):
    """Answers once all requests that may be sent at once have arrived."""

    at_once: ClassVar[int] = 4
    barrier: ClassVar[threading.Barrier]

    def find(self, name: str) -> FileEntry | None:
        self.barrier.wait(PATIENCE_S)
        return super().find(name)


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    """Files whose sizes are their names."""
    for size in range(8):
        (tmp_path / str(size)).write_bytes(b"x" * size)
    return LocalFolder(tmp_path)


def test_answers_stand_in_the_order_of_the_names(folder: LocalFolder) -> None:
    """One that is not there has its place."""
    entries = find_all([(folder, "7"), (folder, "none"), (folder, "2")])
    assert [entry and entry.size for entry in entries] == [7, None, 2]
    assert find_all([]) == []


def test_a_distant_folder_is_asked_for_several_files_at_once(folder: LocalFolder) -> None:
    """One request after the other would wait at the barrier for ever."""
    _Distant.barrier = threading.Barrier(_Distant.at_once)
    distant: Any = _Distant(folder.path)
    entries = find_all([(distant, str(size)) for size in range(8)])
    assert [entry and entry.size for entry in entries] == list(range(8))

"""A folder of the file system."""

from pathlib import Path

import pytest

from engine.store.local_folder import LocalFolder
from tests.support.folder_contract import FolderContract


class TestLocalFolder(FolderContract):
    """The contract."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> LocalFolder:
        """One that does not exist yet."""
        return LocalFolder(tmp_path / "lake")


def test_nothing_else_is_left_behind(tmp_path: Path) -> None:
    """A file that was refused, and one that was replaced, leave no temporary file."""
    folder = LocalFolder(tmp_path)
    folder.create("a", b"1")
    folder.create("a", b"2")
    folder.write("a", b"3")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]

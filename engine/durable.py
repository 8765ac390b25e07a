"""What outlives a power cut: a file's content once it is synced, a file's name once its folder is."""

import os
from pathlib import Path


def sync_file(path: Path) -> None:
    """Return when the content of a file is on the disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(folder: Path) -> None:
    """Return when the names in a folder are on the disk: files that were created, renamed, linked or removed there."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folders(folder: Path) -> None:
    """Create a folder and those above it, durably."""
    missing = [folder, *folder.parents]
    missing = missing[: next((n for n, path in enumerate(missing) if path.is_dir()), len(missing))]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        sync_folder(path.parent)

"""Deleting what was published of a table that left its pipeline."""

import hashlib
import shutil
from pathlib import Path
from urllib.parse import unquote


def drop(folder: Path) -> bool:
    """Delete a table's folder; returns whether it was there.

    It is renamed first: what is found under its own name is never half of it, however often the deletion is broken off.
    """
    going = folder.with_name(".dropped-" + hashlib.sha256(folder.name.encode()).hexdigest()[:16])
    _delete(going)  # what an earlier attempt left
    there = folder.is_dir() and not folder.is_symlink()
    if there:
        folder.rename(going)
        _delete(going)
    plain = folder.parent / unquote(folder.name)  # `layout.make_readable` made a link of it
    if plain.is_symlink() and not plain.exists():
        plain.unlink()
    return there


def _delete(folder: Path) -> None:
    if folder.is_dir():
        shutil.rmtree(folder)

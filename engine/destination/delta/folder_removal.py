"""Deletes the published data of a removed table."""

import hashlib
import shutil
from pathlib import Path
from urllib.parse import unquote


def drop(folder: Path) -> bool:
    """Delete a table's folder. Returns whether it existed.

    The folder is renamed first, so that a half-deleted folder never appears under its own name.
    """
    renamed = folder.with_name(".dropped-" + hashlib.sha256(folder.name.encode()).hexdigest()[:16])
    _delete(renamed)  # left by an earlier attempt
    existed = folder.is_dir() and not folder.is_symlink()
    if existed:
        folder.rename(renamed)
        _delete(renamed)
    plain = folder.parent / unquote(folder.name)  # `layout.make_readable` made a link of it
    if plain.is_symlink() and not plain.exists():
        plain.unlink()
    return existed


def _delete(folder: Path) -> None:
    if folder.is_dir():
        shutil.rmtree(folder)

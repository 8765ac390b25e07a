"""Deletes the published data of a removed table.

A half-deleted table never appears under its own name. A folder of a file system is renamed first. In a bucket, which
cannot rename, a mark names the table that is being deleted, until it is. A mark that names another table than the one
that is there counts for nothing: a request that was lost on its way may arrive after the table has joined again.
"""

import hashlib
import shutil
from pathlib import Path
from urllib.parse import unquote

from deltalake.exceptions import DeltaError

from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.destination.delta.log.table_opening import open_table
from engine.store.folder import Folder
from engine.store.local_folder import LocalFolder

_MARK = "_dropped"


def drop(folder: Folder) -> bool:
    """Delete a table's folder. Returns whether it existed."""
    if isinstance(folder, LocalFolder):
        return _drop_path(folder.path)
    existed = folder.is_there
    if existed:
        folder.write(_MARK, _identity(folder).encode())
        folder.delete([entry.name for entry in folder.below() if entry.name != _MARK])
        folder.delete([_MARK])
    return existed


def is_half_dropped(folder: Folder) -> bool:
    """Whether the deletion of a table was interrupted."""
    if isinstance(folder, LocalFolder):
        return False
    try:
        dropped = folder.read(_MARK).decode()
    except FileNotFoundError:
        return False
    return _identity(folder) in ("", dropped)


def _identity(folder: Folder) -> str:
    """The identifier of the Delta table in a folder; "" if there is none that can be read."""
    try:
        return str(open_table(folder).metadata().id)
    except (StoreAwayError, StoreAccessError):
        raise
    except (DeltaError, OSError):
        return ""


def _drop_path(folder: Path) -> bool:
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

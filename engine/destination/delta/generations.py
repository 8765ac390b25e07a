"""A new generation of a change log, whose columns cannot become what the table has now.

Delta columns are added and widened, never narrowed or turned into another type, and two names that differ by case alone
cannot both be in one table. So the change log begins again, in two steps:

    1. keep    a Delta table beside it, `<table>__changes__until_<time>`, gets hard links to all its data files. It is
               built under another name and renamed, so it exists whole or not at all
    2. empty   one commit removes all files from the change log, sets the new columns, and records the epoch

A crash between the two repeats the first, which then finds the kept one. The mirror needs none of this: the resnapshot
that begins the generation replaces all its files and columns.
"""

import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from engine.base.durable import link, rename, sync_folder
from engine.base.errors import IncompatibleColumnsError
from engine.destination.delta.layout import kept_changes_folder, make_readable
from engine.destination.delta.log.delta_actions import Actions, StoredFile, vector_of
from engine.destination.delta.log.delta_log import DeltaLog, create
from engine.destination.delta.schema_evolution import check_evolution


def can_become(table: str, old_schema: pa.Schema, new_schema: pa.Schema) -> bool:
    """Whether a change log can get these columns."""
    try:
        check_evolution(table, old_schema, new_schema)
    except IncompatibleColumnsError:
        return False
    return True


def keep(changes: Path, schema: pa.Schema, files: Sequence[StoredFile], description: str, until: str) -> Path | None:
    """Keep a change log beside it; None if it has no files.

    until: UTC text. Returns the folder, which may be there already.
    """
    kept = kept_changes_folder(changes, until)
    if not files or kept.exists():
        return kept if files else None
    partly = changes.with_name(f".partly-{kept.name}")
    shutil.rmtree(partly, ignore_errors=True)
    vectors = any(vector_of(file) is not None for file in files)
    create(partly, schema, description, {}, vectors=vectors)
    for name in _names(files):
        (partly / name).parent.mkdir(parents=True, exist_ok=True)
        if not link(changes / name, partly / name):
            raise FileExistsError(f"{partly / name} is another file.")
    log = DeltaLog(partly)
    log.load()
    log.commit(Actions("WRITE", {}, add=files))
    sync_folder(partly)
    rename(partly, kept)
    sync_folder(kept.parent)
    make_readable(kept)
    return kept


def _names(files: Iterable[StoredFile]) -> list[str]:
    """The names of files and of their deletion vectors, each once."""
    names = dict.fromkeys(file.name for file in files)
    vectors = (file.vector.file for file in files if file.vector is not None and file.vector.file is not None)
    return list(dict.fromkeys([*names, *vectors]))


def kept_generations(changes: Path) -> list[Path]:
    """The folders of earlier generations, oldest first."""
    with suppress(FileNotFoundError):
        return sorted(path for path in changes.parent.glob(f"{changes.name}__until_*") if not path.is_symlink())
    return []

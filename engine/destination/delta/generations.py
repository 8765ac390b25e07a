"""A new generation of a change log, whose columns cannot become what the table has now.

Delta columns are added and widened, never narrowed or turned into another type, and two names that differ by case alone
cannot both be in one table. So the change log begins again, in two steps:

    1. keep    a Delta table beside it, `<table>__changes__until_<time>`, gets all its data files, by hard links or by
               copies within the bucket. Its one commit comes last, so it exists whole or not at all
    2. empty   one commit removes all files from the change log, sets the new columns, and records the epoch

A crash between the two repeats the first, which then finds the kept one. The mirror needs none of this: the resnapshot
that begins the generation replaces all its files and columns.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress

import pyarrow as pa

from engine.base.errors import IncompatibleColumnsError
from engine.destination.delta.layout import kept_changes_folder, make_readable
from engine.destination.delta.log.delta_actions import StoredFile, vector_of
from engine.destination.delta.log.delta_log import StaleVersionError
from engine.destination.delta.log.table_creation import create
from engine.destination.delta.log.table_opening import is_table
from engine.destination.delta.schema_evolution import check_evolution
from engine.store.folder import Folder


def can_become(table: str, old_schema: pa.Schema, new_schema: pa.Schema) -> bool:
    """Whether a change log can get these columns."""
    try:
        check_evolution(table, old_schema, new_schema)
    except IncompatibleColumnsError:
        return False
    return True


def keep(
    changes: Folder, schema: pa.Schema, files: Sequence[StoredFile], description: str, until: str
) -> Folder | None:
    """Keep a change log beside it; None if it has no files.

    until: UTC text. Returns the folder, which may be there already.
    """
    folder = kept_changes_folder(changes, until)
    if not files or is_table(folder):
        return folder if files else None
    vectors = any(vector_of(file) is not None for file in files)
    make_readable(folder)
    folder.copy(_names(files), changes)
    with suppress(StaleVersionError):
        create(folder, schema, description, {}, vectors=vectors, files=files)
    return folder


def _names(files: Iterable[StoredFile]) -> list[str]:
    """The names of files and of their deletion vectors, each once."""
    names = dict.fromkeys(file.name for file in files)
    vectors = (file.vector.file for file in files if file.vector is not None and file.vector.file is not None)
    return list(dict.fromkeys([*names, *vectors]))


def kept_generations(changes: Folder) -> list[Folder]:
    """The folders of earlier generations, oldest first."""
    names = changes.parent.folders()
    return [changes.parent / name for name in names if name.startswith(f"{changes.name}__until_")]

"""The Delta table `_tm_differences` in a destination: the rows that verifications found to differ.

Rows are as published: masked columns are masked here too. The table keeps what was found; it does not say what was
repaired since.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError

from engine.destination.capabilities import DifferenceRow
from engine.destination.delta.log.table_opening import open_table
from engine.store.folder import Folder

FOLDER = "_tm_differences"
MOST_FILES = 64
"""With more files, they are compacted."""
_SCHEMA = pa.schema(
    [
        ("found_at", pa.timestamp("us", "UTC")),
        ("table", pa.string()),
        ("kind", pa.string()),
        ("key", pa.string()),
        ("columns", pa.list_(pa.string())),
        ("cause", pa.string()),
        ("source", pa.string()),
        ("mirror", pa.string()),
        ("position", pa.string()),
        ("version", pa.int64()),
    ]
)


def append_differences(root: Folder, rows: Sequence[DifferenceRow]) -> None:
    """Append rows; creates the table with the first ones. Commits by several programs do not conflict.

    Small files are compacted when they are many. Those that they replace stay for readers for a week.
    """
    if not rows:
        return
    folder = root / FOLDER
    table = pa.Table.from_pylist([asdict(row) for row in rows], _SCHEMA)
    write_deltalake(folder.url, table, mode="append", storage_options=dict(folder.options) or None)
    with suppress(DeltaError, OSError):  # the rows are appended; another program may compact now, or the disk is full
        delta = open_table(folder)
        if len(delta.file_uris()) > MOST_FILES:
            delta.optimize.compact()
            delta.vacuum(dry_run=False)

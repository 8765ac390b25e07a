"""The Delta table `_tm_differences` in a destination: the rows that verifications found to differ.

Rows are as published: masked columns are masked here too. The table keeps what was found; it does not say what was repaired since.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

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


@dataclass(frozen=True)
class DifferenceRow:
    """A row that differs."""

    found_at: datetime
    table: str
    kind: str
    """missing, extra, different or duplicate."""
    key: str
    """A JSON list of texts, in the order of the primary key."""
    columns: list[str]
    """The columns that differ, of a different row."""
    cause: str
    source: str | None
    """The source's row as JSON; None if it has none."""
    mirror: str | None
    """The mirror's row as JSON."""
    position: str
    """Where both were compared: at this position or later."""
    version: int
    """The version of the mirror, as its comparison began."""


def append_differences(root: Path, rows: Sequence[DifferenceRow]) -> None:
    """Append rows; creates the table with the first ones. Commits by several programs do not conflict.

    Small files are compacted when they are many. Those that they replace stay for readers for a week.
    """
    if not rows:
        return
    write_deltalake(root / FOLDER, pa.Table.from_pylist([asdict(row) for row in rows], _SCHEMA), mode="append")
    with suppress(DeltaError, OSError):  # the rows are appended; another program may compact now, or the disk is full
        table = DeltaTable(root / FOLDER)
        if len(table.file_uris()) > MOST_FILES:
            table.optimize.compact()
            table.vacuum(dry_run=False)

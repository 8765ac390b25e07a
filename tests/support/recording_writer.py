"""A writer as users write one: it adds the rows that it gets to a file."""

import json
import os
from pathlib import Path
from typing import Any

FILE = "TIDEMARK_TEST_WRITER"
"""The variable with the file's path."""


def write(_spark: Any, table: str, changes: Any, epoch: int) -> None:
    """Add the rows, in order."""
    rows = changes.to_pylist() if hasattr(changes, "to_pylist") else [row.asDict() for row in changes.collect()]
    with Path(os.environ[FILE]).open("a") as file:
        for row in rows:
            assert row["_tm_epoch"] == epoch
            file.write(json.dumps({"table": table, **row}, default=str) + "\n")


def written(file: Path) -> list[dict[str, Any]]:
    """The rows of the newest copy, in order, each epoch's once."""
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    newest = max((row["_tm_copy"] for row in rows), default=-1)
    once = {json.dumps(row, sort_keys=True): row for row in rows if row["_tm_copy"] == newest}
    return list(once.values())


def replayed_rows(file: Path) -> dict[int, dict[str, Any]]:
    """The rows by `id` that these changes leave."""
    rows = dict[int, dict[str, Any]]()
    for row in written(file):
        if row["_tm_kind"].startswith("-"):
            rows.pop(row["id"], None)
        else:
            rows[row["id"]] = row
    return rows

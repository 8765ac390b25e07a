"""Saved queries: one file in the home folder, shared by all browsers."""

import json
from contextlib import suppress
from pathlib import Path

from app.common import home
from engine.base.durable import write_atomically
from engine.base.errors import NewerFormatError
from engine.pipeline import formats


def _file() -> Path:
    return home.home() / "queries.json"


def load() -> dict[str, str]:
    """The saved queries, by name; none if the file cannot be read."""
    try:
        record = json.loads(_file().read_text(encoding="utf-8"))
        formats.check("queries", record, _file())
        # The format version is a number. Files without one map the names of queries to their SQL.
        queries = record["queries"] if formats.version_of(record) else record
        return {str(name): str(sql) for name, sql in queries.items()}
    except (OSError, ValueError, AttributeError, KeyError, TypeError, NewerFormatError):
        return {}


def save(name: str, sql: str) -> None:
    """Save a query under a name, replacing any with that name. Raises NewerFormatError as `_write` does."""
    _write({**load(), name: sql})


def forget(name: str) -> None:
    """Delete a saved query."""
    _write({saved_name: sql for saved_name, sql in load().items() if saved_name != name})


def _write(queries: dict[str, str]) -> None:
    """Raises NewerFormatError rather than overwrite a file of a newer version."""
    home.home().mkdir(parents=True, exist_ok=True)
    with suppress(OSError, ValueError):
        formats.check("queries", json.loads(_file().read_text(encoding="utf-8")), _file())
    record = formats.stamped("queries", {"queries": queries})
    write_atomically(_file(), json.dumps(record, indent=1, ensure_ascii=False))

"""Queries that somebody saved: one file in the home, for every browser."""

import json

from app.parts import home
from engine.directory import write_atomically


def load() -> dict[str, str]:
    """The saved queries, by name; none when the file cannot be understood."""
    try:
        found = json.loads((home.home() / "queries.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): str(sql) for name, sql in found.items()} if isinstance(found, dict) else {}


def save(name: str, sql: str) -> None:
    """Keep a query under a name, instead of the one that had it."""
    _write({**load(), name: sql})


def forget(name: str) -> None:
    """Delete a saved query."""
    _write({known: sql for known, sql in load().items() if known != name})


def _write(queries: dict[str, str]) -> None:
    home.home().mkdir(parents=True, exist_ok=True)
    write_atomically(home.home() / "queries.json", json.dumps(queries, indent=1, ensure_ascii=False))

"""Drafts of pipelines and saved connections, as files in the home folder.

So another browser can continue with them.

Neither holds a secret: a password is a reference to a variable or a file.
"""

import json
import re
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import streamlit as st

from app.common import home
from app.common.view.draft import Draft, first_spec, from_dict
from engine.base import clock
from engine.base.durable import write_atomically
from engine.base.errors import NewerFormatError
from engine.pipeline import formats

_ID = re.compile(r"[0-9a-f]{8}")
CONNECTION_KEYS = ("host", "port", "user", "password_env", "password_file", "tls", "tls_ca", "connect_timeout_s")


@st.cache_resource
def _lock() -> Lock:
    return Lock()


def folder() -> Path:
    """The folder of the drafts."""
    return home.home() / ".drafts"


def new_id() -> str:
    """A new id."""
    return uuid.uuid4().hex[:8]


def is_id(identity: str) -> bool:
    """Whether this is the form of an id."""
    return bool(_ID.fullmatch(identity))


def load(identity: str) -> Draft:
    """The draft with that id; a new one if there is none, or it cannot be read. Raises NewerFormatError."""
    if not is_id(identity):
        identity = new_id()
    path = folder() / f"{identity}.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        formats.check("draft", record, path)
        return from_dict(record)
    except (OSError, ValueError, KeyError, TypeError):
        return Draft(identity, first_spec())


def saved_drafts() -> list[Draft]:
    """All drafts on disk that this version can read, the last changed first."""
    drafts = []
    for path in folder().glob("*.json"):
        with suppress(NewerFormatError):
            drafts += [load(path.stem)] if is_id(path.stem) else []
    return sorted((draft for draft in drafts if draft.changed), key=lambda d: d.changed, reverse=True)


def change(identity: str, how: Callable[[Draft], Draft]) -> Draft:
    """Change a draft on disk, under a lock, and return it."""
    with _lock():
        before = load(identity)
        after = how(before)
        if after != before or not after.changed:
            after = replace(after, changed=clock.utc_text())
            folder().mkdir(parents=True, exist_ok=True)
            write_atomically(folder() / f"{identity}.json", json.dumps(after.as_dict(), indent=1, ensure_ascii=False))
    return after


def discard(identity: str) -> None:
    """Delete a draft."""
    if is_id(identity):
        with suppress(FileNotFoundError):
            (folder() / f"{identity}.json").unlink()


def _connections_file() -> Path:
    return home.home() / "connections.json"


def connections() -> dict[str, dict[str, Any]]:
    """Saved connections by name, each with the connection settings of [source]."""
    try:
        record = json.loads(_connections_file().read_text(encoding="utf-8"))
        formats.check("connections", record, _connections_file())
        settings_by_name = record["connections"] if formats.version_of(record) else record
        return {
            str(name): {key: settings[key] for key in CONNECTION_KEYS if key in settings}
            for name, settings in sorted(settings_by_name.items())
        }
    except (OSError, ValueError, AttributeError, TypeError, KeyError, NewerFormatError):
        return {}


def save_connection(name: str, source: Mapping[str, Any]) -> None:
    """Save a connection under a name."""
    _write({**connections(), name: {key: source[key] for key in CONNECTION_KEYS if source.get(key) is not None}})


def forget_connection(name: str) -> None:
    """Delete a saved connection. Pipelines and drafts have their own copies."""
    _write({other: settings for other, settings in connections().items() if other != name})


def _write(connections: Mapping[str, Any]) -> None:
    """Raises NewerFormatError rather than overwrite a file of a newer version."""
    home.home().mkdir(parents=True, exist_ok=True)
    with suppress(OSError, ValueError):
        formats.check("connections", json.loads(_connections_file().read_text(encoding="utf-8")), _connections_file())
    record = formats.stamped("connections", {"connections": dict(connections)})
    write_atomically(_connections_file(), json.dumps(record, indent=1, ensure_ascii=False) + "\n")

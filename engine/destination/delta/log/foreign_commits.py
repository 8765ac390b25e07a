"""The commits in a mirror's Delta log: which of them another program made, and whether they change rows.

A commit changes rows if it adds or removes files with `dataChange`. OPTIMIZE, VACUUM, checkpoints and table properties
do not. The first line of Tidemark's own commits names their writer (`destination.delta.log.delta_actions`), so no other
line of them is read.

Source: Delta transaction log protocol, "Add File and Remove File", "Commit Provenance Information"
(github.com/delta-io/delta, PROTOCOL.md).
"""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from engine.capture.landing import Commit
from engine.destination.delta.log.log_files import commit_name, commit_version, log_of
from engine.store.folder import Folder

_OURS = "Tidemark/"
_LATEST_MS = 253_402_300_800_000
"""The year 10000: no date is later."""
_LONGEST_TEXT = 200
_MOST_OLD = 100
"""The most commits that are read of a log that was not read before."""


def read_commit(folder: Folder, version: int) -> Commit | None:
    """A commit of the table in a folder; None if its file is gone, or not there yet."""
    with suppress(FileNotFoundError, NotADirectoryError):
        name, log = commit_name(version), log_of(folder)
        content = log.read(name)
        info: Mapping[str, Any] = {}
        changes, action = False, dict[str, dict[str, Any]]()
        for line in io.BytesIO(content):
            action = _action(line)
            info = action.get("commitInfo", info)
            changes = changes or any(action.get(name, {}).get("dataChange") for name in ("add", "remove"))
            if info and (changes or _program(info).startswith(_OURS)):
                break
        commit = _commit(version, info, log, changes=changes)
        return replace(commit, is_torn=not action)
    return None


def commits_up_to(folder: Folder, version: int) -> Iterator[Commit]:
    """The commits up to a version, newest first, as far as the log has them."""
    while version >= 0 and (commit := read_commit(folder, version)) is not None:
        yield commit
        version -= 1


def commits_after(folder: Folder, version: int) -> Iterator[Commit]:
    """The commits after a version, oldest first. version: -1 for a log that was not read before.

    If the log is another one now, which ends before that version, its commits are read as those of a new log. A log
    keeps its newest commit, so it is listed only if the version is gone. A torn commit at the end of the log is not
    there yet.
    """
    if version < 0 or not _is_there(folder, version):
        oldest, newest = _ends(folder)
        is_in_log = 0 <= version < newest
        version = max(version if is_in_log else newest - _MOST_OLD, oldest - 1)
    while (commit := read_commit(folder, version + 1)) is not None:
        if commit.is_torn and not _is_there(folder, version + 2):
            break
        yield commit
        version += 1


def _commit(version: int, info: Mapping[str, Any], log: Folder, *, changes: bool) -> Commit:
    ours = _program(info).startswith(_OURS)
    user = ", ".join(str(info[name]) for name in ("userName", "userId") if info.get(name))
    at_ms, parameters = info.get("timestamp"), info.get("operationParameters")
    if isinstance(at_ms, int) and 0 <= at_ms < _LATEST_MS:
        at_s = at_ms / 1000
    else:
        at_s = 0.0 if (entry := log.find(commit_name(version))) is None else entry.changed_s
    return Commit(
        version,
        _text(info.get("operation", "?")),
        _text(user or _program(info)),
        at_s,
        foreign=changes and not ours,
        replaces=ours and isinstance(parameters, Mapping) and parameters.get("mode") == "Overwrite",
    )


def _text(value: object) -> str:
    """A text of another program as one that fits into an event."""
    return str(value).encode("utf-8", "replace").decode()[:_LONGEST_TEXT]


def _program(info: Mapping[str, Any]) -> str:
    return str(info.get("engineInfo") or info.get("clientVersion") or "an unknown program")


def _ends(folder: Folder) -> tuple[int, int]:
    """The oldest and the newest version whose commit the log has; (0, -1) without one."""
    there = [n for entry in log_of(folder).entries() if (n := commit_version(entry.name)) is not None]
    return min(there, default=0), max(there, default=-1)


def _action(line: bytes) -> dict[str, dict[str, Any]]:
    """A line of a commit; empty if a power cut tore it."""
    with suppress(ValueError, RecursionError):
        action = json.loads(line)
        if isinstance(action, dict):
            return {name: content for name, content in action.items() if isinstance(content, dict)}
    return {}


def _is_there(folder: Folder, version: int) -> bool:
    return log_of(folder).find(commit_name(version)) is not None

"""Commands to a runner: a file each in its inbox. `run.commands.command_intake` takes them."""

import fcntl
import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from engine.base import clock
from engine.base.durable import make_folders, write_atomically
from engine.base.processes import this_user
from engine.pipeline import formats
from engine.pipeline.directory import Directory
from engine.pipeline.inbox_access import make_folder, no_access
from engine.pipeline.remote_state.operator_copy import leave
from engine.pipeline.runner_file import runner_json

VERBS = ("pause", "resume", "stop", "throttle", "redump", "add-table", "remove-table", "maintain", "merge")


def send_command(
    directory: Directory,
    verb: str,
    *,
    reason: str = "",
    arguments: Mapping[str, Any] | None = None,
    pipeline: str = "",
    actor: str = "",
) -> str:
    """Put a command into the inbox and return its id; the runner answers in the journal.

    actor: default is this process's user.

    The command names the current run of `runner.json` (null: there was none), so that no other run obeys a stop meant
    for it, and its place among all commands (`seq`). Neither is a time. Raises HelperError if this user may not write
    to the inbox, TransientError if the bucket of the state cannot be reached, OSError.
    """
    identity = uuid.uuid4().hex[:12]
    make_folders(directory.root)
    make_folder(directory.inbox)
    command = {
        formats.FIELD: formats.VERSIONS["command"],
        "id": identity,
        "verb": verb,
        "actor": actor or this_user(),
        "reason": reason,
        "sent": clock.utc_text(),
        "run": _run_seen(directory),
        "seq": _next_place(directory),
        "arguments": dict(arguments or {}),
        "pipeline": pipeline or None,
    }
    text = json.dumps(command, indent=1)
    try:
        if not leave(directory, f"inbox/{identity}.json", text.encode()):
            write_atomically(directory.inbox / f"{identity}.json", text)
    except PermissionError:
        raise no_access(directory.inbox, "The command was not sent.") from None
    return identity


def _run_seen(directory: Directory) -> str | None:
    with suppress(ValueError, KeyError):
        record = runner_json(directory.runner)
        return str(record["run"]) if record else None
    return None


def _next_place(directory: Directory) -> int | None:
    """Count commands in a separate file. Returns None if that fails; the runner then uses the order of arrival."""
    try:
        with (directory.inbox / ".sequence").open("a+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read().strip()
            place = (int(text) if text.isdigit() else 0) + 1
            file.seek(0)
            file.truncate()
            file.write(str(place))
    except OSError:
        return None
    return place

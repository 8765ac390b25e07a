"""Takes the commands that operators have left in a bucket into a runner's copy, in the order in which they came."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.base import clock
from engine.pipeline.remote_state.names import INBOX
from engine.pipeline.remote_state.state_copy import StateCopy
from engine.store.folder import Folder


@dataclass(frozen=True)
class SentCommand:
    """A command that waits in the bucket."""

    sent_s: float
    """When it was written, by the store's clock."""
    place: int
    """Its place among the commands of its host."""
    name: str
    content: bytes


def take_commands(inbox: Folder, root: Path, copy: StateCopy) -> None:
    """Take the commands that the copy lacks, and delete those that a runner of another host has answered.

    inbox: in the bucket. root: the copy's folder. Raises OSError.
    """
    entries = [entry for entry in inbox.entries() if entry.name.endswith(".json")]
    commands = []
    for entry in entries:
        if not copy.has(f"{INBOX}/{entry.name}"):
            with suppress(FileNotFoundError):
                content = inbox.read(entry.name)
                commands.append(SentCommand(entry.changed_s, _place(content), entry.name, content))
    for command in sorted(commands, key=lambda one: (one.sent_s, one.place)):
        _take(inbox, command, copy)
    waiting = {entry.name for entry in entries}
    for path in sorted((root / INBOX).glob("*.json")):
        if path.name not in waiting:
            copy.forget(f"{INBOX}/{path.name}")


def _take(inbox: Folder, command: SentCommand, copy: StateCopy) -> None:
    """Claim a command in the bucket, as `pipeline.command_queue` has it, and put it into the copy.

    One that was withdrawn is taken with that claim, for which the intake refuses it.
    """
    claim = f"claims/{Path(command.name).stem}"
    content = _stamped(command.content)
    if inbox.create(claim, command.content):
        if inbox.find(command.name) is None:  # it was withdrawn, and the claim for that is gone already
            inbox.delete([claim])
            return
        copy.take(f"{INBOX}/{claim}", content)
    else:
        with suppress(FileNotFoundError):
            copy.take(f"{INBOX}/{claim}", inbox.read(claim))
    copy.take(f"{INBOX}/{command.name}", content)


def _place(content: bytes) -> int:
    with suppress(ValueError, AttributeError):
        place = json.loads(content).get("seq")
        return place if isinstance(place, int) else 0
    return 0


def _stamped(content: bytes) -> bytes:
    """A command with its place among those that this runner takes: hosts count for themselves."""
    with suppress(ValueError, TypeError):
        record = json.loads(content)
        if isinstance(record, dict):
            return json.dumps({**record, "seq": int(clock.monotonic_s() * 1e9)}, indent=1).encode()
    return content

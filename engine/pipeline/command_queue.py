"""The commands that wait for a runner, and their withdrawal.

    <directory>/inbox/<id>.json            a command
    <directory>/inbox/claims/<id>          who has claimed it: a second name of the command's file, or a withdrawal
    <directory>/inbox/withdrawn/<id>.json  a withdrawn command: who withdrew it, when and why

A withdrawn command is never carried out, also when a runner starts at that moment. Both sides must claim the command
before they do anything: they give a file of their own the name `claims/<id>`, which `link` does for one of them only
(`engine.base.durable`). A run links the command's file itself, so a later run knows the claim of an earlier one as its
own kind, and continues. A withdrawal links a file that says so, then removes the command's file, and moves the claim to
`withdrawn/` last. If it is killed in between, the claim stands, and the next run refuses the command. A run removes its
claim when it has answered the command.

Commands for one run (stop, and pause and resume of the whole pipeline) need no claim: the next run refuses them.
"""

import errno
import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.base import clock
from engine.base.durable import link, write_atomically
from engine.base.errors import SpecError
from engine.base.processes import this_user
from engine.base.wording import plural, utc_time
from engine.pipeline.directory import Directory
from engine.pipeline.inbox_access import make_folder, require_writable
from engine.pipeline.remote_state.operator_copy import claim as claim_remotely
from engine.pipeline.remote_state.operator_copy import discard, leave
from engine.spec.folder_names import folder_name

GONE = "It is not in the inbox any more."
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors of file systems without hard links. Nothing can be withdrawn there, so nothing need be claimed."""
_KEPT = 1000
"""The newest commands that are kept, per answer, and of those that were withdrawn."""
CommandOutcome = Literal["done", "refused"]


@dataclass(frozen=True)
class Waiting:
    """A command in the inbox."""

    id: str
    """The name of its file, which is the command's own id unless it was written by hand."""
    verb: str
    actor: str
    reason: str
    sent: str
    """UTC text; empty if unknown."""
    what: str
    """What it is about, in words."""
    withdrawable: bool
    """Whether it waits for any run, and no run has accepted it."""
    note: str = ""
    """Why it cannot be withdrawn."""


def waiting_commands(directory: Directory) -> list[Waiting]:
    """The commands in the inbox, in the order in which a run takes them. Files that are no commands are left out."""
    commands = []
    for path in directory.inbox.glob("*.json"):
        with suppress(OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
            record = json.loads(path.read_text(encoding="utf-8"))
            place = record.get("seq")
            order = (not isinstance(place, int), place if isinstance(place, int) else path.stat().st_mtime_ns)
            commands.append((order, _waiting(path, record)))
    return [one for _, one in sorted(commands, key=lambda pair: pair[0])]


def withdraw(directory: Directory, identity: str, *, actor: str = "", reason: str = "") -> Waiting:
    """Withdraw a command that no run has accepted. actor: default is this process's user.

    Raises SpecError if there is none, or if a run has accepted it; HelperError if this user may not write to the inbox;
    OSError.
    """
    require_writable(directory.inbox, "Nothing was withdrawn.")
    command = next((one for one in waiting_commands(directory) if one.id == identity), None)
    if command is None:
        raise _refused(f"No command {identity!r} waits", "`tidemark queue SPEC` lists those that do.")
    if not command.withdrawable:
        raise _refused(f"The command {identity} cannot be withdrawn: {command.note}", "See its answer in the journal.")
    by = {"actor": actor.strip() or this_user(), "at": clock.utc_text(), "reason": reason.strip()}
    try:
        _withdraw(directory, directory.inbox / f"{identity}.json", by)
    except FileNotFoundError:  # its file is gone, or the claim of a run that has answered it a moment ago
        raise _refused(f"No command {identity!r} waits", "A run has answered it: see the journal.") from None
    return command


def _withdraw(directory: Directory, path: Path, by: Mapping[str, str]) -> None:
    """Claim the command and remove its file. Raises SpecError if it is claimed, FileNotFoundError if it is answered."""
    text = json.dumps({**json.loads(path.read_text(encoding="utf-8")), "withdrawn": by}, ensure_ascii=False, indent=1)
    there = claim_remotely(directory, f"inbox/claims/{path.stem}", text.encode())
    if there is not None:
        _withdraw_remotely(directory, path, there)
        return
    claim = _claim(path)
    make_folder(claim.parent)
    mine = claim.with_name(f".{uuid.uuid4().hex}")
    write_atomically(mine, text)
    try:
        claimed = link(mine, claim)
    finally:
        mine.unlink(missing_ok=True)
    if not claimed:
        raise _refused(f"The command {path.stem} cannot be withdrawn: {_ACCEPTED}", "See its answer in the journal.")
    try:
        path.unlink()
    except FileNotFoundError:
        if not (path.parent / "refused" / path.name).exists():
            claim.unlink(missing_ok=True)
            raise
        # A run has seen this claim already, and has refused the command for it.
    _keep(path.parent / "withdrawn", claim, path.name)


def _withdraw_remotely(directory: Directory, path: Path, claim: bytes) -> None:
    """Remove a command whose state is in a bucket. claim: that is there; perhaps an earlier withdrawal's, unfinished.

    Raises SpecError if it is a run's.
    """
    if "withdrawn" not in json.loads(claim):
        raise _refused(f"The command {path.stem} cannot be withdrawn: {_ACCEPTED}", "See its answer in the journal.")
    leave(directory, f"inbox/withdrawn/{path.name}", claim)
    discard(directory, [f"inbox/{path.name}", f"inbox/claims/{path.stem}"])


def claim_for_run(path: Path) -> str:
    """Claim a command before it is carried out.

    Returns why it must not be; "" if it may, also if an earlier run claimed it.

    Raises OSError, as on a full disk.
    """
    claim = _claim(path)
    try:
        make_folder(claim.parent)
        if _linked(path, claim):
            return ""
        by = json.loads(claim.read_text(encoding="utf-8"))["withdrawn"]
    except FileNotFoundError:
        return GONE
    except OSError as error:
        if error.errno in _NO_LINKS:
            return ""
        raise
    why = f": {by['reason']}" if by["reason"] else ""
    return f"{by['actor']} withdrew it at {utc_time(by['at'])}{why}."


def _linked(path: Path, claim: Path) -> bool:
    """Link a command to its claim; False if another one has it."""
    try:
        return link(path, claim)
    except PermissionError:
        # Linux forbids a link to another user's file (`fs.protected_hardlinks`). A copy claims as well.
        mine = claim.with_name(f".{uuid.uuid4().hex}")
        write_atomically(mine, path.read_text(encoding="utf-8"))
        try:
            return link(mine, claim)
        finally:
            mine.unlink(missing_ok=True)


def release(path: Path) -> None:
    """Remove the claim of a command that was answered. path: where its file was in the inbox."""
    with suppress(OSError):
        _claim(path).unlink(missing_ok=True)


def keep_answered(path: Path, answer: CommandOutcome, identity: str) -> None:
    """Move the file of an answered command out of the inbox, and prune old ones. Raises OSError."""
    folder = path.parent / answer
    make_folder(folder)
    path.replace(answered_file(path.parent, answer, identity))
    release(path)
    for old in sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)[:-_KEPT]:
        old.unlink(missing_ok=True)


def answered_file(inbox: Path, answer: CommandOutcome, identity: str) -> Path:
    """Where the file of an answered command is kept."""
    return inbox / answer / f"{folder_name(identity)}.json"  # an id may contain any character


_ACCEPTED = "a run has accepted it"


def _claim(path: Path) -> Path:
    return path.parent / "claims" / path.stem


def _keep(folder: Path, claim: Path, name: str) -> None:
    make_folder(folder)
    with suppress(FileNotFoundError):  # a run that began meanwhile has cleaned up
        claim.replace(folder / name)
        for old in sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)[:-_KEPT]:
            old.unlink(missing_ok=True)


def _waiting(path: Path, record: Mapping[str, Any]) -> Waiting:
    verb, arguments = str(record["verb"]), record.get("arguments") or {}
    note = ""
    if verb == "stop" or (verb in ("pause", "resume") and not arguments):
        note = "it is for one run, and the next run refuses it"
    elif _claim(path).exists():
        note = _ACCEPTED
    actor, reason, sent = (str(record.get(name) or "") for name in ("actor", "reason", "sent"))
    return Waiting(path.stem, verb, actor, reason, sent, _what(verb, arguments), not note, note)


def _what(verb: str, arguments: Mapping[str, Any]) -> str:
    """`shop.orders, rows by 2 keys`, `max_rows_per_s=20000 for 2h`."""
    if verb == "throttle":
        if arguments.get("reset"):
            return "the settings of the spec"
        period = f" for {arguments['for']}" if arguments.get("for") else ""
        return ", ".join(f"{name}={value}" for name, value in arguments.items() if name != "for") + period
    if verb == "stop" or arguments.get("snapshot") or (verb in ("pause", "resume") and not arguments):
        return "the snapshot" if arguments.get("snapshot") else "the whole pipeline"
    names = arguments.get("tables") or ()
    parts = [", ".join(map(str, names)) or "all tables"]
    if chunks := arguments.get("chunks"):
        parts.append(f"chunks {', '.join(map(str, chunks))}")
    if limits := arguments.get("range"):
        parts.append(f"range {' to '.join(map(str, limits))}")
    if keys := arguments.get("keys"):
        parts.append(plural(len(keys), "row"))
    if arguments.get("drop"):
        parts.append("mirrors and change logs are deleted")
    return ", ".join(parts)


def _refused(message: str, hint: str) -> SpecError:
    return SpecError(f"{message}.", detail="Nothing was changed.", hint=hint)

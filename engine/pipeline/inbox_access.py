"""Who may write to the inbox.

Its folders must belong to the user whose runner has the pipeline, whoever sends commands.
"""

import os
from contextlib import suppress
from pathlib import Path

from engine.base.errors import HelperError
from engine.base.processes import this_user

_WRITE = os.W_OK | os.X_OK


def make_folder(folder: Path) -> None:
    """Make a folder below the pipeline's directory.

    Root makes it for the owner of the directory, whose runner must write there.
    """
    try:
        folder.mkdir()
    except FileExistsError:
        return
    if os.geteuid() == 0:
        with suppress(OSError):
            above = folder.parent.stat()
            os.chown(folder, above.st_uid, above.st_gid)


def unwritable(inbox: Path) -> Path | None:
    """The first folder of an inbox in which this user may not create files; None if there is none."""
    folders = (inbox, *(inbox / name for name in ("claims", "done", "refused", "withdrawn")))
    return next((one for one in folders if one.is_dir() and not os.access(one, _WRITE, effective_ids=True)), None)


def require_writable(inbox: Path, detail: str) -> None:
    """Raises HelperError if this user may not write to a folder of an inbox. detail: what that means."""
    if (folder := unwritable(inbox)) is not None:
        raise no_access(folder, detail)


def no_access(folder: Path, detail: str) -> HelperError:
    """The error about a folder of the inbox that this user may not write to."""
    owner = f"uid {folder.stat().st_uid}"
    with suppress(KeyError):
        owner = folder.owner()
    inbox = next((one for one in (folder, *folder.parents) if one.name == "inbox"), folder)
    return HelperError(
        f"The folder {folder} belongs to {owner}, and {this_user()} may not write to it.",
        detail=detail,
        hint=f"Give it to the user whose runner has the pipeline: sudo chown -R USER {inbox}. No restart is needed. "
        "Send commands as that user, or as root.",
    )

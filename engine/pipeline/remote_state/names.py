"""Which files below the URL of a state are a pipeline's state, and who writes them.

Nothing else below it is read, copied or deleted: it may be a lake, or the state of another pipeline.
"""

import re
import secrets
from collections.abc import Iterable

from engine.store.folder import Folder

LEASE, SPEC = "lease.json", "pipeline.toml"
LEDGER, JOURNAL, TAIL, INBOX = "ledger", "journal", "journal-tail", "inbox"
_RESTORED = re.compile(rf"^{LEDGER}-(\d{{6}})-[0-9a-f]{{6}}$")
RUNNER_FILES = ("alerts.json", "controls.json", "parked.json", "space.json")
RUNNER_FOLDERS = ("verify", "maintenance")
"""With the folders in them."""
ANSWERS = ("inbox/done", "inbox/refused", "inbox/claims")
OPERATORS = ("acknowledged", "silences", "inbox/withdrawn")
"""Folders whose files operators write, besides commands."""


def ledger_folders(state: Folder) -> list[str]:
    """The folders of the ledger and of those that restores made, oldest first."""
    return [name for name in state.folders() if name == LEDGER or _RESTORED.match(name)]


def new_ledger_folder(folders: Iterable[str]) -> str:
    """A name for the folder of a restored ledger, after all others; unique. folders: the others."""
    number = max((int(match[1]) for name in folders if (match := _RESTORED.match(name))), default=0) + 1
    return f"{LEDGER}-{number:06d}-{secrets.token_hex(3)}"


def is_copied(name: str) -> bool:
    """Whether a file of the bucket belongs into the copies of hosts, under its name."""
    folder, _, own = name.rpartition("/")
    if own.startswith(".") or {"", ".", ".."} & set(name.split("/")):
        return False
    return is_runners(name) or folder in (LEDGER, JOURNAL, INBOX, *OPERATORS)


def is_runners(name: str) -> bool:
    """Whether a runner writes and deletes a file, but for its ledger and its journals, which have ways of their own."""
    folder, _, own = name.rpartition("/")
    if name in RUNNER_FILES or folder in ANSWERS:
        return True
    return folder.partition("/")[0] in RUNNER_FOLDERS and own.endswith(".json")


def is_piece(name: str) -> bool:
    """Whether a file is a piece of a journal's end (`journal_tail`)."""
    parts = name.split("/")
    return len(parts) == 3 and parts[0] == TAIL and parts[2].isdigit() and parts[1] not in ("", ".", "..")

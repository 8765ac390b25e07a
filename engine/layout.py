"""Where a table's files are in a destination (docs/destinations.md)."""

import re
from pathlib import Path
from urllib.parse import unquote

from engine.errors import SpecError

_LOG = "__changes"
_LONGEST_NAME = 255


def folder_name(name: str) -> str:
    """A database's or table's name as a folder name: all but letters, digits, `_`, `-` and `.` percent-encoded as UTF-8.

    ASCII only: what a letter is must not depend on a file system. A name of dots alone is encoded too.
    """
    if set(name) <= {"."}:
        return name.replace(".", "%2E")
    keep = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
    return "".join(c if c in keep else "".join(f"%{byte:02X}" for byte in c.encode()) for c in name)


def folder_fault(database: str, table: str) -> str:
    """Why a table cannot have folders of its own in a destination, or empty."""
    for name, ending in ((database, ""), (table, _LOG)):
        if set(name) <= {"."} or "/" in name:
            return f"{name!r} is of dots alone or holds a slash, which no reader takes for a name"
        if re.search("%[0-9A-F]{2}", name):
            return f"{name!r} holds a percent sign with two digits, which is how the folder of another name is written"
        if len(folder_name(name) + ending) > _LONGEST_NAME:
            return f"{name!r} is percent-encoded longer than a folder's name can be ({_LONGEST_NAME} bytes)"
    return f"{table!r} ends like the change log of another table" if table.casefold().endswith(_LOG) else ""


def make_readable(folder: Path) -> None:
    """Create a table's folder, and where its name or its database's is percent-encoded a link under the plain name.

    deltalake (1.6) decodes the path of a local table once more than it should where it reads the table's log, and finds it through
    the link; a table is else neither written nor read. Raises SpecError when something else has the plain name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for real in (folder.parent, folder):
        plain = real.parent / unquote(real.name)
        if plain == real or (plain.is_symlink() and plain.resolve() == real.resolve()):
            continue
        try:
            plain.symlink_to(real.name)
        except FileExistsError:
            raise SpecError(
                f"The destination needs the name {plain} for a link to {real.name}, and something else has it.",
                detail="Tables are read through that link; nothing was written.",
                hint="Exclude one of the two tables, or give it a pipeline and a sink.path of its own.",
            ) from None


def mirror_folder(root: Path, database: str, table: str) -> Path:
    """The table that equals the source's."""
    return root / folder_name(database) / folder_name(table)


def changes_folder(root: Path, database: str, table: str) -> Path:
    """The table's change log."""
    return root / folder_name(database) / f"{folder_name(table)}{_LOG}"

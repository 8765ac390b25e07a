"""The folders of a table in a destination (docs/destinations.md)."""

import re
from pathlib import Path
from urllib.parse import unquote

from engine.errors import SpecError

_LOG = "__changes"
_KEPT = re.compile(r"__changes__until_\d{8}T\d{6}", re.IGNORECASE)
_LONGEST_NAME = 255


def folder_name(name: str) -> str:
    """The folder name for a database or table: all but letters, digits, `_`, `-` and `.` is percent-encoded as UTF-8.

    ASCII only: what counts as a letter must not depend on a file system. A name that consists of dots is encoded too.
    """
    if set(name) <= {"."}:
        return name.replace(".", "%2E")
    keep = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
    return "".join(c if c in keep else "".join(f"%{byte:02X}" for byte in c.encode()) for c in name)


def folder_fault(database: str, table: str) -> str:
    """Why a table cannot have its own folders in a destination; empty if it can."""
    for name, ending in ((database, ""), (table, _LOG)):
        if set(name) <= {"."} or "/" in name:
            return f"{name!r} consists of dots or contains a slash, which readers do not accept as a name"
        if re.search("%[0-9A-F]{2}", name):
            return f"{name!r} contains a percent sign and two digits, which is how another name's folder is encoded"
        if len(folder_name(name) + ending) > _LONGEST_NAME:
            return f"{name!r} is too long for a folder name when percent-encoded ({_LONGEST_NAME} bytes at most)"
    taken = table.casefold().endswith(_LOG) or _KEPT.search(table)
    return f"{table!r} ends like the change log of another table" if taken else ""


def make_readable(folder: Path) -> None:
    """Create a table's folder. If its name or its database's is percent-encoded, add a link under the plain name.

    deltalake (1.6) decodes a local table's path once too often when it reads the table's log, and finds it through the link.
    Without it, a table can be neither written nor read. Raises SpecError if something else has the plain name.
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
                f"The destination needs the name {plain} for a link to {real.name}, but something else has that name.",
                detail="Tables are read through that link. Nothing was written.",
                hint="Exclude one of the two tables, or give it its own pipeline and sink.path.",
            ) from None


def check_no_link(folder: Path) -> None:
    """Raises SpecError when a table's folder is such a link."""
    if folder.is_symlink() or folder.parent.is_symlink():
        raise SpecError(
            f"The destination {folder} is a link, which is how another table's folder is read.",
            detail="Two tables would be mixed; nothing was written.",
            hint="Exclude one of the two tables, or give it a pipeline and a sink.path of its own.",
        )


def mirror_folder(root: Path, database: str, table: str) -> Path:
    """The folder of the table's mirror."""
    return root / folder_name(database) / folder_name(table)


def kept_changes_folder(changes: Path, until: str) -> Path:
    """The folder that keeps an earlier generation of a change log. until: when it ended, as `clock.utc_text`."""
    return changes.with_name(f"{changes.name}__until_{until[:19].replace('-', '').replace(':', '')}Z")


def changes_folder(root: Path, database: str, table: str) -> Path:
    """The folder of the table's change log."""
    return root / folder_name(database) / f"{folder_name(table)}{_LOG}"

"""The folder names of a table in a destination, and names that have none."""

import re

CHANGES = "__changes"
ICEBERG = "__iceberg"
"""What follows the name of a Delta table's folder in that of its Iceberg metadata."""
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
    for name, ending in ((database, ""), (table, CHANGES)):
        if set(name) <= {"."} or "/" in name:
            return f"{name!r} consists of dots or contains a slash, which readers do not accept as a name"
        if re.search("%[0-9A-F]{2}", name):
            return f"{name!r} contains a percent sign and two digits, which is how another name's folder is encoded"
        if len(folder_name(name) + ending) > _LONGEST_NAME:
            return f"{name!r} is too long for a folder name when percent-encoded ({_LONGEST_NAME} bytes at most)"
    clashes = table.casefold().endswith(CHANGES) or _KEPT.search(table)
    return f"{table!r} ends like the change log of another table" if clashes else ""

"""Where a table's files are in a destination (DESIGN 4)."""

from pathlib import Path


def folder_name(name: str) -> str:
    """A database's or table's name as a folder name: all but letters, digits, `_`, `-` and `.` percent-encoded as UTF-8.

    ASCII only: what a letter is must not depend on a file system. A name of dots alone is encoded too.
    """
    if set(name) <= {"."}:
        return name.replace(".", "%2E")
    keep = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
    return "".join(c if c in keep else "".join(f"%{byte:02X}" for byte in c.encode()) for c in name)


def mirror_folder(root: Path, database: str, table: str) -> Path:
    """The table that equals the source's."""
    return root / folder_name(database) / folder_name(table)


def changes_folder(root: Path, database: str, table: str) -> Path:
    """The table's change log."""
    return root / folder_name(database) / f"{folder_name(table)}__changes"

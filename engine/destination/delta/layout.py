"""The folders of a table in a destination (docs/destinations.md)."""

from pathlib import Path
from urllib.parse import unquote

from engine.base.errors import SpecError
from engine.decode.schema import Table
from engine.spec.folder_names import CHANGES, folder_name


def make_readable(folder: Path) -> None:
    """Create a table's folder. If its name or its database's is percent-encoded, add a link under the plain name.

    deltalake (1.6) decodes a local table's path once too often when it reads the table's log, and finds it through the
    link. Without it, a table can be neither written nor read. Raises SpecError if something else has the plain name.
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
    return root / folder_name(database) / f"{folder_name(table)}{CHANGES}"


def folders(root: Path, table: Table) -> tuple[Path, Path]:
    """The folders for a table's chunks and for its changes. A table without a key has its chunk in the change log."""
    changes = changes_folder(root, table.database, table.name)
    return (mirror_folder(root, table.database, table.name) if table.key else changes), changes

"""The folders of a table in a destination (docs/destinations.md).

deltalake (1.6) decodes a table's path once too often when it reads the table's log. In a file system it finds the log
through a link (`make_readable`); a bucket has no links, so there `~` stands for `%` in names.
"""

from urllib.parse import unquote

from engine.base.durable import make_folders
from engine.base.errors import SpecError
from engine.decode.schema import Table
from engine.destination.place_names import place_name
from engine.spec.folder_names import CHANGES
from engine.store.folder import Folder
from engine.store.local_folder import LocalFolder


def make_readable(folder: Folder) -> None:
    """Create a table's folder. If its name or its database's is percent-encoded, add a link under the plain name.

    Without it, a table can be neither written nor read. A folder of a bucket needs neither. Raises SpecError if
    something else has the plain name.
    """
    if not isinstance(folder, LocalFolder):
        return
    make_folders(folder.path)
    for real in (folder.path.parent, folder.path):
        plain = real.parent / unquote(real.name)
        if plain == real:
            continue
        try:
            plain.symlink_to(real.name)
        except FileExistsError:
            if plain.is_symlink() and plain.resolve() == real.resolve():
                continue  # of an earlier run, or of another table of the database
            raise SpecError(
                f"The destination needs the name {plain} for a link to {real.name}, but something else has that name.",
                detail="Tables are read through that link. Nothing was written.",
                hint="Exclude one of the two tables, or give it its own pipeline and sink.path.",
            ) from None


def check_no_link(folder: Folder) -> None:
    """Raises SpecError when a table's folder is such a link."""
    if isinstance(folder, LocalFolder) and (folder.path.is_symlink() or folder.path.parent.is_symlink()):
        raise SpecError(
            f"The destination {folder.url} is a link, which is how another table's folder is read.",
            detail="Two tables would be mixed; nothing was written.",
            hint="Exclude one of the two tables, or give it a pipeline and a sink.path of its own.",
        )


def mirror_folder(root: Folder, database: str, table: str) -> Folder:
    """The folder of the table's mirror."""
    return root / place_name(root, database) / place_name(root, table)


def kept_changes_folder(changes: Folder, until: str) -> Folder:
    """The folder that keeps an earlier generation of a change log. until: when it ended, as `clock.utc_text`."""
    return changes.parent / (f"{changes.name}__until_{until[:19].replace('-', '').replace(':', '')}Z")


def changes_folder(root: Folder, database: str, table: str) -> Folder:
    """The folder of the table's change log."""
    return root / place_name(root, database) / f"{place_name(root, table)}{CHANGES}"


def folders(root: Folder, table: Table) -> tuple[Folder, Folder]:
    """The folders for a table's chunks and for its changes. A table without a key has its chunk in the change log."""
    changes = changes_folder(root, table.database, table.name)
    return (mirror_folder(root, table.database, table.name) if table.key else changes), changes

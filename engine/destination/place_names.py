"""What folders are called in a destination: a bucket has no links with plain names, so there `~` stands for `%`."""

from urllib.parse import unquote

from engine.spec.folder_names import CHANGES, folder_name
from engine.store.folder import Folder
from engine.store.local_folder import LocalFolder


def place_name(root: Folder, text: str) -> str:
    """The folder name of a database or table. root: the destination."""
    name = folder_name(text)
    return name if isinstance(root, LocalFolder) else name.replace("%", "~")


def table_at(root: str, url: str) -> str:
    """The full name of the table whose folder, or a folder below that, has a URL in a bucket; "" for other folders.

    root: the URL of the destination.
    """
    parts = url.removeprefix(root).strip("/").split("/")
    if len(parts) < 2 or parts[0].startswith("_"):
        return ""
    database, table = (unquote(part.replace("~", "%")) for part in parts[:2])
    return f"{database}.{table.partition(CHANGES)[0]}"

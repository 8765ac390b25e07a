"""What folders are called in a destination: a bucket has no links with plain names, so there `~` stands for `%`."""

from engine.spec.folder_names import folder_name
from engine.store.folder import Folder
from engine.store.local_folder import LocalFolder


def place_name(root: Folder, text: str) -> str:
    """The folder name of a database or table. root: the destination."""
    name = folder_name(text)
    return name if isinstance(root, LocalFolder) else name.replace("%", "~")

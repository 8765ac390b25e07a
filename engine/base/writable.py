"""Whether a folder can be written, found by writing: permissions alone do not show a read-only disk.

Whether an error is about a folder, and about which: the paths that an error names.
"""

import re
import uuid
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from engine.base.errors import is_disk_full, is_forbidden, trace_ending

_PATH = re.compile(r"/[^\s'\":,;()]+")


def named_paths(error: BaseException | None) -> Iterator[Path]:
    """The paths in an error and its causes. Texts of Arrow and deltalake count if the path or its folder is there."""
    while error is not None:
        if isinstance(error, OSError) and isinstance(error.filename, str):
            yield Path(error.filename)
        for text in _PATH.findall(trace_ending(str(error))):
            path = Path(text.rstrip("."))
            with suppress(OSError):
                if path.exists() or (path.parent != Path("/") and path.parent.is_dir()):
                    yield path
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def is_denied_in(error: BaseException, folders: Collection[Path]) -> bool:
    """Whether an error denies the user a file in one of the folders.

    The permission may be back by now, so the path in the error counts. Without one, the folders are tried.
    """
    if not is_forbidden(error):
        return False
    paths = list(named_paths(error))
    return any(path.is_relative_to(folder) for path in paths for folder in folders) or any(map(write_fault, folders))


def write_fault(folder: Path) -> str:
    """Why the folder, or the nearest one above it that exists, cannot be written.

    Empty if it can, or if its disk is only full.
    """
    there = next((place for place in (folder, *folder.parents) if place.exists()), folder)
    probe = there / f".tidemark-room-{uuid.uuid4().hex}"
    try:
        with probe.open("xb") as file:
            file.write(b"?")
    except OSError as error:
        return "" if is_disk_full(error) else f"{there}: {error.strerror}"
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
    return ""

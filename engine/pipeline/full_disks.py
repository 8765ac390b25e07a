"""Which file did not fit on a full disk, and on which disk it is."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from engine.base.wording import size

_PATH = re.compile(r"/[^\s'\":,;()]+")


def file_of(error: BaseException) -> Path | None:
    """The file or folder that an error, or one of its causes, names; None if none does."""
    return next(_named(error), None)


def _named(error: BaseException | None) -> Iterator[Path]:
    """The paths in an error and its causes. Texts of Arrow and deltalake count if the path or its folder is there."""
    while error is not None:
        if isinstance(error, OSError) and isinstance(error.filename, str):
            yield Path(error.filename)
        for found in _PATH.findall(str(error)):
            path = Path(found.rstrip("."))
            with suppress(OSError):
                if path.exists() or (path.parent != Path("/") and path.parent.is_dir()):
                    yield path
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def mount_of(path: Path) -> Path | None:
    """Where the disk of a file is mounted; None if that cannot be found."""
    with suppress(OSError):
        place = path.absolute()
        while not place.is_dir():
            place = place.parent
        while not os.path.ismount(place):
            place = place.parent
        return place
    return None


def room_on(mount: Path) -> str:
    """`/data has 12 KB of 64 MB free`; empty if that cannot be found."""
    with suppress(OSError):
        usage = shutil.disk_usage(mount)
        return f"{mount} has {size(usage.free)} of {size(usage.total)} free"
    return ""

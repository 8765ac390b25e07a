"""Whether a folder can be written, found by writing: permissions alone do not show a read-only disk."""

import uuid
from contextlib import suppress
from pathlib import Path

from engine.base.errors import is_disk_full


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

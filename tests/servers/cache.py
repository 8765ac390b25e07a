"""The per-user cache folder of unpacked servers and initialised data directories, and its locks."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/tidemark``, by default ``~/.cache/tidemark``; made when missing."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "tidemark"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the cache's lock of that name: two test runs that start together build each thing once."""
    with (cache_folder() / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

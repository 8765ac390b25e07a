"""The files that DuckDB may read, in a file system that cannot write.

DuckDB's `allowed_paths` may also be written. So DuckDB gets no path of the disk: it gets names in this file system,
which opens for reading the files that it was given, and does nothing else.
"""

import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fsspec.spec import AbstractFileSystem

_PROTOCOL = "tidemark"
_READ = ("r", "rb")


class ReadOnlyFile:
    """A file opened for reading. Several threads may use it: each has a place of its own."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._size = os.fstat(self._descriptor).st_size
        self._place = threading.local()
        self.closed = False

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set this thread's place."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: self._size}[whence]
        self._place.offset = base + offset
        return self.tell()

    def tell(self) -> int:
        """This thread's place."""
        return int(getattr(self._place, "offset", 0))

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes from this thread's place on; fewer only at the end of the file."""
        wanted = self._size - self.tell() if size < 0 else size
        parts = []
        while wanted > 0 and (part := os.pread(self._descriptor, wanted, self.tell())):
            parts.append(part)
            wanted -= len(part)
            self._place.offset = self.tell() + len(part)
        return b"".join(parts)

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self.closed = True
            os.close(self._descriptor)


class ReadOnlyFiles(AbstractFileSystem):  # type: ignore[misc] # DuckDB takes nothing else
    """Some files of the disk by other names."""

    protocol = _PROTOCOL
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._paths: dict[str, Path] = {}

    @property
    def names(self) -> list[str]:
        """The names of all files."""
        return [f"{_PROTOCOL}://{name}" for name in self._paths]

    def add(self, path: Path) -> str:
        """Give a file of the disk a name, and return it."""
        name = f"{len(self._paths)}.parquet"
        self._paths[name] = path
        return f"{_PROTOCOL}://{name}"

    def _path(self, name: str) -> Path:
        stripped = str(self._strip_protocol(name))
        if stripped not in self._paths:
            raise FileNotFoundError(name)
        return self._paths[stripped]

    def open(self, path: str, mode: str = "rb", **_: Any) -> ReadOnlyFile:
        """Open for reading. Raises PermissionError for any other mode."""
        if mode not in _READ:
            raise PermissionError(f"{path} can only be read")
        return ReadOnlyFile(self._path(path))

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """A file's size."""
        return {"name": path, "size": self._path(path).stat().st_size, "type": "file"}

    def modified(self, path: str) -> datetime:
        """When a file was written. Data files never change."""
        return datetime.fromtimestamp(self._path(path).stat().st_mtime, UTC)

    def glob(self, path: str, **_: Any) -> list[str]:
        """The file itself: names are no patterns."""
        self._path(path)
        return [path]

    def exists(self, path: str, **_: Any) -> bool:
        """Whether there is such a file."""
        return str(self._strip_protocol(path)) in self._paths

    def isdir(self, path: str) -> bool:
        """There are no folders."""
        return False

"""The files that DuckDB may read, in a file system that cannot write.

DuckDB's `allowed_paths` may also be written. So DuckDB gets no path or URL: it gets names in this file system,
which opens for reading the files that it was given, and does nothing else.
"""

import os
import threading
from datetime import UTC, datetime
from typing import Any

from fsspec.spec import AbstractFileSystem

from engine.store.folder import FileEntry, Folder
from engine.store.local_folder import LocalFolder

_PROTOCOL = "tidemark"
_READ = ("r", "rb")


class ReadOnlyFile:
    """A file opened for reading. Several threads may use it: each has a place of its own."""

    def __init__(self, folder: Folder, name: str, size: int) -> None:
        """size: of the file in bytes."""
        self._folder = folder
        self._name = name
        self._size = size
        self._descriptor = _descriptor(folder, name)
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
        rest = max(self._size - self.tell(), 0)
        wanted = rest if size < 0 else min(size, rest)
        parts = []
        while wanted > 0 and (part := self._read_at(self.tell(), wanted)):
            parts.append(part)
            wanted -= len(part)
            self._place.offset = self.tell() + len(part)
        return b"".join(parts)

    def _read_at(self, offset: int, size: int) -> bytes:
        if self._descriptor is None:
            return self._folder.read(self._name, offset, size)
        return os.pread(self._descriptor, size, offset)

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
            if self._descriptor is not None:
                os.close(self._descriptor)


def _descriptor(folder: Folder, name: str) -> int | None:
    """A local file stays readable when it is deleted; None for one of a bucket."""
    if isinstance(folder, LocalFolder):
        return os.open(folder.path / name, os.O_RDONLY | os.O_CLOEXEC)
    return None


class ReadOnlyFiles(AbstractFileSystem):  # type: ignore[misc] # DuckDB takes nothing else
    """Some files by other names."""

    protocol = _PROTOCOL
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[str, tuple[Folder, FileEntry]] = {}

    @property
    def names(self) -> list[str]:
        """The names of all files."""
        return [f"{_PROTOCOL}://{name}" for name in self._places]

    def add(self, folder: Folder, file: str) -> str:
        """Give a file of a folder a name, and return it. Raises FileNotFoundError."""
        entry = folder.find(file)
        if entry is None:
            raise FileNotFoundError(f"{folder.url}/{file} is gone")
        name = f"{len(self._places)}.parquet"
        self._places[name] = folder, entry
        return f"{_PROTOCOL}://{name}"

    def _file(self, name: str) -> tuple[Folder, FileEntry]:
        stripped = str(self._strip_protocol(name))
        if stripped not in self._places:
            raise FileNotFoundError(name)
        return self._places[stripped]

    def open(self, path: str, mode: str = "rb", **_: Any) -> ReadOnlyFile:
        """Open for reading. Raises PermissionError for any other mode."""
        if mode not in _READ:
            raise PermissionError(f"{path} can only be read")
        folder, entry = self._file(path)
        return ReadOnlyFile(folder, entry.name, entry.size)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """A file's size."""
        return {"name": path, "size": self._file(path)[1].size, "type": "file"}

    def modified(self, path: str) -> datetime:
        """When a file was written. Data files never change."""
        return datetime.fromtimestamp(self._file(path)[1].changed_s, UTC)

    def glob(self, path: str, **_: Any) -> list[str]:
        """The file itself: names are no patterns."""
        self._file(path)
        return [path]

    def exists(self, path: str, **_: Any) -> bool:
        """Whether there is such a file."""
        return str(self._strip_protocol(path)) in self._places

    def isdir(self, path: str) -> bool:
        """There are no folders."""
        return False

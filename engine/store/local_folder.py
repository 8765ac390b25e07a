"""A folder of a file system: names are made by hard links, contents and names are synced (`engine.base.durable`)."""

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from engine.base.durable import UnknownOutcomeError, link, make_folders, naming, rename, sync_file, sync_folder
from engine.store.folder import FileEntry, Folder

if TYPE_CHECKING:
    import pyarrow as pa

_TEMPORARY = ".tidemark-"


@dataclass(frozen=True)
class LocalFolder:
    """The folder at a path."""

    at_once: ClassVar[int] = 1
    path: Path

    @property
    def url(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.name

    @property
    def parent(self) -> "LocalFolder":
        """The path's."""
        return LocalFolder(self.path.parent)

    @property
    def options(self) -> Mapping[str, str]:
        """None are needed."""
        return {}

    @property
    def is_there(self) -> bool:
        """Whether the path exists."""
        return self.path.exists()

    def __truediv__(self, name: str) -> "LocalFolder":
        return LocalFolder(self.path / name)

    def find(self, name: str) -> FileEntry | None:
        """By its inode, change time and size."""
        try:
            status = os.stat(f"{self.path}/{name}")  # noqa: PTH116 - a merge asks for hundreds of files
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _entry(name, status)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """The content."""
        if length is None:
            return (self.path / name).read_bytes()
        with (self.path / name).open("rb", buffering=0) as file:
            file.seek(offset)
            return file.read(length)

    def open(self, name: str) -> "pa.NativeFile":
        """The file."""
        import pyarrow as pa

        return pa.OSFile(str(self.path / name))

    def create(self, name: str, content: bytes) -> str:
        """Write it under another name, sync it, and link it to its own."""
        path = self.path / name
        temporary = self._temporary(path, content)
        try:
            if not link(temporary, path):
                return ""
        finally:
            with suppress(OSError):
                temporary.unlink()
        try:
            sync_folder(path.parent)
        except OSError as error:
            raise UnknownOutcomeError(
                error.errno, f"{path} is there, but its name could not be synced: {error}"
            ) from error
        with suppress(OSError):  # it is there, even if it cannot be looked at
            if (created := self.find(name)) is not None:
                return created.tag
        return f"unknown-{uuid.uuid4().hex}"

    def replace(self, name: str, content: bytes, tag: str) -> str:
        """Compare, then rename. Not safe against a writer in between: terms keep others away (`destination.fence`)."""
        entry = self.find(name)
        if entry is None or entry.tag != tag:
            return ""
        self.write(name, content)
        replaced = self.find(name)
        return "" if replaced is None else replaced.tag

    def write(self, name: str, content: bytes) -> None:
        """Write it under another name, sync it, and rename it."""
        path = self.path / name
        temporary = self._temporary(path, content)
        try:
            rename(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)

    def _temporary(self, path: Path, content: bytes) -> Path:
        make_folders(path.parent)
        temporary = path.with_name(f"{_TEMPORARY}{uuid.uuid4().hex}")
        with naming(path), temporary.open("xb") as file:
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        return temporary

    def upload(self, name: str) -> "LocalUpload":
        """A file under its own name, which is synced at the end. It can be seen before, but nobody knows the name."""
        return LocalUpload(self.path / name)

    def copy(self, names: Iterable[str], source: Folder) -> None:
        """Hard links."""
        assert isinstance(source, LocalFolder)
        changed_folders = set[Path]()
        for name in names:
            target = self.path / name
            if target.parent not in changed_folders:
                make_folders(target.parent)
                changed_folders.add(target.parent)
            if not link(source.path / name, target):
                raise FileExistsError(f"{target} is another file.")
        for folder in changed_folders:
            sync_folder(folder)

    def entries(self, prefix: str = "", after: str = "") -> Iterator[FileEntry]:
        """One listing, sorted."""
        files = list[FileEntry]()
        with suppress(FileNotFoundError), os.scandir(self.path) as listing:
            for entry in listing:
                name = entry.name
                if not name.startswith(prefix) or name <= after or name.startswith(_TEMPORARY) or entry.is_dir():
                    continue
                with suppress(FileNotFoundError):  # it has vanished meanwhile
                    files.append(_entry(name, entry.stat()))
        yield from sorted(files, key=lambda one: one.name)

    def folders(self) -> list[str]:
        """One listing."""
        with suppress(FileNotFoundError):
            return sorted(entry.name for entry in os.scandir(self.path) if entry.is_dir())
        return []

    def below(self) -> Iterator[FileEntry]:
        """One walk. What vanishes meanwhile is left out."""
        cut = len(str(self.path)) + 1
        paths = (f"{folder}/{name}" for folder, _, names in os.walk(self.path) for name in names)
        for name in sorted(path[cut:] for path in paths if not path.rpartition("/")[2].startswith(_TEMPORARY)):
            if (entry := self.find(name)) is not None:
                yield entry

    def delete(self, names: Iterable[str]) -> None:
        """Unlink them."""
        for name in names:
            (self.path / name).unlink(missing_ok=True)


class LocalUpload:
    """A file that is being written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        import pyarrow as pa

        make_folders(path.parent)
        self.sink = pa.OSFile(str(path), "wb")
        self._is_durable = False

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes."""
        with naming(self._path):
            self.sink.write(data)
        return memoryview(data).nbytes

    def close(self) -> None:
        """Sync the content and the name."""
        with naming(self._path):
            self.sink.close()
            sync_file(self._path)
        sync_folder(self._path.parent)
        self._is_durable = True

    def discard(self) -> None:
        """Delete it."""
        if not self._is_durable:
            with suppress(OSError):  # the disk may be full
                self.sink.close()
            self._path.unlink(missing_ok=True)

    @property
    def closed(self) -> bool:
        """Whether it was closed or given up."""
        return bool(self.sink.closed)


def _entry(name: str, status: os.stat_result) -> FileEntry:
    tag = f"{status.st_ino}-{status.st_ctime_ns}-{status.st_size}"  # a change time cannot be set back
    return FileEntry(name, status.st_size, tag, status.st_mtime_ns / 1e9)

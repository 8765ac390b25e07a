"""A copy of a pipeline's state on a host: what the bucket has, in a directory.

A file is downloaded when its tag is another one than at the last time, and uploaded when the file on the host is. Both
are noted in `.remote-state.json`, so a copy that is there already costs one list.
"""

import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from engine.base.durable import write_atomically
from engine.pipeline.remote_state.journal_tail import JOURNAL, TAIL, append_pieces
from engine.pipeline.remote_state.lease import NAME as LEASE
from engine.store.folder import FileEntry, Folder

_NOTES = ".remote-state.json"
_AT_ONCE = 16
Note = tuple[str, int, int]
"""A tag in the bucket ("" if unknown); the size and the change time of the host's file, in nanoseconds."""


class StateCopy:
    """The copy in a directory. Not thread-safe; one process at a time."""

    def __init__(self, root: Path, state: Folder) -> None:
        self._root = root
        self._state = state
        self._notes = self._read_notes()

    def _read_notes(self) -> dict[str, Note]:
        with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
            record = json.loads((self._root / _NOTES).read_text(encoding="utf-8"))
            if record["state"] == self._state.url:
                return {name: (str(tag), int(size), int(ns)) for name, (tag, size, ns) in record["files"].items()}
        return {}

    def _write_notes(self) -> None:
        write_atomically(self._root / _NOTES, json.dumps({"state": self._state.url, "files": self._notes}))

    def download(self, takes: Callable[[str], bool] = lambda _: True) -> list[FileEntry]:
        """Make the copy what the bucket has. Returns the bucket's files.

        takes: which files, by name; those that it does not take stay as they are. Raises OSError.
        """
        self._root.mkdir(parents=True, exist_ok=True)
        found = [entry for entry in self._state.below() if _is_safe(entry.name)]
        wanted = [one for one in found if takes(one.name) and not one.name.startswith((f"{TAIL}/", LEASE))]
        self._download([one for one in wanted if self._notes.get(one.name, ("",))[0] != one.tag])
        names = {one.name for one in found}
        for name in [name for name in self._notes if name not in names and takes(name)]:
            (self._root / name).unlink(missing_ok=True)
            del self._notes[name]
        append_pieces(self._root / JOURNAL, self._state, (one for one in found if one.name.startswith(f"{TAIL}/")))
        self._write_notes()
        return found

    def _download(self, entries: Sequence[FileEntry]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            fetched = list(pool.map(self._fetch, entries))
        for entry, is_there in zip(entries, fetched, strict=True):
            if is_there:
                self._notes[entry.name] = (entry.tag, *_seen(self._root / entry.name))

    def _fetch(self, entry: FileEntry) -> bool:
        """Download a file; False if it is gone. Of a journal, only what the copy lacks."""
        path = self._root / entry.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.name.startswith(f"{JOURNAL}/") and path.exists():
            size = path.stat().st_size
            if size < entry.size:
                content = self._state.read(entry.name, size, entry.size - size)
                with path.open("ab") as file:
                    file.write(content)
            return True
        try:
            content = self._state.read(entry.name)
        except FileNotFoundError:
            return False
        _put(path, content)
        return True

    def upload(self, names: Iterable[str], owned: Callable[[str], bool]) -> int:
        """Upload files that changed, and delete in the bucket what is gone. Returns how many. Raises OSError.

        names: the files on the host. owned: whether this side may delete a file that is gone, by name.
        """
        present, changed = set(names), 0
        for name in sorted(present):
            with suppress(FileNotFoundError):
                seen = _seen(self._root / name)
                if self._notes.get(name, ("", -1, -1))[1:] != seen:
                    self._state.write(name, (self._root / name).read_bytes())
                    self._notes[name] = ("", *seen)
                    changed += 1
        gone = [name for name in self._notes if name not in present and owned(name)]
        if gone:
            self._state.delete(gone)
            for name in gone:
                del self._notes[name]
        if changed or gone:
            self._write_notes()
        return changed + len(gone)

    def take(self, name: str, content: bytes) -> None:
        """Put a file of the bucket, which the caller has read, into the copy."""
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        _put(path, content)
        self._notes[name] = ("", *_seen(path))
        self._write_notes()

    def forget(self, name: str) -> None:
        """Delete a file of the copy that the bucket does not have any more."""
        (self._root / name).unlink(missing_ok=True)
        self._notes.pop(name, None)

    def tags(self, folder: str) -> dict[str, str]:
        """The tags of the files in a folder, as they were downloaded, by their names in it."""
        return {name[len(folder) :]: note[0] for name, note in self._notes.items() if name.startswith(folder)}

    def has(self, name: str) -> bool:
        """Whether a file was downloaded or uploaded."""
        return name in self._notes


def files_in(root: Path, names: Iterable[str]) -> Iterator[str]:
    """The files of these names, and those in the folders of these names, without hidden ones. Folders end with "/"."""
    for name in names:
        if not name.endswith("/"):
            if (root / name).exists():
                yield name
            continue
        with suppress(FileNotFoundError), os.scandir(root / name) as found:
            yield from (name + one.name for one in found if one.is_file() and not one.name.startswith("."))


def _put(path: Path, content: bytes) -> None:
    """Replace a file of the copy. It need not be durable: the bucket has it."""
    temporary = path.with_name(f".{uuid.uuid4().hex}")
    temporary.write_bytes(content)
    temporary.replace(path)


def _seen(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _is_safe(name: str) -> bool:
    """Whether a name stays below the copy's folder."""
    return not {"", ".", ".."} & set(name.split("/"))

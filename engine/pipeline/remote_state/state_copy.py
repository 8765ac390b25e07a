"""A copy of a pipeline's state on a host: what the bucket has, in a directory.

A file is downloaded when its tag, or the file on the host, is not as it was noted at the last time, in
`.remote-state.json`. What the bucket lacks is deleted: it is old, whoever wrote it. So a copy is current however long
its host was away, and one that is current already costs one list.
"""

import json
import os
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from engine.base.durable import write_atomically
from engine.pipeline.remote_state.journal_tail import append_pieces
from engine.pipeline.remote_state.names import INBOX, JOURNAL, LEDGER, RUNNER_FILES, is_copied, is_piece
from engine.store.folder import FileEntry, Folder

_NOTES = ".remote-state.json"
_AT_ONCE, _LARGE_BYTES = 16, 1 << 20
"""Files that are downloaded at once, and the size from which they are alone."""
Note = tuple[str, int, int]
"""A tag in the bucket ("" if unknown); the size and the change time of the host's file, in nanoseconds."""


class StateCopy:
    """The copy in a directory. Not thread-safe; one process at a time."""

    def __init__(self, root: Path, state: Folder, ledger: str = LEDGER) -> None:
        """ledger: the folder of the ledger in the bucket. In the copy, it is always the same."""
        self._root = root
        self._state = state
        self._ledger = ledger
        self._notes = self._read_notes()

    def _read_notes(self) -> dict[str, Note]:
        with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
            record = json.loads((self._root / _NOTES).read_text(encoding="utf-8"))
            if record["state"] == self._state.url:
                return {name: (str(tag), int(size), int(ns)) for name, (tag, size, ns) in record["files"].items()}
        return {}

    def _write_notes(self) -> None:
        write_atomically(self._root / _NOTES, json.dumps({"state": self._state.url, "files": self._notes}))

    def download(
        self, takes: Callable[[str], bool] = is_copied, also: Collection[str] = (), *, keeps_commands: bool = False
    ) -> list[FileEntry]:
        """Make the copy what the bucket has. Returns the bucket's files that are a pipeline's state.

        takes: which files, by name; others stay as they are. also: further files. keeps_commands: whether commands that
        the bucket never had stay, as those that somebody wrote by hand. Raises OSError.
        """
        self._root.mkdir(parents=True, exist_ok=True)
        entries = [one for one in self._entries() if is_copied(one.name) or is_piece(one.name) or one.name in also]
        wanted = [one for one in entries if (takes(one.name) or one.name in also) and not is_piece(one.name)]
        try:
            self._fetch([one for one in sorted(wanted, key=_order) if self._is_old(one)])
            if takes(f"{JOURNAL}/any"):
                append_pieces(self._root / JOURNAL, self._state, (one for one in entries if is_piece(one.name)))
            names = {one.name for one in entries}
            for name in [one for one in local_files(self._root) if one not in names and takes(one)]:
                if name in self._notes or not (keeps_commands and _is_command(name)):
                    self.forget(name)
        finally:
            self._write_notes()
        return entries

    def _entries(self) -> Iterator[FileEntry]:
        """The bucket's files, named as in the copy; without a ledger that a restore has replaced."""
        for entry in self._state.below():
            folder, _, name = entry.name.partition("/")
            if folder == self._ledger:
                yield replace(entry, name=f"{LEDGER}/{name}")
            elif folder != LEDGER:
                yield entry

    def _in_bucket(self, name: str) -> str:
        """The name of a file of the copy in the bucket."""
        folder, _, own = name.partition("/")
        return f"{self._ledger}/{own}" if folder == LEDGER else name

    def _is_old(self, entry: FileEntry) -> bool:
        try:
            seen = _seen(self._root / entry.name)
        except FileNotFoundError:
            return True
        if entry.name.startswith(f"{JOURNAL}/"):
            return seen[0] < entry.size  # a part only grows
        return self._notes.get(entry.name) != (entry.tag, *seen)

    def _fetch(self, entries: Sequence[FileEntry]) -> None:
        """Download files, and write them in this order: readers meet no epoch without those before it."""
        small = [one for one in entries if one.size < _LARGE_BYTES]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for begin in range(0, len(small), 4 * _AT_ONCE):
                some = small[begin : begin + 4 * _AT_ONCE]
                for entry, content in zip(some, pool.map(self._read, some), strict=True):
                    self._put(entry, content)
        for entry in entries:
            if entry.size >= _LARGE_BYTES:
                self._put(entry, self._read(entry))

    def _read(self, entry: FileEntry) -> bytes | None:
        """The content; of a journal's part, what the copy lacks. None if the file is gone by now."""
        with suppress(FileNotFoundError):
            begin = self._length(entry.name) if entry.name.startswith(f"{JOURNAL}/") else 0
            name = self._in_bucket(entry.name)
            return self._state.read(name, begin, entry.size - begin) if begin else self._state.read(name)
        return None

    def _length(self, name: str) -> int:
        path = self._root / name
        return path.stat().st_size if path.exists() else 0

    def _put(self, entry: FileEntry, content: bytes | None) -> None:
        if content is None:
            return
        path = self._root / entry.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.name.startswith(f"{JOURNAL}/") and path.exists():
            with path.open("ab") as file:
                file.write(content)
        else:
            _replace(path, content)
        self._notes[entry.name] = (entry.tag, *_seen(path))

    def upload(self, names: Iterable[str], deletes: Callable[[str], bool]) -> int:
        """Upload files that changed, and delete in the bucket what is gone. Returns how many. Raises OSError.

        names: the files on the host. deletes: whether this side deletes a file, by name.
        """
        present, changed = set(names), 0
        for name in sorted(present):
            with suppress(FileNotFoundError):
                seen = _seen(self._root / name)
                if self._notes.get(name, ("", -1, -1))[1:] != seen:
                    self._state.write(name, (self._root / name).read_bytes())
                    self._notes[name] = ("", *seen)
                    changed += 1
        gone = [name for name in self._notes if name not in present and deletes(name)]
        if gone:
            self._state.delete(gone)
            for name in gone:
                del self._notes[name]
        if changed or gone:
            self._write_notes()
        return changed + len(gone)

    def take(self, name: str, content: bytes) -> None:
        """Put a file into the copy that the bucket has, or is to have."""
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, content)
        self._notes[name] = ("", *_seen(path))
        self._write_notes()

    def forget(self, name: str) -> None:
        """Delete a file of the copy that the bucket does not have any more."""
        (self._root / name).unlink(missing_ok=True)
        self._notes.pop(name, None)

    def has(self, name: str) -> bool:
        """Whether a file was downloaded or uploaded."""
        return name in self._notes

    def tags(self, folder: str) -> dict[str, str]:
        """The tags of the files in a folder, as they were downloaded, by their names in it."""
        return {name[len(folder) :]: note[0] for name, note in self._notes.items() if name.startswith(folder)}


def local_files(root: Path) -> Iterator[str]:
    """The files of a copy that are a pipeline's state."""
    yield from (name for name in RUNNER_FILES if (root / name).exists())
    for folder in ("ledger", "journal", "inbox", "acknowledged", "silences", "verify", "maintenance"):
        for place, _, files in os.walk(root / folder):
            below = Path(place).relative_to(root).as_posix()
            yield from (name for file in files if is_copied(name := f"{below}/{file}"))


def _order(entry: FileEntry) -> tuple[bool, bool, str]:
    """The ledger first, its full states before its epochs, which follow one another."""
    return not entry.name.startswith(f"{LEDGER}/"), not entry.name.startswith(f"{LEDGER}/state"), entry.name


def _is_command(name: str) -> bool:
    return name.rpartition("/")[0] == INBOX


def _replace(path: Path, content: bytes) -> None:
    """Replace a file of the copy. It need not be durable: the bucket has it."""
    temporary = path.with_name(f".{uuid.uuid4().hex}")
    temporary.write_bytes(content)
    temporary.replace(path)


def _seen(path: Path) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns

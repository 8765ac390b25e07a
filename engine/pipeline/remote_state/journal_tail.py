"""The growing end of a journal in a bucket, where nothing can be appended to.

    journal/<part>                  a part of a journal (`engine.journal.parts`), as far as it was uploaded as a whole
    journal-tail/<part>/<offset>    what follows, in pieces; each is named by where it begins in the part, in 15 digits

After `_PIECES` pieces, and when the part is closed, the part is uploaded as a whole, and then its pieces are deleted. A
copy that has more of a part than the bucket's whole part takes the rest from the pieces.
"""

from collections.abc import Iterable
from pathlib import Path

from engine.journal.parts import parts_in
from engine.pipeline.remote_state.names import JOURNAL, TAIL
from engine.store.folder import FileEntry, Folder

_PIECES = 64


class JournalUpload:
    """What a runner uploads of its journals. `uploads` counts the requests that changed something.

    entries: what the bucket has of journals, as `Folder.below` of the state names it.
    """

    def __init__(self, folder: Path, state: Folder, entries: Iterable[FileEntry]) -> None:
        self._folder = folder
        self._state = state
        self._uploaded: dict[str, int] = {}
        """By part, the bytes that the bucket has."""
        self._pieces: dict[str, list[str]] = {}
        """By part, the names of its pieces."""
        for entry in entries:
            place, _, name = entry.name.partition("/")
            if place == JOURNAL:
                self._uploaded[name] = max(entry.size, self._uploaded.get(name, 0))
            elif place == TAIL:
                part, _, offset = name.rpartition("/")
                self._pieces.setdefault(part, []).append(entry.name)
                self._uploaded[part] = max(int(offset) + entry.size, self._uploaded.get(part, 0))

    def upload(self) -> int:
        """Upload what is new, and delete parts that are gone. Returns how many files changed. Raises OSError."""
        changed = 0
        parts = parts_in(self._folder)
        for part in parts:
            name = part.path.name
            try:
                grown = part.path.stat().st_size > self._uploaded.get(name, -1)
            except FileNotFoundError:
                continue  # it has just been compressed
            if grown or (part.closed and self._pieces.get(name)):
                self._upload(part.path, closed=part.closed)
                changed += 1
        gone = self._uploaded.keys() - {part.path.name for part in parts}
        if gone:
            self._state.delete(piece for name in gone for piece in self._pieces.pop(name, ()))
            self._state.delete(f"{JOURNAL}/{name}" for name in gone)
            self._uploaded = {name: size for name, size in self._uploaded.items() if name not in gone}
        return changed + len(gone)

    def _upload(self, path: Path, *, closed: bool) -> None:
        name, pieces = path.name, self._pieces.setdefault(path.name, [])
        begin = self._uploaded.get(name, 0)
        if closed or not begin or len(pieces) >= _PIECES:
            content = path.read_bytes()
            self._state.write(f"{JOURNAL}/{name}", content)
            self._uploaded[name] = len(content)
            self._state.delete(pieces)
            pieces.clear()
            return
        with path.open("rb") as file:
            file.seek(begin)
            content = file.read()
        piece = f"{TAIL}/{name}/{begin:015d}"
        self._state.write(piece, content)
        pieces.append(piece)
        self._uploaded[name] = begin + len(content)


def append_pieces(folder: Path, state: Folder, entries: Iterable[FileEntry]) -> None:
    """Append to the parts of a copy what the bucket has in pieces. entries: in the order of their names.

    Raises OSError.
    """
    for entry in entries:
        part, _, offset = entry.name.removeprefix(f"{TAIL}/").rpartition("/")
        path, begin = folder / part, int(offset)
        size = path.stat().st_size if path.exists() else 0
        if begin <= size < begin + entry.size:
            try:
                content = state.read(entry.name, size - begin, begin + entry.size - size)
            except FileNotFoundError:
                continue  # the whole part has taken its place
            with path.open("ab") as file:
                file.write(content)

"""The ledger of a pipeline whose state is in a bucket: its files are made there first, and then in the copy."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from engine.store.folder import FileEntry, Folder

Creation = Callable[[], str]
"""Creates a file. Returns its tag; "" if the name is taken by other content."""


class LedgerFolder:
    """The part of a `Folder` that the ledger uses.

    The copy serves the readers of this process, such as verification, and the start: what it has need not be asked for.
    It lacks what it has no room for.
    """

    def __init__(self, state: Folder, copy: Folder, tags: Mapping[str, str], commit: Callable[[Creation], str]) -> None:
        """tags: of the files in the copy, as it was downloaded.

        commit: carries out each creation; it waits for a store that is away (`runner_sync`).
        """
        self._state = state
        self._copy = copy
        self._tags = dict(tags)
        self._unchanged: set[str] = set()
        self._commit = commit

    @property
    def url(self) -> str:
        """The bucket's."""
        return self._state.url

    def find(self, name: str) -> FileEntry | None:
        """In the bucket."""
        return self._state.find(name)

    def read(self, name: str) -> bytes:
        """From the bucket, or from the copy if the last list had the same tag."""
        if name in self._unchanged:
            with suppress(OSError):
                return self._copy.read(name)
        return self._state.read(name)

    def entries(self, prefix: str = "") -> Iterator[FileEntry]:
        """In the bucket."""
        for entry in self._state.entries(prefix):
            if self._tags.get(entry.name) == entry.tag:
                self._unchanged.add(entry.name)
            else:
                self._unchanged.discard(entry.name)
            yield entry

    def create(self, name: str, content: bytes) -> str:
        """In the bucket, which decides.

        A runner that has lost its lease unawares makes nothing: as a late newcomer, it would end the one that has it.
        """
        tag = self._commit(lambda: self._state.create(name, content))
        if tag:
            self._write_copy(name, content)
        return tag

    def write(self, name: str, content: bytes) -> None:
        """In both."""
        self._unchanged.discard(name)
        self._state.write(name, content)
        self._write_copy(name, content)

    def delete(self, names: Iterable[str]) -> None:
        """In both."""
        gone = list(names)
        self._state.delete(gone)
        with suppress(OSError):
            self._copy.delete(gone)

    def _write_copy(self, name: str, content: bytes) -> None:
        with suppress(OSError):
            self._copy.write(name, content)

"""The one way to store: files in a folder, whether of a file system (`local_folder`) or of a bucket (`bucket_folder`).

A file appears whole or not at all, under its own name, and is durable when the method that made it returns. Nothing is
renamed and nothing is linked, because a bucket can do neither; nothing that happens once an epoch lists a folder,
because a bucket answers a list with a thousand names at a time.

Two writers agree by `create` and `replace`: of all that create a name, one succeeds; of all that replace a file with
the same tag, one succeeds. Both hold when an answer is lost: a network repeats the request, and meets the file that the
first one made. So what they write MUST be unique (a random identifier in it is enough): who finds the own content
under the name has made it.

Errors are FileNotFoundError for a file that is not there, StoreAwayError for a store that does not answer or has no
room for requests, StoreAccessError for credentials that it refuses, and other OSErrors.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class FileEntry:
    """A file."""

    name: str
    """In its folder."""
    size: int
    """Bytes."""
    tag: str
    """Changes whenever the file is replaced."""
    changed_s: float
    """When it was made or last replaced: seconds since 1970, by the store's clock."""


class Upload(Protocol):
    """A file that is being written: nobody sees it before `close`."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes. Returns how many."""

    def close(self) -> None:
        """Make the file visible and durable."""

    def discard(self) -> None:
        """Give it up: what was sent is deleted. Harmless after `close`, which it does not undo."""

    @property
    def closed(self) -> bool:
        """Whether it was closed or given up."""

    @property
    def sink(self) -> Any:
        """What pyarrow writes to."""


class Folder(Protocol):
    """A folder. It can be sent to a Spark task, and need not exist. File names may contain "/" for folders below."""

    at_once: ClassVar[int]
    """Requests that are worth sending at the same time: more than 1 where each waits for an answer."""

    @property
    def url(self) -> str:
        """Where it is: a path, or `s3://bucket/…`; for messages, and for libraries that open it by themselves."""

    @property
    def name(self) -> str:
        """Its own name."""

    @property
    def parent(self) -> Self:
        """The folder that it is in."""

    @property
    def options(self) -> Mapping[str, str]:
        """What deltalake must know to open the URL."""

    @property
    def is_there(self) -> bool:
        """Whether anything is in it."""

    def __truediv__(self, name: str) -> Self:
        """A folder below."""

    def find(self, name: str) -> FileEntry | None:
        """A file by name; None if it is not there."""

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """A file's content, or part of it; less at its end. length: None for all of it."""

    def open(self, name: str) -> "pa.NativeFile":
        """A file for random access, as Parquet readers need it. Close it."""

    def create(self, name: str, content: bytes) -> str:
        """Create a file with unique content. Returns its tag; "" if the name is taken by other content.

        The tag is one that no file has if the file cannot be looked at.
        """

    def replace(self, name: str, content: bytes, tag: str) -> str:
        """Replace a file by unique content if it still has a tag.

        Returns the tag of the new content; "" if the file has another one, or is gone.
        """

    def write(self, name: str, content: bytes) -> None:
        """Create or replace a file, whatever is there. For names that have one writer."""

    def upload(self, name: str) -> Upload:
        """Begin a file that is written piece by piece; its name MUST be new."""

    def copy(self, names: Iterable[str], source: "Folder") -> None:
        """Give this folder the files of these names from another one of the same store, without reading them.

        Files that it has already are no error if they are the same.
        """

    def entries(self, prefix: str = "", after: str = "") -> Iterator[FileEntry]:
        """The files with a prefix in their names, by name, folders below left out. after: only those behind it."""

    def folders(self) -> list[str]:
        """The names of the folders in it, sorted."""

    def below(self) -> Iterator[FileEntry]:
        """All files, with those of folders below, by name."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; those that are not there are no error."""

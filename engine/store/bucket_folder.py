"""A folder of a bucket: of S3 and what speaks its language, or of Azure.

The answer to a conditional put can be lost; the client then repeats the request and is refused, because its own file is
there. So after each refusal, and after each error that says nothing of what was done, the file is read and compared
(`Folder` requires unique content).
"""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import obstore
import pyarrow as pa
from obstore import exceptions
from obstore.store import ObjectStore

from engine.store import requests
from engine.store.bucket_errors import REFUSED, named_errors
from engine.store.bucket_file import BucketFile
from engine.store.bucket_settings import BucketSettings, opened
from engine.store.bucket_upload import BucketUpload
from engine.store.folder import FileEntry, Folder, Upload

_COPIES = 16
"""Files that a store copies at once."""
_SENDERS = 4
"""Files that are copied through this host at once."""
_TAKEN = (exceptions.AlreadyExistsError, exceptions.PreconditionError)


@dataclass(frozen=True)
class BucketFolder:
    """A folder below the root of a bucket. path: without a slash at its ends; "" for the root."""

    at_once: ClassVar[int] = 16
    settings: BucketSettings
    path: str = ""

    @property
    def url(self) -> str:
        """`s3://bucket/path` and the like."""
        return f"{self.settings.root}/{self.path}" if self.path else self.settings.root

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> "BucketFolder":
        """The root's is the root."""
        return BucketFolder(self.settings, self.path.rpartition("/")[0])

    @property
    def options(self) -> Mapping[str, str]:
        """Endpoint, region and the like; credentials come from where the store's client finds them."""
        return self.settings.deltalake_options

    @property
    def is_there(self) -> bool:
        """One request."""
        return next(self.below(), None) is not None

    def __truediv__(self, name: str) -> "BucketFolder":
        return BucketFolder(self.settings, f"{self.path}/{name}" if self.path else name)

    def _key(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name

    def find(self, name: str) -> FileEntry | None:
        """One request."""
        requests.got(self.url)
        with named_errors(f"{self.url}/{name}"):
            try:
                return _entry(name, obstore.head(opened(self.settings), self._key(name)))
            except FileNotFoundError:
                return None

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """One request."""
        store, key = opened(self.settings), self._key(name)
        with named_errors(f"{self.url}/{name}"):
            requests.got(self.url)
            if length is None:
                content = bytes(obstore.get(store, key).bytes())
            else:
                content = bytes(obstore.get_range(store, key, start=offset, length=length))
        requests.got(self.url, len(content), number=0)
        return content

    def open(self, name: str) -> pa.NativeFile:
        """A request for its end and its size, then one for each piece."""
        ends = self.settings.provider.gives_ends
        return pa.PythonFile(BucketFile(opened(self.settings), self._key(name), self.url, name, ends=ends), mode="r")

    def create(self, name: str, content: bytes) -> str:
        """A conditional put: `If-None-Match: *`."""
        with named_errors(f"{self.url}/{name}"):
            return put_if(opened(self.settings), self._key(name), content, "create", folder=self.url)

    def replace(self, name: str, content: bytes, tag: str) -> str:
        """A conditional put: `If-Match`. After a lost answer, "" if the file was replaced once more since."""
        with named_errors(f"{self.url}/{name}"):
            return put_if(opened(self.settings), self._key(name), content, {"e_tag": tag}, tag, folder=self.url)

    def write(self, name: str, content: bytes) -> None:
        """A put."""
        requests.put(self.url, len(content))
        with named_errors(f"{self.url}/{name}"):
            obstore.put(opened(self.settings), self._key(name), content)

    def upload(self, name: str) -> Upload:
        """In parts; one put if it is small."""
        return _NamedErrors(BucketUpload(opened(self.settings), self._key(name), self.url), f"{self.url}/{name}")

    def copy(self, names: Iterable[str], source: Folder) -> None:
        """Within the store: a request for each, several at once. Through this host where copies complete later."""
        assert isinstance(source, BucketFolder)
        at_once = self.settings.provider.copies_at_once
        copy_one = partial(_copy_within if at_once else _copy_through, source, self)
        with ThreadPoolExecutor(_COPIES if at_once else _SENDERS) as pool:
            list(pool.map(copy_one, names))

    def entries(self, prefix: str = "", after: str = "") -> Iterator[FileEntry]:
        """A request for a thousand files."""
        before = f"{prefix[:-1]}{chr(ord(prefix[-1]) - 1)}~" if prefix else ""  # a file may be named as the prefix
        for entry in self.below(max(before, after)):
            if entry.name >= prefix and not entry.name.startswith(prefix):
                return
            if entry.name >= prefix and "/" not in entry.name:
                yield entry

    def folders(self) -> list[str]:
        """One request for a thousand of them."""
        requests.listed(self.url, 0, self.settings.provider.listed_objects)
        with named_errors(self.url):
            listing = obstore.list_with_delimiter(opened(self.settings), self.path or None)
            return sorted(str(path).rpartition("/")[2] for path in listing["common_prefixes"])

    def below(self, after: str = "") -> Iterator[FileEntry]:
        """A request for a thousand files. after: only those behind this name."""
        cut, objects = len(self.path) + 1 if self.path else 0, 0
        try:
            with named_errors(self.url):
                for page in obstore.list(
                    opened(self.settings), self.path or None, offset=self._key(after) if after else None
                ):
                    objects += len(page)
                    # Azure's list begins with the name itself, Azurite's with the first of all.
                    yield from (entry for one in page if (entry := _entry(one["path"][cut:], one)).name > after)
        finally:
            requests.listed(self.url, objects, self.settings.provider.listed_objects)

    def delete(self, names: Iterable[str]) -> None:
        """A request for a thousand files, where the store takes so many."""
        keys, store = [self._key(name) for name in names], opened(self.settings)
        if not keys:
            return
        requests.deleted(self.url, requests.pages(len(keys), self.settings.provider.deleted_objects))
        with named_errors(self.url):
            try:
                obstore.delete(store, keys)
            except (exceptions.BaseError, FileNotFoundError) as error:
                if not isinstance(error, FileNotFoundError) and "NoSuchKey" not in str(error):
                    raise
                # Another deletes too, which some stores call an error of the whole request, but not of a single one.
                requests.deleted(self.url, len(keys))
                for key in keys:
                    with suppress(FileNotFoundError):
                        obstore.delete(store, key)


class _NamedErrors:
    """An upload whose errors are those of `Folder`."""

    def __init__(self, upload: BucketUpload, place: str) -> None:
        self._upload = upload
        self._place = place
        self.tell = upload.tell
        self.flush = upload.flush
        self.discard = upload.discard

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes."""
        with named_errors(self._place):
            return self._upload.write(data)

    def close(self) -> None:
        """Make the file visible."""
        with named_errors(self._place):
            self._upload.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed or given up."""
        return self._upload.closed

    @property
    def sink(self) -> "_NamedErrors":
        """Itself."""
        return self


def _copy_within(source: BucketFolder, target: BucketFolder, name: str) -> None:
    """Let the store copy a file."""
    requests.put(target.url, 0)
    with named_errors(f"{target.url}/{name}"):
        obstore.copy(opened(source.settings), (source / name).path, (target / name).path)


def _copy_through(source: BucketFolder, target: BucketFolder, name: str) -> None:
    """Copy a file through this host."""
    upload = target.upload(name)
    try:
        for piece in _pieces(source, name):
            upload.write(piece)
        upload.close()
    finally:
        upload.discard()


def _pieces(folder: BucketFolder, name: str) -> Iterator[bytes]:
    """A file's content. One request."""
    with named_errors(f"{folder.url}/{name}"):
        requests.got(folder.url)
        for piece in obstore.get(opened(folder.settings), (folder / name).path):
            requests.got(folder.url, len(piece), number=0)
            yield bytes(piece)


def put_if(store: ObjectStore, key: str, content: bytes, mode: Any, tag: str | None = None, *, folder: str = "") -> str:
    """A conditional put. Returns the file's tag; "" if it has other content. Raises what the client raises.

    tag: of the content that is replaced. folder: counts the requests.
    """
    requests.put(folder, len(content))
    try:
        return str(obstore.put(store, key, content, mode=mode)["e_tag"])
    except FileNotFoundError:
        if tag is None:
            raise  # the bucket itself is gone
        current, current_tag = _found(store, key, folder)
    except _TAKEN:
        current, current_tag = _found(store, key, folder)
    except REFUSED:
        raise
    except exceptions.BaseError:
        current, current_tag = _found(store, key, folder)
        if current is None or (current != content and current_tag == tag):  # the request may still arrive
            raise
    return str(current_tag) if current == content else ""


def _found(store: ObjectStore, key: str, folder: str) -> tuple[bytes | None, str | None]:
    """The content of a file and its tag; None if it is not there."""
    requests.got(folder)
    with suppress(FileNotFoundError):
        answer = obstore.get(store, key)
        content = bytes(answer.bytes())
        requests.got(folder, len(content), number=0)
        return content, answer.meta["e_tag"]
    return None, None


def _entry(name: str, answer: Any) -> FileEntry:
    tag = answer["e_tag"] or ""
    if tag and not tag.startswith(('"', "W/")):
        tag = f'"{tag}"'  # Azure's lists leave the quotation marks out
    return FileEntry(name, answer["size"], tag, answer["last_modified"].timestamp())

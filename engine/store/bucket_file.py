"""Random access to a file of a bucket, as pyarrow asks for it: one request for each piece, of exactly that piece.

Parquet readers begin at a file's end, where its footer is. So opening a file fetches the end and the size, in one
request where the store can.
"""

import os
from typing import Any

import obstore
from obstore.store import ObjectStore

from engine.store import requests
from engine.store.bucket_errors import named_errors

_END_BYTES = 64 << 10


class BucketFile:
    """A file that does not change: names in a table are used once."""

    def __init__(self, store: ObjectStore, key: str, folder: str, name: str, *, ends: bool = True) -> None:
        """folder: its URL; errors are those of `Folder`. ends: whether the store has suffix ranges."""
        self._store = store
        self._key = key
        self._folder = folder
        self._place = f"{folder}/{name}"
        self._position = 0
        self.closed = False
        with named_errors(self._place):
            self._size, self._end = self._read_end() if ends else self._read_known_end()

    def _read_end(self) -> tuple[int, bytes]:
        """The size of the file, and its last bytes."""
        try:
            answer: Any = obstore.get(self._store, self._key, options={"range": {"suffix": _END_BYTES}})
            end = bytes(answer.bytes())
            requests.got(self._folder, len(end))
            return int(answer.meta["size"]), end
        except obstore.exceptions.BaseError:
            requests.got(self._folder, number=2)
            # An empty file has no last bytes, which stores refuse.
            if int(obstore.head(self._store, self._key)["size"]):
                raise
            return 0, b""

    def _read_known_end(self) -> tuple[int, bytes]:
        """The same for a store without suffix ranges: a HEAD, then a range."""
        requests.got(self._folder)
        size = int(obstore.head(self._store, self._key)["size"])
        length = min(size, _END_BYTES)
        if not length:
            return 0, b""
        requests.got(self._folder, length)
        return size, bytes(obstore.get_range(self._store, self._key, start=size - length, length=length))

    def read(self, size: int = -1) -> bytes:
        """The next bytes; all that are left by default."""
        rest = max(self._size - self._position, 0)
        length = rest if size < 0 else min(size, rest)
        start, self._position = self._position, self._position + length
        if not length:
            return b""
        from_end = start - (self._size - len(self._end))
        if from_end >= 0:
            return self._end[from_end : from_end + length]
        requests.got(self._folder, length)
        with named_errors(self._place):
            return bytes(obstore.get_range(self._store, self._key, start=start, length=length))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position, from the start, the position or the end. Returns it."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def size(self) -> int:
        """The bytes of the file."""
        return self._size

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def close(self) -> None:
        """Nothing is held open."""
        self.closed = True

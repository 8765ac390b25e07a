"""Random access to a file of a bucket, as pyarrow asks for it: one request for each piece, of exactly that piece.

Parquet readers begin at a file's end, where its footer is. So opening a file fetches the end and the size at once.
"""

import os
from typing import Any

import obstore
from obstore.store import ObjectStore

_END_BYTES = 64 << 10


class BucketFile:
    """A file that does not change: names in a table are used once."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store = store
        self._key = key
        self._position = 0
        self.closed = False
        try:
            found: Any = obstore.get(store, key, options={"range": {"suffix": _END_BYTES}})
            self._size = int(found.meta["size"])
            self._end = bytes(found.bytes())
        except obstore.exceptions.BaseError:
            # An empty file has no last bytes, which stores refuse.
            self._size = int(obstore.head(store, key)["size"])
            if self._size:
                raise
            self._end = b""

    def read(self, size: int = -1) -> bytes:
        """The next bytes; all that are left by default."""
        left = max(self._size - self._position, 0)
        length = left if size < 0 else min(size, left)
        start, self._position = self._position, self._position + length
        if not length:
            return b""
        from_end = start - (self._size - len(self._end))
        if from_end >= 0:
            return self._end[from_end : from_end + length]
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

"""A file that is sent to a bucket while it is written, in parts. Nobody sees it before the last part has arrived.

The client sends what an iterator yields, and aborts the upload when the iterator raises, so that no parts are left
behind, which cost money and are in no listing. (On Azure nothing aborts one: parts without a file go after a week.)
"""

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore

from engine.base import clock
from engine.store import requests

PART_BYTES = 8 << 20
_PARTS_IN_FLIGHT = 2
"""An upload holds five parts in memory at most: one that fills, one that waits, one on its way, two being sent."""
_LOOK_S = 0.2
_IN_FLIGHT_S = 1.0
"""So long do parts in flight have before the upload is aborted: a store may keep one that arrives after that."""


class _GivenUpError(Exception):
    """The file is not wanted any more."""


class BucketUpload:
    """Writes one file. A small one is sent at once when it is closed."""

    def __init__(self, store: ObjectStore, key: str, folder: str) -> None:
        """folder: counts the requests."""
        self._store = store
        self._key = key
        self._folder = folder
        self._part = bytearray()
        self._size = 0
        self._closed = False
        self._parts: queue.Queue[bytes | None] = queue.Queue(1)
        self._sender: threading.Thread | None = None
        self._error: BaseException | None = None
        self._given_up = False
        self._sent = False

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes; waits while earlier parts are being sent."""
        if self._closed:
            raise ValueError(f"{self._key} is closed")
        size = memoryview(data).nbytes
        self._part += data
        self._size += size
        if len(self._part) >= PART_BYTES:
            self._send(bytes(self._part))
            self._part = bytearray()
        return size

    def tell(self) -> int:
        """The bytes so far."""
        return self._size

    def flush(self) -> None:
        """Nothing: a part is sent when it is full."""

    @property
    def closed(self) -> bool:
        """Whether it was closed or given up."""
        return self._closed

    def close(self) -> None:
        """Send the rest and make the file visible. Raises what obstore raises."""
        if not self._closed:
            self._closed = True
            try:
                self._finish()
            except BaseException as error:  # noqa: BLE001 - raised below, and by each later close
                self._error = error
        if self._error is not None:
            raise self._error

    def _finish(self) -> None:
        if self._sender is None:
            requests.put(self._folder, self._size)
            obstore.put(self._store, self._key, bytes(self._part), use_multipart=False)
            return
        for part in (bytes(self._part), None):
            self._put(part)
        self._sender.join()

    def discard(self) -> None:
        """Give it up."""
        if self._closed:
            return
        self._closed = True
        self._given_up = True
        if self._sender is not None:
            with suppress(queue.Full):
                self._parts.put_nowait(None)
            self._sender.join()

    def _send(self, part: bytes) -> None:
        if self._sender is None:
            self._sender = threading.Thread(target=self._upload, name=f"upload of {self._key}", daemon=True)
            self._sender.start()
        self._put(part)

    def _put(self, part: bytes | None) -> None:
        while True:
            if self._error is not None:
                raise self._error
            with suppress(queue.Full):
                self._parts.put(part, timeout=_LOOK_S)
                return

    def _upload(self) -> None:
        requests.put(self._folder, 0, number=2)  # its start and its end
        try:
            obstore.put(
                self._store, self._key, self._arriving(), chunk_size=PART_BYTES, max_concurrency=_PARTS_IN_FLIGHT
            )
        except _GivenUpError:
            pass
        except BaseException as error:  # noqa: BLE001 - raised by the writer
            if not (isinstance(error, (BaseError, OSError)) and self._is_complete()):
                self._error = error

    def _is_complete(self) -> bool:
        """Whether the file is there after an error. Its name was new, so nobody else has made it.

        The answer to its end may be lost. Azure refuses the client's repetition then, because no parts are left.
        """
        if not self._sent:
            return False
        requests.got(self._folder)
        with suppress(BaseError, OSError):
            return int(obstore.head(self._store, self._key)["size"]) == self._size
        return False

    def _arriving(self) -> Iterator[bytes]:
        while (part := self._parts.get()) is not None and not self._given_up:
            if part:
                requests.put(self._folder, len(part))
                yield part
        if self._given_up:
            clock.sleep(_IN_FLIGHT_S)
            raise _GivenUpError
        self._sent = True

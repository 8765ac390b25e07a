"""Counts the requests to buckets that this process makes, by folder.

What the client repeats by itself is not counted. The requests of the deltalake library are not seen here; who calls it
counts them (`destination.delta.log.table_opening`).
"""

import threading
from collections import defaultdict
from dataclasses import astuple, dataclass
from typing import Self


@dataclass(frozen=True)
class RequestCounts:
    """Numbers of requests, as stores charge for them, and their bytes."""

    puts: int = 0
    """Writes: PUT, POST of an upload in parts, and copies."""
    lists: int = 0
    gets: int = 0
    """Reads: GET and HEAD."""
    deletes: int = 0
    """One may delete a thousand objects."""
    sent_bytes: int = 0
    received_bytes: int = 0

    def __add__(self, other: Self) -> "RequestCounts":
        return RequestCounts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def number(self) -> int:
        """All of them."""
        return self.puts + self.lists + self.gets + self.deletes


NO_REQUESTS = RequestCounts()


class RequestCounter:
    """Requests since the last `take`, by the URL of their folder. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests = defaultdict[str, RequestCounts](RequestCounts)

    def add(self, folder: str, requests: RequestCounts) -> None:
        """Count some."""
        with self._lock:
            self._requests[folder] += requests

    def take(self) -> dict[str, RequestCounts]:
        """What was counted since the last call."""
        with self._lock:
            counts, self._requests = self._requests, defaultdict(RequestCounts)
        return dict(counts)


COUNTER = RequestCounter()
"""That of this process."""


def put(folder: str, size: int, number: int = 1) -> None:
    """Count a put of so many bytes."""
    COUNTER.add(folder, RequestCounts(puts=number, sent_bytes=size))


def got(folder: str, size: int = 0, number: int = 1) -> None:
    """Count a read of so many bytes."""
    COUNTER.add(folder, RequestCounts(gets=number, received_bytes=size))


def listed(folder: str, objects: int, page: int) -> None:
    """Count a listing of so many objects. page: how many one request lists."""
    COUNTER.add(folder, RequestCounts(lists=pages(objects, page)))


def deleted(folder: str, number: int = 1) -> None:
    """Count deletions."""
    COUNTER.add(folder, RequestCounts(deletes=number))


def pages(objects: int, page: int) -> int:
    """How many requests have so many objects. page: of one request."""
    return max(-(-objects // page), 1)

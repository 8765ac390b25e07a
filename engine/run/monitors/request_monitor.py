"""Journals the requests to buckets, by table: every ten minutes, and at the end of a run.

A killed run takes the requests of its last minutes with it. What the client repeats by itself is not counted.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict

from engine.base import clock
from engine.destination.place_names import table_at
from engine.journal.store_events import PlaceRequests, StoreRequests
from engine.spec.settings import Spec
from engine.store.folder import Folder
from engine.store.requests import RequestCounter, RequestCounts

INTERVAL_S = 600.0
SINK, STATE = "sink", "state"


def places_of(spec: Spec, state: Folder | None) -> dict[str, str]:
    """The URLs of a pipeline's places in buckets, by name. state: the folder of its state; None for a local one."""
    places = {SINK: spec.sink.folder.url} if spec.sink.is_bucket else {}
    places |= {sink.name: sink.folder.url for sink in spec.sinks if sink.is_bucket}
    return places if state is None else {**places, STATE: state.url}


class RequestMonitor:
    """Used by one thread at a time. places: as `places_of`. write: journals an event."""

    def __init__(
        self, places: Mapping[str, str], counter: RequestCounter, write: Callable[[StoreRequests], object]
    ) -> None:
        self._places = places
        self._counter = counter
        self._write = write
        self._next_s = clock.monotonic_s() + INTERVAL_S

    def look(self) -> None:
        """Write an event if it is time."""
        if clock.monotonic_s() >= self._next_s:
            self.write()

    def write(self) -> None:
        """Write an event, if there were requests since the last one."""
        self._next_s = clock.monotonic_s() + INTERVAL_S
        sums = defaultdict[tuple[str, str], RequestCounts](RequestCounts)
        for url, requests in self._counter.take().items():
            sums[self._owner(url)] += requests
        if sums:
            each = (PlaceRequests(place, table, **asdict(one)) for (place, table), one in sorted(sums.items()))
            self._write(StoreRequests(requests=list(each)))

    def _owner(self, url: str) -> tuple[str, str]:
        """The place and the table of a folder. Buckets that a check tries count as the first sink's."""
        for place, root in self._places.items():
            if f"{url}/".startswith(f"{root}/"):
                return place, "" if place == STATE else table_at(root, url)
        return SINK, ""

"""Requests to buckets, by place and table."""

from engine.base import clock
from engine.journal.store_events import PlaceRequests, StoreRequests
from engine.run.monitors import request_monitor
from engine.run.monitors.request_monitor import RequestMonitor
from engine.store.requests import RequestCounter, RequestCounts
from tests.support.patience import PATIENCE_S

PLACES = {"sink": "s3://b/lake", "files": "s3://b/lake-files", "state": "s3://b/state"}


def test_requests_have_their_table() -> None:
    """Names are decoded; logs and change logs count to their table, and the rest to none."""
    counter, events = RequestCounter(), list[StoreRequests]()
    monitor = RequestMonitor(PLACES, counter, events.append)
    monitor.write()
    assert not events, "there were none"
    for folder in ("shop/a~20b", "shop/a~20b/_delta_log", "shop/a~20b__changes/_delta_log"):
        counter.add(f"s3://b/lake/{folder}", RequestCounts(puts=1, sent_bytes=10))
    counter.add("s3://b/lake/shop/a~20b__changes__until_20260101T000000Z", RequestCounts(gets=1))
    counter.add("s3://b/lake/_tidemark", RequestCounts(lists=1))
    counter.add("s3://b/lake", RequestCounts(lists=1))
    counter.add("s3://b/lake-files/shop/orders/2026-01-01", RequestCounts(puts=5))
    counter.add("s3://b/state/journal", RequestCounts(puts=7))
    monitor.write()
    (event,) = events
    assert StoreRequests.from_json(event.to_json()) == event
    assert list(event.requests) == [
        PlaceRequests("files", "shop.orders", 5, 0, 0, 0, 0, 0),
        PlaceRequests("sink", "", 0, 2, 0, 0, 0, 0),
        PlaceRequests("sink", "shop.a b", 3, 0, 1, 0, 30, 0),
        PlaceRequests("state", "", 7, 0, 0, 0, 0, 0),
    ]


def test_an_event_comes_every_interval() -> None:
    """Not with each look."""
    counter, events = RequestCounter(), list[StoreRequests]()
    monitor = RequestMonitor(PLACES, counter, events.append)
    counter.add("s3://b/lake", RequestCounts(lists=1))
    monitor.look()
    assert not events
    monitor._next_s = clock.monotonic_s()
    monitor.look()
    assert len(events) == 1
    assert monitor._next_s - clock.monotonic_s() > request_monitor.INTERVAL_S - PATIENCE_S

"""A read that waits for a lock on the source: Live and the table's page name the session that holds it."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from engine import clock
from engine.sentences import blocked
from tests.browser.conftest import OpenPage, healthy
from tests.support.simulation import SimulatedTable, Simulation, real_now
from tests.tools.demo import console

HOLDER = {"connection": 42, "user": "app", "host": "10.0.0.7", "role": "holds", "lock": "SHARED_NO_READ_WRITE"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console on a pipeline that copies two tables, one of which is locked."""
    home = tmp_path_factory.mktemp("home")
    tables = [SimulatedTable("shop.orders", 30_000_000, 900), SimulatedTable("shop.customers", 30_000_000, 900)]
    shop = Simulation(home / "shop", tables, start=real_now() - timedelta(seconds=60)).advance(55)
    since = clock.utc_text(real_now() - timedelta(seconds=50))
    holder = {**HOLDER, "since": since, "idle": True, "statement": "LOCK TABLES orders WRITE"}
    read = {"table": "shop.orders", "since": since, "lock": "table metadata lock", "reads": 1, "sessions": [holder]}
    shop.blocked = [{**read, "seconds": 50.0, "unseen": "", "hint": "End it on the source: KILL 42;"}]
    shop.raise_alert("read_blocked", "shop.orders", message=f"{blocked(read, 'shop.orders')}.", since=since)
    with shop.play(), console(home) as address:
        yield address


def test_a_blocked_read_is_named_with_the_session_that_holds_the_lock(url: str, open_page: OpenPage) -> None:
    """On Live once, though there is an alert too; on the page of that table, and on no other."""
    for place in ("live?pipeline=shop", "table?pipeline=shop&table=shop.orders", "alerts"):
        page = open_page(f"{url}/{place}")
        named = page.get_by_text("Connection 42 (app@10.0.0.7) holds it (SHARED_NO_READ_WRITE)")
        expect(named).to_have_count(1)
        expect(named).to_contain_text("last statement: LOCK TABLES orders WRITE")
        expect(page.get_by_text("KILL 42;" if place != "alerts" else "Find the session")).to_have_count(1)
        healthy(page)
    page = open_page(f"{url}/table?pipeline=shop&table=shop.customers")
    expect(page.get_by_text("From the source to the mirror")).to_be_visible()
    expect(page.get_by_text("Connection 42")).to_have_count(0)

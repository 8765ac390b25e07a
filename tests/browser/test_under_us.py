"""What others do on the source: they lock a table, change its settings, and change the password."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from engine.base import clock
from engine.journal.connection_events import ReadsBlocked
from engine.journal.sentences import blocked
from tests.browser.conftest import OpenPage, healthy
from tests.browser.test_wizard import fill
from tests.support.simulation import SimulatedTable, Simulation, real_now
from tests.tools.demo import console

HOLDER = {"connection": 42, "user": "app", "host": "10.0.0.7", "role": "holds", "lock": "SHARED_NO_READ_WRITE"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console on a pipeline that copies two tables. Another session has locked one."""
    home = tmp_path_factory.mktemp("home")
    tables = [SimulatedTable("shop.orders", 30_000_000, 900), SimulatedTable("shop.customers", 30_000_000, 900)]
    shop = Simulation(home / "shop", tables, start=real_now() - timedelta(seconds=60)).advance(55)
    since = clock.utc_text(real_now() - timedelta(seconds=50))
    holder = {**HOLDER, "since": since, "idle": True, "statement": "LOCK TABLES orders WRITE"}
    read: Any = {
        "table": "shop.orders",
        "since": since,
        "lock": "table metadata lock",
        "reads": 1,
        "sessions": [holder],
    }
    shop.blocked = [{**read, "seconds": 50.0, "unseen": "", "hint": "End it on the source: KILL 42;"}]
    change = {"what": "setting", "name": "sync_binlog", "before": "1", "after": "0", "seen": since}
    certificate = {"what": "certificate", "name": "certificate", "before": "CN=old", "after": "CN=new", "seen": since}
    shop.source = {"compared": since, "facts": 61, "changes": [change, certificate]}
    made = ReadsBlocked(**read)
    shop.raise_alert("read_blocked", "shop.orders", message=f"{blocked(made, 'shop.orders')}.", since=since)
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


def test_what_changed_on_the_source_is_listed_with_both_values(url: str, open_page: OpenPage) -> None:
    """On Live, Source: how many, and when they were compared."""
    page = open_page(f"{url}/live?pipeline=shop&section=Source")
    expect(page.get_by_text("2 changes")).to_be_visible()
    expect(page.get_by_text("compared ")).to_be_visible()
    for text in ("sync_binlog", "CN=old", "CN=new"):
        expect(page.locator("[role=gridcell]", has_text=text)).to_have_count(1)
    healthy(page)


def test_the_wizard_takes_a_file_with_the_password(url: str, open_page: OpenPage, tmp_path: Path) -> None:
    """It says whether the console can read it, and shows nothing of it."""
    page = open_page(f"{url}/new?draft=0000abcf&step=Connect")
    page.get_by_role("radio", name="File", exact=True).click()
    fill(page, "Path of the file", "secret")
    expect(page.get_by_text("Enter an absolute path")).to_be_visible()
    secret = tmp_path / "secret"
    secret.write_text("tide-Mark-21")
    fill(page, "Path of the file", str(secret))
    expect(page.get_by_text("this console can read it")).to_be_visible()
    expect(page.get_by_text("tide-Mark-21")).to_have_count(0)
    healthy(page)

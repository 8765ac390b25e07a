"""Tables that have appeared on the source: Live and Alerts name them, with *Add* and *Ignore*."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from engine.journal.sentences import hidden
from engine.journal.verification_events import HiddenChanges
from tests.browser.conftest import OpenPage, healthy
from tests.support.simulation import SimulatedTable, Simulation, real_now
from tests.tools.demo import console

FOUND: Any = {"kind": "new_tables", "names": ["shop.invoices", "shop.refunds"]}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console on a pipeline whose spec selects two tables that it does not capture."""
    home = tmp_path_factory.mktemp("home")
    tables = [SimulatedTable("shop.orders", 30_000, 3)]
    shop = Simulation(home / "shop", tables, start=real_now() - timedelta(seconds=60)).advance(55)
    shop.write("source.hidden", table=None, **FOUND)
    shop.raise_alert("new_tables", message=f"{hidden(HiddenChanges(**FOUND))}.")
    with shop.play(), console(home) as address:
        yield address


def test_tables_that_appeared_are_named_until_they_are_added_or_ignored(url: str, open_page: OpenPage) -> None:
    """Once on each page. An ignored alert stays listed."""
    page = open_page(f"{url}/alerts")
    expect(page.get_by_text("not captured (source.new_tables): shop.invoices, shop.refunds.")).to_be_visible()
    for label in ("Add 2 tables", "Ignore"):
        expect(page.get_by_role("button", name=label)).to_be_visible()
    healthy(page)
    page = open_page(f"{url}/live?pipeline=shop")
    named = page.get_by_text("2 tables appeared on the source: shop.invoices, shop.refunds")
    expect(named).to_be_visible()
    page.get_by_role("button", name="Add 2 tables").click()
    expect(page.get_by_text(re.compile("Add table done"))).to_be_visible()
    page.get_by_role("button", name="Ignore").click()
    expect(named).to_have_count(0)
    healthy(page)

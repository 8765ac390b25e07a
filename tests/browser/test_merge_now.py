"""Changes that wait to be merged are named, and *Merge now* merges them."""

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage, healthy
from tests.support.simulation import SimulatedTable, Simulation, real_now
from tests.tools.demo import console


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console on an idle pipeline whose mirror lacks a change for two minutes."""
    home = tmp_path_factory.mktemp("home")
    tables = [SimulatedTable("shop.orders", 30_000, 3)]
    shop = Simulation(home / "shop", tables, start=real_now() - timedelta(seconds=60), changes_per_s=0).advance(55)
    shop.mirror_age_s = 137.0
    with shop.play(), console(home) as address:
        yield address


def test_live_says_that_changes_wait_and_merges_them_on_a_click(url: str, open_page: OpenPage) -> None:
    """It is not green, and nobody reads that nothing is waiting."""
    page = open_page(f"{url}/live?pipeline=shop")
    expect(page.get_by_role("heading", name="Waits to be merged")).to_be_visible()
    expect(page.get_by_text("mirrors 2 min 17 s behind the change log")).to_be_visible()
    expect(page.get_by_text("nothing is waiting")).to_have_count(0)
    page.get_by_role("button", name="Merge now").click()
    expect(page.get_by_text(re.compile("Merge done"))).to_be_visible()
    healthy(page)

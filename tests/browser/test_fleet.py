"""The list of pipelines: small charts, many pipelines as a table, and several of them paused at once."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Console, OpenPage
from tests.support.simulation import SimulatedTable, Simulation, real_now
from tests.tools.demo import console


def store(home: Path, name: str) -> Simulation:
    """A pipeline that streams."""
    start = real_now() - timedelta(seconds=40)
    return Simulation(home / name, [SimulatedTable("a.b", 9000, 2)], start=start, run=name).advance(40)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, Simulation]]]:
    """A console on fifteen pipelines, and the pipelines."""
    home = tmp_path_factory.mktemp("stores")
    found = {name: store(home, name) for name in (f"store-{n:02d}" for n in range(15))}
    with ExitStack() as stack:
        for one in found.values():
            stack.enter_context(one.play())
        yield stack.enter_context(console(home)), found


def choose(page: Page, *names: str) -> None:
    """Choose pipelines for one act."""
    for name in names:
        box = page.get_by_role("combobox", name="Pipelines")
        box.click()
        box.press_sequentially(name)
        page.get_by_role("option", name=name, exact=True).click()
        options = page.get_by_role("listbox")
        if options.count():
            page.keyboard.press("Escape")  # the rest of the page is inert while the list is open
        expect(options).to_have_count(0)
        expect(page.locator("button", has_text=re.compile(f"(Pause|Resume).*{name}"))).to_be_visible()


def test_many_pipelines_are_a_table(stores: tuple[str, dict[str, Simulation]], open_page: OpenPage) -> None:
    """A row each; a filter brings the cards back."""
    page = open_page(stores[0])
    rows = page.locator("[data-testid=stDataFrame] [role=row]")
    expect(rows).to_have_count(16)
    expect(rows.filter(has_text="store-14")).to_have_count(1)
    find = page.get_by_label("Find")
    find.fill("store-03")
    find.press("Enter")
    expect(page.locator("[class*='st-key-card-']").get_by_text("store-03")).to_be_visible()


def test_several_are_paused_by_name(stores: tuple[str, dict[str, Simulation]], open_page: OpenPage) -> None:
    """Those and no others, although a filter and an address name more; then each can be resumed."""
    url, found = stores
    page = open_page(f"{url}/?find=store&bulk-0=store-07")
    expect(page.locator("[data-testid=stDataFrame] [role=row]")).to_have_count(16)  # the page is complete
    page.get_by_text("Pause or start several").click()
    # An expander's animation scrolls it for half a second, and a list closes when something around it scrolls.
    page.wait_for_function("document.getAnimations().every(one => one.effect.target?.tagName !== 'DETAILS')")
    choose(page, "store-01", "store-04")
    expect(page.get_by_text("Pause store-01, store-04. Reading stops")).to_be_visible()
    page.get_by_label("Reason").fill("moving the server")
    page.get_by_label("Reason").press("Enter")
    page.get_by_role("button", name="Pause store-01 and store-04").click()
    expect(page.get_by_text("Pause sent to store-01, store-04.")).to_be_visible()
    expect(page.locator("[role=gridcell]", has_text=re.compile("^paused$"))).to_have_count(2)
    assert {name for name, one in found.items() if one.state == "paused"} == {"store-01", "store-04"}
    expect(page.locator("[role=gridcell]", has_text="Paused: ").filter(has_text="moving the server")).to_have_count(2)
    assert "moving the server" in found["store-01"].journal.path.read_text()
    choose(page, "store-01", "store-02")
    expect(page.get_by_text("Unchanged: store-02 (running).")).to_be_visible()
    page.get_by_role("button", name="Resume store-01").click()
    expect(page.get_by_text("Resume sent to store-01.")).to_be_visible()
    expect(page.locator("[role=gridcell]", has_text=re.compile("^paused$"))).to_have_count(1)


def test_pipelines_are_grouped_by_source(simulated: Console, open_page: OpenPage) -> None:
    """By a toggle, or by the URL."""
    page = open_page(simulated.url)
    page.get_by_text("Group by source").click()
    expect(page.get_by_text(re.compile(r"127\.0\.0\.1:\d+ 6 pipelines"))).to_be_visible()
    expect(page).to_have_url(re.compile("grouped=true", re.IGNORECASE))
    page.goto(f"{simulated.url}/?grouped=True")
    expect(page.get_by_text(re.compile(r"127\.0\.0\.1:\d+ 6 pipelines"))).to_be_visible()


def test_cards_show_the_lag_of_the_last_half_hour(simulated: Console, open_page: OpenPage) -> None:
    """As a picture with a sentence."""
    page = open_page(simulated.url)
    picture = page.locator(".st-key-card-billing").get_by_role("img", name="Lag of the last 30 min: at most")
    expect(picture).to_be_visible()


def test_a_card_has_the_buttons_of_its_stopped_tables(tmp_path: Path, open_page: OpenPage) -> None:
    """Beside what it says of them."""
    start = real_now() - timedelta(seconds=40)
    shop = Simulation(tmp_path / "shop", [SimulatedTable("a.b", 9000, 2)], start=start, run="shop").advance(40)
    shop.write("table.state", table="a.b", state="stopped", reason="A date does not exist.", hint="Correct the value.")
    with shop.play(), console(tmp_path) as url:
        page = open_page(url)
        card = page.locator("[class*='st-key-card-shop']").first
        expect(card.get_by_text(re.compile("Stopped"))).to_be_visible()
        for act in ("Resnapshot", "Remove"):
            expect(card.get_by_role("button", name=act)).to_be_visible()

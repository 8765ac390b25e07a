"""The page of a table: one that streams, one that stopped, and one whose runner is lost."""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Error, Locator, Page, Position, expect

from tests.browser.conftest import OpenPage, healthy
from tests.support.simulation import SimulatedTable, Simulation, real_now
from tests.tools.demo import console

TABLES = [
    SimulatedTable("shop.orders", 300_000, 12),
    SimulatedTable("shop.customers", 40_000, 4),
    SimulatedTable("shop.*odd*", 40_000, 4),
    SimulatedTable("shop.old", 1_000, 1),
]


def scene(home: Path) -> Simulation:
    """A pipeline with a busy table, a quiet one and a stopped one; and one whose runner was lost two hours ago."""
    shop = Simulation(home / "shop", TABLES, start=real_now() - timedelta(seconds=90)).advance(60)
    assert shop.phase == "streaming"
    gone = {"error": "DecodeError", "message": "no such column", "hint": "Add it back."}
    shop.write("source.event", kind="evolved", table="shop.orders", position="b.1:4", statement="ALTER TABLE orders")
    shop.write("error", error="DestinationError", message="Publishing shop.*odd* failed: disk", retry_in_s=None)
    shop.write("table.state", table="shop.*odd*", state="stopped", reason=gone["message"], hint=gone["hint"])
    shop.write("table.state", table="shop.old", state="removed", reason=None, hint=None)
    shop.advance(30)
    then = real_now() - timedelta(hours=2)
    lost = Simulation(home / "crm", [SimulatedTable("crm.contacts", 60_000, 4)], start=then).advance(40)
    lost.runner(heartbeat=lost.now)
    return shop


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console on the scene."""
    home = tmp_path_factory.mktemp("home")
    with scene(home).play(), console(home) as address:
        yield address


def fact(page: Page, label: str) -> Locator:
    """A row of facts."""
    return page.get_by_role("row").filter(has_text=label)


def drawn(page: Page) -> None:
    """Wait for the end of the page.

    One that is still running may overwrite the address of a link (`app.live.chunk_section`).
    """
    expect(page.get_by_text("The pipeline writes no files for this table")).to_be_visible()


def test_a_table_that_streams_is_up_to_date(url: str, open_page: OpenPage) -> None:
    """With its last change, and the page keeps up."""
    page = open_page(f"{url}/table?pipeline=shop&table=shop.orders")
    for text in ("Streaming", "Up to date", "Copied"):
        expect(page.get_by_role("heading", name=text)).to_be_visible()
    expect(page.get_by_text(re.compile(r"^last change \d+ s ago$"))).to_be_visible()
    expect(page.get_by_text(re.compile("12 of 12 chunks"))).to_be_visible()
    merged = fact(page, "Last merged into the mirror")
    expect(merged).to_contain_text(re.compile(r" · \d+ s ago$"))
    expect(merged).not_to_have_text(merged.inner_text())
    healthy(page)


def test_a_table_without_changes_is_told_from_a_stuck_one(url: str, open_page: OpenPage) -> None:
    """It is up to date."""
    page = open_page(f"{url}/table?pipeline=shop&table=shop.customers")
    expect(page.get_by_role("heading", name="Up to date")).to_be_visible()
    expect(page.get_by_text("no changes since the copy")).to_be_visible()
    healthy(page)


def test_a_stopped_table_says_why_and_what_to_do(url: str, open_page: OpenPage) -> None:
    """In three parts, with its name as it is, and with its error."""
    page = open_page(f"{url}/table?pipeline=shop&table=shop.*odd*")
    expect(page.get_by_role("heading", name="Stopped").first).to_be_visible()
    alert = page.get_by_test_id("stAlert")
    for text in ("shop.*odd* stopped: no such column", "The other tables continue.", "Add it back."):
        expect(alert).to_contain_text(text)
    expect(page.get_by_role("heading", name="Up to date")).to_have_count(0)
    expect(page.get_by_test_id("stDataFrame").nth(1)).to_be_visible()
    for label in ("Resnapshot", "Remove"):
        expect(page.get_by_role("button", name=label, exact=True)).to_be_visible()
    healthy(page)


@pytest.mark.parametrize(("label", "verb"), [("Resnapshot", "Resume"), ("Remove", "Remove")])
def test_a_stopped_table_has_the_buttons_that_end_it(url: str, open_page: OpenPage, label: str, verb: str) -> None:
    """On Live, below its message. The footer has the answer."""
    page = open_page(f"{url}/live?pipeline=shop")
    expect(page.get_by_text("shop.*odd* stopped: no such column")).to_be_visible()
    page.get_by_role("button", name=label, exact=True).click()
    page.get_by_role("button", name=f"{label} table").click()
    expect(page.get_by_text(re.compile(rf"{verb}.* done", re.IGNORECASE))).to_be_visible()
    healthy(page)


def test_a_removed_table_says_what_stays_and_offers_nothing(url: str, open_page: OpenPage) -> None:
    """Nothing can be redumped, verified or explored; its events and its history stay."""
    page = open_page(f"{url}/table?pipeline=shop&table=shop.old")
    expect(page.get_by_text("shop.old was removed from the pipeline")).to_be_visible()
    expect(page.get_by_text("No longer captured")).to_be_visible()
    expect(page.get_by_text("Schema and copies")).to_be_visible()
    expect(page.get_by_role("link", name="Events of this table")).to_be_visible()
    for name in ("Verify this table", "Explore this table", "Chunk map"):
        expect(page.get_by_role("link", name=name)).to_have_count(0)
    expect(page.get_by_role("button", name="Redump this table")).to_have_count(0)
    expect(page.get_by_text("Verified", exact=True)).to_have_count(0)
    healthy(page)


def test_nothing_is_current_when_the_runner_is_lost(url: str, open_page: OpenPage) -> None:
    """The numbers have the time of the last reading, and the lag is what it can be by now."""
    page = open_page(f"{url}/table?pipeline=crm&table=crm.contacts")
    expect(page.get_by_role("heading", name="Not current")).to_be_visible()
    expect(page.get_by_text("the runner is lost")).to_be_visible()
    expect(page.get_by_text(re.compile("changes after .* are unknown"))).to_be_visible()
    expect(fact(page, "Lag of the pipeline")).to_contain_text(re.compile("up to (2 h|1 h 59 min)"))
    expect(page.get_by_role("heading", name="Up to date")).to_have_count(0)
    drawn(page)
    healthy(page)
    page.get_by_role("link", name="Open the pipeline").click()
    expect(page).to_have_url(re.compile(r"/live\?pipeline=crm(&|$)"))
    expect(page.get_by_text("The runner has sent no heartbeat since")).to_be_visible()


def clicked_link(page: Page, rows: Locator, place: Position) -> Page:
    """The page that a link of a data frame opens.

    Its canvas follows a click only when it has noticed the mouse over the link.
    """
    for _ in range(20):
        with suppress(Error):
            with page.context.expect_page(timeout=3000) as opened:
                rows.hover(position=place)
                page.wait_for_timeout(500)
                rows.click(position=place)
            return opened.value
    raise AssertionError("the link opens no page")


def test_live_leads_to_a_table_and_the_table_to_its_chunks_events_and_redump(url: str, open_page: OpenPage) -> None:
    """Each link keeps the pipeline and the table."""
    page = open_page(f"{url}/live?pipeline=shop")
    rows = page.get_by_test_id("stDataFrame").first
    expect(rows).to_be_visible()
    healthy(page)
    place = Position(x=230, y=50)  # the icon of the first row: a canvas has no elements
    opened = clicked_link(page, rows, place)
    expect(opened).to_have_url(re.compile(r"/table\?pipeline=shop&table=shop\.%2Aodd%2A"))
    page.goto(f"{url}/live?pipeline=shop&section=Chunks&table=shop.customers")
    expect(
        page.locator("[data-test-script-state=notRunning]")
    ).to_be_visible()  # see `app.common.selection.keep_address`
    page.get_by_role("link", name="Table page").click()
    expect(page).to_have_url(re.compile(r"/table\?pipeline=shop&table=shop.customers(&|$)"))
    chosen = page.get_by_role("combobox", name="Table")
    expect(chosen).to_have_value("shop.customers")
    drawn(page)
    page.get_by_role("link", name="Chunk map").click()
    expect(page.get_by_role("group", name="Chunk map").get_by_role("button")).to_have_count(4)
    expect(page).to_have_url(re.compile(r"/live\?(.*&)?pipeline=shop&"))
    expect(chosen).to_have_value("shop.customers")
    expect(page.locator("[data-test-script-state=notRunning]")).to_be_visible()
    page.get_by_role("link", name="Table page").click()
    drawn(page)
    page.get_by_role("link", name="Events of this table").click()
    expect(page).to_have_url(re.compile("section=Events"))
    expect(chosen).to_have_value("shop.customers")
    page.goto(f"{url}/table?pipeline=shop&table=shop.customers")
    drawn(page)
    expect(page.get_by_test_id("stMain").locator("a[href*=verify]")).to_have_count(1)
    page.get_by_role("button", name="Redump this table").click()
    expect(page).to_have_url(re.compile("/redump"))
    expect(chosen).to_have_value("shop.customers")
    expect(page.get_by_role("radio", name="Table")).to_be_checked()
    healthy(page)


def test_an_address_without_a_table_asks(url: str, open_page: OpenPage) -> None:
    """Also one with a table that the pipeline does not have."""
    for address, text in (
        ("table", "No pipeline is selected."),
        ("table?pipeline=shop", "No table is selected."),
        ("table?pipeline=shop&table=shop.gone", "This pipeline has no table shop.gone."),
    ):
        page = open_page(f"{url}/{address}")
        expect(page.get_by_text(text)).to_be_visible()
        healthy(page)

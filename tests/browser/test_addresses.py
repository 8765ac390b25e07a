"""The addresses of pages: each opens the same page again, whatever the defaults are by then."""

import re
from contextlib import suppress

from playwright.sync_api import Error, expect

from tests.browser.conftest import Console, OpenPage, healthy


def test_the_list_has_an_address_of_its_own(simulated: Console, open_page: OpenPage) -> None:
    """`/pipelines` opens it, with its filters, and the navigation shows where it is."""
    page = open_page(f"{simulated.url}/pipelines?find=leg&states=failed&states=running")
    expect(page.get_by_role("heading", name="Pipelines", level=1)).to_be_visible()
    expect(page.get_by_label("Find")).to_have_value("leg")
    expect(page.get_by_text("1 of 6 pipelines shown")).to_be_visible()
    expect(page.get_by_text("Page not found")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"/\?find=leg&states=failed&states=running&grouped=False$"))
    healthy(page)


def test_an_address_has_the_values_that_nobody_has_chosen(simulated: Console, open_page: OpenPage) -> None:
    """Also an empty choice."""
    for address, parts in (
        ("live?pipeline=shop", ("section=Overview", r"span=5\+min")),
        ("live?pipeline=shop&section=Chunks", ("section=Chunks", "table=shop.orders")),
        ("live?pipeline=shop&section=Events&kinds=", ("kinds=(&|$)",)),
        ("live?pipeline=shop&section=Events", ("kinds=Run", "kinds=Source")),
        ("redump?pipeline=billing", ("part=Chunks", "table=billing.invoices")),
        ("history", (r"pipeline=all\+pipelines",)),
    ):
        page = open_page(f"{simulated.url}/{address}")
        expect(page).to_have_url(re.compile("".join(f"(?=.*{part})" for part in parts)))
    page = open_page(f"{simulated.url}/live?pipeline=shop")
    expect(page).to_have_url(re.compile("section=Overview"))
    page.get_by_role("tab", name="Plan").click()
    expect(page).to_have_url(re.compile("section=Plan"))
    expect(page.get_by_text("Distribution factor").first).to_be_visible()
    page.get_by_role("tab", name="Overview").click()
    expect(page).to_have_url(re.compile("section=Overview"))
    page.get_by_role("radio", name="30 min").click()
    expect(page).to_have_url(re.compile(r"section=Overview.*span=30\+min"))
    page.get_by_role("radio", name="5 min").click()
    expect(page).to_have_url(re.compile(r"section=Overview.*span=5\+min"))
    healthy(page)


def test_back_returns_to_the_section_that_was_open(simulated: Console, open_page: OpenPage) -> None:
    """From pages with a pipeline of their own, with the table and the filters.

    Forward leads to the other page again.
    """
    page = open_page(f"{simulated.url}/live?pipeline=shop&table=shop.customers")
    page.get_by_role("tab", name="Chunks").click()
    expect(page).to_have_url(re.compile("section=Chunks"))
    for other in ("Verify", "History"):
        page.get_by_role("link", name=other).first.click()
        expect(page.get_by_role("heading", name=other, level=1)).to_be_visible()
        page.go_back()
        expect(page.get_by_role("tab", name="Chunks")).to_have_attribute("aria-selected", "true")
        expect(page).to_have_url(
            re.compile(r"/live\?(?=.*pipeline=shop)(?=.*section=Chunks)(?=.*table=shop\.customers)")
        )
        page.go_forward()
        expect(page.get_by_role("heading", name=other, level=1)).to_be_visible()
        page.go_back()
        expect(page.get_by_role("tab", name="Chunks")).to_have_attribute("aria-selected", "true")
    healthy(page)


def test_back_returns_to_the_section_that_was_left_at_once(simulated: Console, open_page: OpenPage) -> None:
    """After *Back*, while the page is still being drawn.

    Then Streamlit overwrites the entry of the browser's history.
    """
    opened = re.compile(r"/live\?(?=.*pipeline=shop)(?=.*section=Chunks)")
    page = open_page(f"{simulated.url}/live?pipeline=shop&section=Chunks")
    for other in ("Verify", "History") * 3:
        page.get_by_role("link", name=other).first.click()
        expect(page.get_by_role("heading", name=other, level=1)).to_be_visible()
        page.go_back()
        expect(page).to_have_url(opened)
    expect(page.get_by_role("tab", name="Chunks")).to_have_attribute("aria-selected", "true")
    healthy(page)


def test_a_bar_of_a_window_opens_its_chunk(simulated: Console, open_page: OpenPage) -> None:
    """In the section with the map; the address names it."""
    page = open_page(f"{simulated.url}/live?pipeline=shop&section=Watermarks")
    expect(page.get_by_text("The 20 widest windows.")).to_be_visible()
    chunks = page.get_by_role("tab", name="Chunks")
    for _ in range(20):
        with suppress(AssertionError, Error):  # an autorefresh may draw the bars again meanwhile
            bar = page.locator(".js-plotly-plot .barlayer .point path").first
            expect(bar).to_be_visible(timeout=3000)
            bar.hover(force=True)
            page.mouse.down()
            page.mouse.up()
            expect(chunks).to_have_attribute("aria-selected", "true", timeout=3000)
            break
    expect(page.get_by_text("Watermarks and backfill")).to_be_visible()
    expect(page).to_have_url(re.compile(r"(?=.*section=Chunks)(?=.*chunk=\d)"))
    healthy(page)


def test_fields_of_one_table_are_empty_for_another(simulated: Console, open_page: OpenPage) -> None:
    """A chunk of one table must not be redumped in another, also if the address names a table that is gone."""
    for address in ("redump?pipeline=shop&{}&chunks=5", "live?pipeline=shop&section=Chunks&{}&chunk=5"):
        for table in ("table=shop.orders", "table=shop.gone"):
            page = open_page(f"{simulated.url}/{address.format(table)}")
            text = page.get_by_role("textbox", name="Chunks", exact=True)
            field = (
                text if address.startswith("redump") else page.get_by_role("spinbutton", name=re.compile("^Chunk, "))
            )
            chosen = page.get_by_role("combobox", name="Table", exact=True)
            if table.endswith("orders"):
                expect(field).to_have_value("5")
            chosen.click()
            page.get_by_role("option", name="shop.customers", exact=True).click()
            expect(page).to_have_url(re.compile("table=shop.customers"))
            expect(field).to_have_value("")
            expect(page).not_to_have_url(re.compile(r"chunks?=\d"))
            healthy(page)


def test_fields_that_are_not_drawn_are_emptied_too(simulated: Console, open_page: OpenPage) -> None:
    """Whether they were drawn before, or only the address has them."""
    for drawn in (False, True):
        part = "Chunks" if drawn else "Table"
        page = open_page(f"{simulated.url}/redump?pipeline=shop&part={part}&table=shop.orders&chunks=5")
        field = page.get_by_role("textbox", name="Chunks", exact=True)
        if drawn:
            expect(field).to_have_value("5")
            page.get_by_role("radio", name="Table").click()
            expect(field).to_have_count(0)
        page.get_by_role("combobox", name="Table", exact=True).click()
        page.get_by_role("option", name="shop.customers", exact=True).click()
        expect(page).to_have_url(re.compile("table=shop.customers"))
        expect(page).not_to_have_url(re.compile("chunks="))
        page.get_by_role("radio", name="Chunks").click()
        expect(field).to_have_value("")
        healthy(page)

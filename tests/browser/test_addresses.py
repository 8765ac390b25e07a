"""The addresses of pages: each opens the same page again, whatever the defaults are by then."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import Console, OpenPage
from tests.browser.test_console import healthy


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

"""What a screen reader and a keyboard find on every page of the gallery."""

import re

import pytest
from playwright.sync_api import Page, expect

from engine.pipeline.verification_records import Details, Difference
from engine.pipeline.verifications import save
from tests.browser.conftest import Console, OpenPage
from tests.browser.gallery import BROKEN, BUSY, drawn
from tests.support.depth import depth

# Buttons and links without a name. The toolbar of a chart, a table or a code block is Streamlit's own.
NAMELESS = """() => {
    const text = node => node && (node.textContent || "").trim()
    const named = node => text(node) || node.getAttribute("aria-label") || node.title
        || (node.getAttribute("aria-labelledby") || "").split(" ").some(id => text(document.getElementById(id)))
        || [...node.querySelectorAll("img")].some(image => image.alt)
    return [...document.querySelectorAll("button, a[href], [role=button], [role=link]")]
        .filter(node => node.checkVisibility() && !named(node)).map(node => node.outerHTML.slice(0, 300))
}"""
# The lowest contrast of the texts, composed over their backgrounds. Large text needs less, and disabled text none.
FAINT = """() => {
    const parts = colour => { const found = colour.match(/[\\d.]+/g).map(Number); \
return found.length > 3 ? found : [...found, 1] }
    const over = (front, back) => back.map((value, n) => front[n] * front[3] + value * (1 - front[3]))
    const light = colour => {
        const [r, g, b] = colour.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b
    }
    const behind = node => {
        const found = []
        for (; node; node = node.parentElement) found.unshift(parts(getComputedStyle(node).backgroundColor))
        return found.reduce((back, front) => over(front, back), [255, 255, 255])
    }
    const faint = []
    const texts = document.createTreeWalker(document.querySelector("[data-testid=stApp]"), NodeFilter.SHOW_TEXT)
    for (let text; text = texts.nextNode();) {
        const node = text.parentElement, style = getComputedStyle(node)
        if (!text.textContent.trim() || !node.checkVisibility({ opacityProperty: true, visibilityProperty: true })) \
continue
        if (node.closest("style, script, svg, :disabled, [aria-disabled=true]") || !style.color.startsWith("rgb")) \
continue
        if (node.closest("[data-testid=stIconMaterial]")) continue  // a picture: 3 is enough, and it has a text \
beside it
        const back = behind(node), front = over(parts(style.color), back)
        const [high, low] = [light(front), light(back)].sort((a, b) => b - a)
        const ratio = (high + 0.05) / (low + 0.05), size = parseFloat(style.fontSize)
        const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700)
        if (ratio < (large ? 3 : 4.5)) faint.push(`${ratio.toFixed(2)} ${text.textContent.trim().slice(0, 40)} \
${style.color}`)
    }
    return [...new Set(faint)]
}"""
ADDRESSES = sorted({*BUSY, *BROKEN, "pipelines", "live", "live?pipeline=gone", "new?draft=gone"})
SOME = (
    "",
    "live?pipeline=shop&section=Overview",
    "live?pipeline=shop&section=Chunks&table=shop.orders&chunk=7",
    "live?pipeline=gone",
    "table?pipeline=shop&table=shop.orders",
    "verify?pipeline=shop",
    "redump?pipeline=shop",
    "explore?pipeline=shop",
    "alerts",
    "history",
    "glossary",
    "diagnostics",
    "new",
)
FEW = ("live?pipeline=shop&section=Overview", "live?pipeline=legacy", "alerts")


def readable(page: Page) -> None:
    """One first heading, a title, and a name for every button and link."""
    expect(page.locator("h1")).to_have_count(1)
    expect(page.locator("h1")).not_to_be_empty()
    expect(page).to_have_title(re.compile(r"^(\(\d+\) )?\S.* · Tidemark$"))
    assert page.evaluate(NAMELESS) == []


def test_every_page_has_one_heading_a_title_and_named_controls(simulated: Console, open_page: OpenPage) -> None:
    """`make soak`: all pages of the gallery."""
    page = open_page(simulated.url)
    for address in depth(list(SOME), ADDRESSES):
        page.goto(f"{simulated.url}/{address}")
        expect(page.locator("h1")).to_be_attached()
        page.wait_for_timeout(1000)  # for what follows the heading
        readable(page)


@pytest.mark.parametrize("address", depth(list(FEW), ADDRESSES))
def test_every_text_has_enough_contrast(simulated: Console, open_page: OpenPage, address: str) -> None:
    """That of WCAG AA, in both themes. `make soak`: on every page of the gallery."""
    for theme in ("light", "dark"):
        page = open_page(f"{simulated.url}/{address}", theme=theme)
        drawn(page)
        assert page.evaluate(FAINT) == []


def test_a_change_of_the_state_is_announced(simulated: Console, open_page: OpenPage) -> None:
    """By a region that stays in the page."""
    page = open_page(f"{simulated.url}/live?pipeline=shop")
    region = page.get_by_role("status").filter(has_text="shop: ")
    expect(region).to_have_text("shop: running")
    same = region.element_handle()
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("button", name="Pause pipeline").click()
    expect(region).to_have_text("shop: paused")
    assert same is not None
    assert same.text_content() == "shop: paused"
    page.get_by_role("button", name="Resume").click()
    expect(region).to_have_text("shop: running")


def step(page: Page, key: str) -> None:
    """Press an arrow key in a data frame, and wait until the focus has followed the selection."""
    before = page.evaluate("document.activeElement.id")
    page.keyboard.press(key)
    page.wait_for_function(
        "before => { const id = document.activeElement.id; return id !== before && id.startsWith('glide-cell') }",
        arg=before,
    )


def test_the_link_of_a_row_is_opened_with_the_keyboard(simulated: Console, open_page: OpenPage) -> None:
    """In the event feed, as in every other table: with the arrow keys and Enter."""
    page = open_page(f"{simulated.url}/live?pipeline=crm&section=Events")
    rows = page.get_by_test_id("stDataFrame")
    expect(rows).to_be_visible()
    drawn(page)
    rows.locator("canvas").first.focus()
    focused = page.locator("td[role=gridcell]:focus")
    for key in ("ArrowDown", *["ArrowRight"] * 4):
        step(page, key)
    for _ in range(20):
        if focused.inner_text().startswith("table?"):
            break
        step(page, "ArrowDown")
    with page.context.expect_page() as opened:
        page.keyboard.press("Enter")
    expect(opened.value).to_have_url(re.compile(r"/table\?pipeline=crm&table=crm\.contacts"))


def test_the_repair_is_near_and_closes(simulated: Console, open_page: OpenPage) -> None:
    """Its button comes before the lists, each of whose cells is a stop of the Tab key.

    Its popover closes when it begins.
    """
    row = Difference("missing", ("5",), cause="it never arrived", source={"id": "5"}, chunk=1)
    save(simulated.shop.directory, {}, [Details(table="shop.orders", complete=True, parts=[], differences=[row])])
    page = open_page(f"{simulated.url}/verify?pipeline=shop&table=shop.orders")
    repair = page.get_by_role("button", name="Repair 1 row")
    expect(repair).to_be_visible()
    for _ in range(30):
        page.keyboard.press("Tab")
        if repair.evaluate("one => one === document.activeElement"):
            break
    expect(repair).to_be_focused()
    page.keyboard.press("Enter")
    begin = page.get_by_role("button", name="Repair and verify")
    begin.click()
    expect(begin).to_have_count(0)
    expect(page.get_by_text("The pipeline has not run yet")).to_be_visible()

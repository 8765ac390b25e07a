"""The console in a real browser, on simulated pipelines in every state."""

import json
import re
from datetime import datetime, timedelta
from itertools import product

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import CONTRASTS, Console, OpenPage, healthy
from tests.browser.hands import HANDS, Keyboard, open_from_navigation, select
from tests.support.depth import depth
from tests.tools.demo import console

# Streamlit sends a click in the next turn of the browser's event loop. Here that turn is late, as in a busy browser.
LATE_CLICK = """button => {
    const { setTimeout } = window
    window.setTimeout = (act, ms, ...rest) => setTimeout(act, ms || 2500, ...rest)
    button.click()
    window.setTimeout = setTimeout
}"""
SECTIONS = ("Overview", "Chunks", "Readers", "Watermarks", "Plan", "Events", "Source", "Spec")


def status_line(page: Page) -> str:
    """The status line of a live page."""
    return page.locator(".status-line").inner_text()


def test_the_list_shows_pipelines_with_problems_first(simulated: Console, open_page: OpenPage) -> None:
    """So that an operator sees at once what needs attention."""
    page = open_page(simulated.url)
    cards = page.locator("[class*='st-key-card-']").filter(has=page.get_by_test_id("stPageLink"))
    expect(cards).to_have_count(6)
    names = [cards.nth(n).get_by_test_id("stPageLink").inner_text() for n in range(6)]
    assert names == ["legacy", "crm", "shop", "billing", "fresh", "archive"]
    expect(cards.nth(0)).to_contain_text("The binlog mysql-bin.000038 was purged.")
    expect(cards.nth(1)).to_contain_text("runner lost")
    expect(cards.nth(2)).to_contain_text("rows/s")
    healthy(page)
    page.get_by_test_id("stPageLink").get_by_text("shop").click()
    expect(page).to_have_url(re.compile(r"/live\?pipeline=shop"))


def test_pipelines_are_found(simulated: Console, open_page: OpenPage) -> None:
    """By text and state; the address carries both, and says how many are left out."""
    page = open_page(simulated.url)
    cards = page.locator("[class*='st-key-card-']").filter(has=page.get_by_test_id("stPageLink"))
    expect(cards).to_have_count(6)
    text = page.get_by_label("Find")
    text.fill("127.0.0.1 failed")
    text.press("Enter")
    expect(cards).to_have_count(1)
    expect(page.get_by_text("1 of 6 pipelines shown")).to_be_visible()
    again = open_page(page.url, beside=True)
    expect(again.get_by_test_id("stPageLink").get_by_text("legacy")).to_be_visible()
    text.fill("nothing like this")
    text.press("Enter")
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    healthy(page)


@pytest.mark.parametrize(
    ("width", "theme"), depth([(1280, "light"), (1920, "dark")], list(product([1280, 1920], ["light", "dark"])))
)
def test_every_section_has_content(simulated: Console, open_page: OpenPage, width: int, theme: str) -> None:
    """At both widths and in both themes, after a click on its tab. `make soak`: in every combination."""
    page = open_page(f"{simulated.url}/live?pipeline=shop", width, theme)
    for section in SECTIONS:
        page.get_by_role("tab", name=section).click()
        panel = page.get_by_role("tabpanel").filter(visible=True)
        content = panel.locator(
            "[data-testid=stDataFrame], [data-testid=stPlotlyChart], [role=group], [data-testid=stCode], .status-line"
        )
        if section == "Source":  # a simulated runner compares nothing
            content = panel.get_by_text("No runner has compared the source yet")
        expect(content.first).to_be_visible()
        healthy(page)
    expect(page).to_have_url(re.compile("section=Spec"))


def test_the_numbers_refresh_automatically(simulated: Console, open_page: OpenPage) -> None:
    """Without a reload, and with the time of the numbers."""
    page = open_page(f"{simulated.url}/live?pipeline=shop")
    expect(page.get_by_text(re.compile(r"^updated \d\d:\d\d:\d\d UTC · run "))).to_be_visible()
    first = status_line(page)
    copied = r"Copy: \d+(\.\d)?M/\d+(\.\d)?M rows, \d+/2149 chunks \d+\.\d%; Changes: .*k; "
    assert re.match(copied + r"Lag: .*s .*KB; mysql-bin\.\d+:\d+; State: snapshotting; ETA: ", first)
    expect(page.locator(".status-line")).not_to_have_text(first)


def test_times_are_in_utc_until_local_time_is_chosen(simulated: Console, open_page: OpenPage) -> None:
    """Autorefreshed parts, headings and other pages follow the choice; downloads stay in UTC."""
    page = open_page(f"{simulated.url}/live?pipeline=shop")
    expect(page.get_by_text(re.compile(r"^updated \d\d:\d\d:\d\d UTC · run "))).to_be_visible()
    page.get_by_role("radio", name="Local").click()
    local = re.compile(r"^updated \d\d:\d\d:\d\d IST · run ")
    expect(page.get_by_text(local)).to_be_visible()
    shown = page.get_by_text(local).inner_text()
    expect(page.get_by_text(local)).not_to_have_text(shown)
    expect(page.get_by_text("Asia/Kolkata; a click").or_(page.get_by_text("Asia/Calcutta")).first).to_be_visible()
    open_from_navigation(page, "History")
    expect(page.get_by_text(re.compile(r"^updated .* IST · 5 runs"))).to_be_visible()
    page.evaluate("window.showSaveFilePicker = undefined")  # no one can answer a system dialog
    page.get_by_test_id("stDataFrame").hover()
    with page.expect_download() as taken:
        page.get_by_test_id("stElementToolbar").get_by_role("button", name="Download as CSV").click()
    heads, first, *_ = taken.value.path().read_text(encoding="utf-8-sig").splitlines()
    assert heads.split(",")[0] == "Started"
    assert datetime.fromisoformat(first.split(",")[0]).utcoffset() == timedelta(0)
    open_from_navigation(page, "Live")
    expect(page.get_by_text(local)).to_be_visible()
    expect(page.get_by_role("combobox", name="Pipeline")).to_have_value("shop")
    page.get_by_role("radio", name="UTC").click()
    expect(page.get_by_text(re.compile(r"^updated .* UTC · run "))).to_be_visible()
    page.get_by_role("radio", name="Local").click()
    open_from_navigation(page, "Pipelines")
    expect(page.get_by_text(re.compile(r"^updated .* IST"))).to_be_visible()
    page.reload()
    expect(page.get_by_text(re.compile(r"^updated .* IST"))).to_be_visible()
    page.get_by_role("button", name="New pipeline").click()
    expect(page.get_by_role("button", name="Test connection")).to_be_visible()
    healthy(page)


def test_a_card_opens_its_pipeline_whatever_was_open_before(simulated: Console, open_page: OpenPage) -> None:
    """Also the first by name. The other pages show the pipeline that was selected last."""
    page = open_page(f"{simulated.url}/live?pipeline=shop")
    chosen = page.get_by_role("combobox", name="Pipeline")
    expect(chosen).to_have_value("shop")
    for name in ("archive", "crm"):
        open_from_navigation(page, "Pipelines")
        page.get_by_test_id("stPageLink").get_by_text(name, exact=True).click()
        expect(page).to_have_url(re.compile(f"pipeline={name}"))
        expect(chosen).to_have_value(name)
    open_from_navigation(page, "History")
    expect(page.get_by_text(re.compile("· 5 runs"))).to_be_visible()
    open_from_navigation(page, "Diagnostics")
    expect(chosen).to_have_value("crm")
    healthy(page)


def test_an_address_opens_what_it_names_or_asks(simulated: Console, open_page: OpenPage) -> None:
    """Neither another pipeline nor a filled form, nor another table.

    Also if it names no pipeline, or one that is not there.
    """
    for address, text in (
        ("redump?chunks=5&part=Chunks", "No pipeline is selected."),
        ("redump?pipeline=gone&chunks=5&table=shop.orders", "There is no pipeline gone."),
        ("live?section=Chunks&table=shop.orders&chunk=4", "No pipeline is selected."),
    ):
        page = open_page(f"{simulated.url}/{address}")
        expect(page.get_by_text(text)).to_be_visible()
        expect(page.get_by_role("button", name="Redump")).to_have_count(0)
    page = open_page(f"{simulated.url}/redump?chunks=5")
    select(page, "Pipeline", "shop")
    expect(page.get_by_text("Choose a table").first).to_be_visible()
    expect(page).to_have_url(re.compile("pipeline=shop"))
    chunks = page.get_by_role("textbox", name="Chunks", exact=True)
    expect(chunks).to_have_value("")
    select(page, "Table", "shop.customers")
    expect(page.get_by_role("link", name="Table page")).to_be_visible()  # what is entered before may be of no table
    chunks.fill("4")
    chunks.press("Enter")
    expect(page).to_have_url(re.compile(r"(?=.*table=shop\.customers)(?=.*chunks=4)(?=.*part=Chunks)"))
    again = open_page(page.url, beside=True)
    expect(again.get_by_role("combobox", name="Table")).to_have_value("shop.customers")
    expect(again.get_by_role("textbox", name="Chunks", exact=True)).to_have_value("4")
    select(page, "Pipeline", "billing")
    expect(page.get_by_role("combobox", name="Table")).to_have_value("billing.invoices")
    expect(chunks).to_have_value("")
    healthy(page)
    missing = open_page(f"{simulated.url}/live?pipeline=shop&section=Chunks&table=shop.gone")
    expect(missing.get_by_text("The table in the address is not captured by this pipeline.")).to_be_visible()
    healthy(missing)


def test_events_are_filtered_by_table_and_their_words_are_explained(simulated: Console, open_page: OpenPage) -> None:
    """The tooltip has the meanings of the field's words, and leads to the glossary."""
    page = open_page(f"{simulated.url}/live?pipeline=shop&section=Events&events-table=shop.orders")
    expect(page.get_by_role("combobox", name=re.compile("Table")).first).to_have_value("shop.orders")
    page.get_by_role("button", name="Help for Kinds").hover()
    tooltip = page.get_by_role("tooltip")
    expect(tooltip).to_contain_text("Ghost: a row that the mirror has and the source has not")
    with page.expect_popup() as opened:
        tooltip.get_by_role("link", name="Glossary").click()
    expect(opened.value.get_by_role("heading", name="Glossary")).to_be_visible()
    healthy(page)


def test_a_copied_link_carries_the_filters(simulated: Console, open_page: OpenPage) -> None:
    """It opens the same section, with the same filter."""
    page = open_page(f"{simulated.url}/live?pipeline=shop&section=Events")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    text = page.get_by_label("Contains", exact=True)
    text.fill("shop.orders")
    text.press("Enter")
    expect(page).to_have_url(re.compile("contains=shop.orders"))
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.url
    again = open_page(copied)
    expect(again.get_by_label("Contains", exact=True)).to_have_value("shop.orders")
    expect(again.get_by_role("tab", name="Events")).to_have_attribute("aria-selected", "true")
    healthy(again)


def test_a_chunk_is_chosen_by_mouse_keyboard_and_number(simulated: Console, open_page: OpenPage) -> None:
    """A tile opens, a chunk is selected, the arrow keys move on, and the URL has the selection."""
    page = open_page(f"{simulated.url}/live?pipeline=shop&section=Chunks")
    tiles = page.get_by_role("group", name="Chunk map").get_by_role("button")
    expect(tiles).to_have_count(400)
    page.get_by_role("button", name="Chunks 9–11").click()
    expect(tiles).to_have_count(3)
    page.get_by_role("button", name="Chunk 10:").click()
    expect(page).to_have_url(re.compile("chunk=10"))
    expect(page.get_by_text("Watermarks and backfill")).to_be_visible()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("chunk=11"))
    number = page.get_by_role("spinbutton", name="Chunk, 0 to 1,199")
    number.fill("7")
    number.press("Enter")
    expect(page.get_by_text("Chunk 7", exact=True)).to_be_visible()
    page.get_by_role("button", name="Show all chunks").click()
    expect(tiles).to_have_count(400)
    again = open_page(page.url)
    expect(again.get_by_text("Chunk 7", exact=True)).to_be_visible()
    healthy(again)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_map_shows_numbers_and_several_chunks_are_redumped(
    simulated: Console, open_page: OpenPage, theme: str
) -> None:
    """Each tile names its value and can be read in both themes; tiles are brushed by mouse and keyboard."""
    page = open_page(f"{simulated.url}/live?pipeline=archive&section=Chunks&colour=Duration", 1280, theme)
    tiles = page.get_by_role("group", name="Chunk map").get_by_role("button")
    expect(tiles).to_have_count(60)
    expect(tiles.nth(3)).to_have_accessible_name(re.compile(r"^Chunk 3: published, \d[\d.]* m?s$"))
    expect(tiles.nth(3)).to_have_attribute("title", re.compile(r"\n150001 ≤ id < 200001$"))
    stops = page.get_by_role("list", name="Duration, logarithmic scale").get_by_role("listitem")
    assert 3 <= stops.count() <= 5
    for shade in range(6):
        stops.locator("b").first.evaluate(f"swatch => swatch.className = 'heat shade{shade}'")
        assert min(stops.locator("b").evaluate_all(CONTRASTS)) >= 4.5, shade
    page.get_by_role("radio", name="Age").click()
    expect(page).to_have_url(re.compile("colour=Age"))
    expect(tiles.nth(3)).to_have_accessible_name(re.compile(r"^Chunk 3: published, \d+ h .*old$"))
    tiles.nth(7).click(modifiers=["Control"])
    tiles.nth(9).click(modifiers=["Shift"])
    tiles.nth(3).click(modifiers=["Control"])
    expect(page.get_by_text("4 chunks selected")).to_be_visible()
    tiles.nth(4).click()
    expect(page).to_have_url(re.compile("chunk=4"))
    expect(page.get_by_text("Watermarks and backfill")).to_be_visible()
    expect(page.get_by_text("chunks selected")).to_have_count(0)
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    expect(page.get_by_text("3 chunks selected")).to_be_visible()
    expect(page.locator("p").filter(has_text="3 chunks selected")).to_contain_text("4–6")
    page.keyboard.press("Escape")
    expect(page.get_by_text("chunks selected")).to_have_count(0)
    tiles.nth(12).hover()
    page.mouse.down()
    tiles.nth(10).hover()
    page.mouse.up()
    expect(page.get_by_text("3 chunks selected")).to_be_visible()
    healthy(page)
    tiles.nth(20).click(modifiers=["Control"])
    expect(page.get_by_text("4 chunks selected")).to_be_visible()
    page.get_by_role("button", name="Redump these chunks").click()
    expect(page).to_have_url(re.compile("/redump"))
    expect(page.get_by_role("textbox", name="Chunks", exact=True)).to_have_value("10–12, 20")
    expect(page.get_by_role("combobox", name="Table")).to_have_value("archive.events")


@pytest.mark.parametrize("way", ["mouse", "keyboard"])
def test_the_shown_chunk_is_the_one_to_redump(simulated: Console, open_page: OpenPage, way: str) -> None:
    """As soon as it is shown, while the rest of the page is still running."""
    page = open_page(f"{simulated.url}/live?pipeline=shop&section=Chunks&table=shop.customers&chunk=4")
    hand = HANDS[way](page)
    again = page.get_by_role("button", name="Redump this chunk")
    expect(again).to_be_visible()
    hand.press(page.get_by_role("button", name="Chunk 7:"))
    expect(page.get_by_text("Chunk 7", exact=True)).to_be_visible()
    hand.press(again)
    expect(page).to_have_url(re.compile("/redump"))
    expect(page.get_by_role("textbox", name="Chunks", exact=True)).to_have_value("7")
    expect(page.get_by_role("combobox", name="Table")).to_have_value("shop.customers")
    expect(page).to_have_url(re.compile("chunks=7"))


def accepted(simulated: Console) -> list[tuple[str, str]]:
    """Verb and reason of every accepted command."""
    lines = [json.loads(line) for line in simulated.shop.journal.path.read_text().splitlines()]
    return [(line["verb"], line["reason"]) for line in lines if line["event"] == "command.accepted"]


def test_pause_and_resume_are_sent_with_their_reason(simulated: Console, open_page: OpenPage) -> None:
    """The buttons follow the state; the reason is in the journal."""
    before = len(accepted(simulated))
    page = open_page(f"{simulated.url}/live?pipeline=shop")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("textbox", name="Reason").fill("index rebuild")
    page.get_by_role("button", name="Pause pipeline").click()
    expect(page.get_by_text("Pause done in 0.4 s")).to_be_visible()  # it goes again, so it comes first
    expect(page.get_by_text("Paused, lag grows")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    assert accepted(simulated)[before:] == [("pause", "index rebuild"), ("resume", "")]
    healthy(page)


def test_the_spec_says_where_the_run_does_not_follow_its_file(simulated: Console, open_page: OpenPage) -> None:
    """Limits of the file are applied with a click; what needs a restart is named."""
    page = open_page(f"{simulated.url}/live?pipeline=shop&section=Spec")
    expect(page.get_by_text("The run follows the file below.")).to_be_visible()
    spec = simulated.shop.directory.spec
    before = spec.read_text()
    spec.write_text(before + "[throttle]\nmax_rows_per_s = 500\n[snapshot]\nreaders = 4\n")
    try:
        expect(page.get_by_text("The run does not follow the file in 2 settings.")).to_be_visible()
        page.get_by_role("button", name="Apply the file's limits").click()
        expect(page.get_by_text(re.compile("Throttle (accepted|done)")).first).to_be_visible()
        assert ("throttle", "as in the spec's file") in accepted(simulated)
    finally:
        spec.write_text(before)
    expect(page.get_by_text("The run follows the file below.")).to_be_visible()
    healthy(page)


def test_a_confirmation_has_the_keyboard_focus(simulated: Console, open_page: OpenPage) -> None:
    """Enter opens it, the reason is typed, and Tab moves to the button that confirms.

    Escape moves back to the button that opened it.
    """
    before = len(accepted(simulated))
    page = open_page(f"{simulated.url}/live?pipeline=shop")
    reason = page.get_by_role("textbox", name="Reason")
    for key in ("Escape", "Tab"):
        Keyboard(page).press(page.get_by_role("button", name="Pause", exact=True))
        expect(reason).to_be_focused()
        page.keyboard.type("index rebuild")
        page.keyboard.press(key)
        expect(
            page.get_by_role("button", name="Pause" if key == "Escape" else "Pause pipeline", exact=True)
        ).to_be_focused()
    page.keyboard.press("Enter")
    Keyboard(page).press(page.get_by_role("button", name="Resume"))
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    assert [verb for verb, _ in accepted(simulated)[before:]] == ["pause", "resume"]
    healthy(page)


@pytest.mark.parametrize("address", ["live?pipeline=shop", ""])
def test_one_click_is_one_command(simulated: Console, open_page: OpenPage, address: str) -> None:
    """Also if it waits in a busy browser during autorefreshes."""
    before = len(accepted(simulated))
    page = open_page(f"{simulated.url}/{address}")
    shop = page.locator(".st-key-card-shop") if not address else page.get_by_test_id("stMain")
    shop.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("button", name="Pause pipeline").evaluate(LATE_CLICK)
    resume = shop.get_by_role("button", name="Resume")
    expect(resume).to_be_visible()
    resume.evaluate(LATE_CLICK)
    expect(shop.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    assert [verb for verb, _ in accepted(simulated)[before:]] == ["pause", "resume"]


def test_a_failed_run_is_explained_in_three_parts(simulated: Console, open_page: OpenPage) -> None:
    """What happened, what it means, what to do, the log, and a button to start."""
    page = open_page(f"{simulated.url}/live?pipeline=legacy")
    alert = page.get_by_test_id("stAlert")
    for part in ("was purged", "What it means", "are gone", "What to do", "redump everything on the page Redump"):
        expect(alert).to_contain_text(part)
    page.get_by_text("End of the runner's log").click()
    expect(page.get_by_text("preflight done")).to_be_visible()
    expect(page.get_by_text("exit code 4: the source can no longer be streamed")).to_be_visible()
    expect(page.get_by_role("button", name="Restart")).to_be_enabled()
    page.get_by_role("button", name="Resnapshot all tables").click()
    page.get_by_label("Type legacy to confirm").fill("shop")
    page.get_by_role("button", name="Resnapshot and start").click()
    expect(page.get_by_text("Nothing was sent: the name is not legacy.")).to_be_visible()
    healthy(page)


def test_a_lost_runner_is_shown_with_stale_numbers(simulated: Console, open_page: OpenPage) -> None:
    """Numbers of two hours ago are marked as stale; a torn journal line is counted."""
    page = open_page(f"{simulated.url}/live?pipeline=crm&section=Events")
    expect(page.get_by_role("heading", name="Runner lost")).to_be_visible()
    expect(page.get_by_text(re.compile("lag up to .* since ")).first).to_be_visible()
    expect(page.get_by_text("Killed")).to_be_visible()
    expect(page.get_by_text(re.compile("1 line could not be parsed"))).to_be_visible()
    expect(page.locator("[role=columnheader]").last).to_have_text("What")  # no event has a duration
    healthy(page)


def test_start_without_the_password_shows_what_is_missing(simulated: Console, open_page: OpenPage) -> None:
    """An error that is known before the launch is shown at once."""
    spec = simulated.home / "fresh" / "pipeline.toml"
    spec.write_text(spec.read_text().replace("TIDEMARK_DEMO_PASSWORD", "NO_SUCH_VARIABLE"))
    page = open_page(f"{simulated.url}/live?pipeline=fresh")
    expect(page.get_by_text("This pipeline has never run.")).to_be_visible()
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_test_id("stAlert").first).to_contain_text("NO_SUCH_VARIABLE")
    healthy(page)


def test_history_lists_every_run(simulated: Console, open_page: OpenPage) -> None:
    """Five of six pipelines have a run; two selected runs are compared, also by whoever opens the address."""
    page = open_page(f"{simulated.url}/history")
    expect(page.get_by_text(re.compile("· 5 runs"))).to_be_visible()
    runs = page.get_by_test_id("stDataFrame")
    expect(runs).to_be_visible()
    for row in (1, 2):
        runs.first.click(position={"x": 18, "y": 33 * row + 18})
        page.wait_for_timeout(1500)
    expect(page.get_by_text("Differences in configuration")).to_be_visible()
    expect(runs.nth(1)).to_be_visible()
    expect(page).to_have_url(re.compile("compare=[^&]+&compare=[^&]+"))
    compared = page.get_by_text(re.compile("^Compared with ")).inner_text()
    healthy(page)
    other = open_page(page.url)
    expect(other.get_by_text(compared, exact=True)).to_be_visible()
    healthy(other)


def test_an_empty_home_has_the_idea_and_one_primary_button(
    open_page: OpenPage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A new user is led to the wizard."""
    with console(tmp_path_factory.mktemp("empty")) as url:
        page = open_page(url)
        expect(page.get_by_text("No pipelines yet")).to_be_visible()
        healthy(page)
        expect(page.get_by_test_id("stBaseButton-primary")).to_have_count(1)
        page.get_by_role("button", name="New pipeline").click()
        expect(page).to_have_url(re.compile("/new"))
        for address in ("/live", "/history"):
            healthy(open_page(url + address))
        expect(open_page(f"{url}/redump").get_by_role("heading", name="Redump", exact=True)).to_be_visible()

"""The timeline on Live and in History.

Phases above the curves, and events that open with a click and with the keyboard.
"""

import re
import time
from contextlib import suppress

from playwright.sync_api import Error, Page, expect

from tests.browser.conftest import Console, OpenPage
from tests.support.patience import PATIENCE_S

# An autorefresh may replace the plot at any time, so it is found and measured in one step. The one before may stay
# hidden.
PLACE = """() => {
    const drawn = plot => plot.querySelector(".barlayer .point") && plot.checkVisibility({ visibilityProperty: true })
    const plot = [...document.querySelectorAll(".js-plotly-plot")].findLast(drawn)
    if (!plot) return null
    plot.scrollIntoView({ block: "nearest" })
    const { x, y, width, height } = plot.querySelector(".draglayer .xy2 .nsewdrag").getBoundingClientRect()
    return { x, y, width, height }
}"""
PLOTS = """() => [...document.querySelectorAll(".js-plotly-plot")].map(plot =>
    ({ ...plot.getBoundingClientRect().toJSON(), bars: plot.querySelectorAll(".barlayer .point").length,
       visible: plot.checkVisibility({ visibilityProperty: true }), \
hover: plot.querySelector(".hoverlayer")?.innerHTML }))"""


def point_at(page: Page, share: float) -> None:
    """Point at the first curve below the timeline's strip, at this share of the width."""
    box = page.wait_for_function(PLACE).json_value()
    x, y = box["x"] + box["width"] * share, box["y"] + box["height"] * 0.5
    page.mouse.move(x - 9, y)
    page.mouse.move(x, y)


def hovers(page: Page, share: float) -> None:
    """Point there until the values and the crosshair are shown: an autorefresh hides them."""
    values, crosshair = page.locator(".hovertext:visible").first, page.locator(".spikeline").first  # a line has no area
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:  # on a busy machine most tries meet one
        point_at(page, share)
        with suppress(AssertionError):
            expect(values).to_be_visible(timeout=500)
            return expect(crosshair).to_be_attached(timeout=500)
    raise AssertionError(f"the timeline shows no values: {page.evaluate(PLOTS)}")


def test_the_timeline_shows_what_there_was(simulated: Console, open_page: OpenPage) -> None:
    """The paused pipeline has phases and a pause, and no row for what it never had."""
    page = open_page(f"{simulated.url}/live?pipeline=billing&section=Overview")
    strip = page.locator(".js-plotly-plot .ytick")
    for row in ("Phase", "Pauses"):
        expect(strip.get_by_text(row, exact=True).first).to_be_visible()  # an autorefresh draws a second one
    for row in ("Outages", "Restarts"):
        expect(strip.get_by_text(row, exact=True)).to_have_count(0)


def test_a_click_on_the_timeline_opens_the_event(simulated: Console, open_page: OpenPage) -> None:
    """The feed shows the clicked event until it is closed.

    The run has ended: no autorefresh draws its timeline again.
    """
    page = open_page(f"{simulated.url}/live?pipeline=legacy&section=Overview")
    hovers(page, 0.7)
    events = page.get_by_role("tab", name="Events")
    for _ in range(20):
        with suppress(AssertionError, Error):  # also if the last click was slow: then the timeline is gone
            hovers(page, 0.7)
            page.mouse.down()
            page.mouse.up()
            expect(events).to_have_attribute("aria-selected", "true", timeout=3000)
            break
    expect(page.get_by_text("Journal line", exact=True)).to_be_visible()
    assert "event=" in page.url
    page.get_by_role("button", name="Show all events").click()
    expect(page.get_by_text("Journal line", exact=True)).to_have_count(0)
    page.get_by_role("tab", name="Overview").click()
    expect(page.get_by_text("a click opens the closest event")).to_be_visible()
    page.wait_for_timeout(3000)  # the click must not open it again
    expect(page.get_by_role("tab", name="Overview")).to_have_attribute("aria-selected", "true")


def test_an_address_opens_an_event(simulated: Console, open_page: OpenPage) -> None:
    """Links in the table below the timeline lead there too. An unknown event is said to be unknown."""
    run = simulated.shop.run
    page = open_page(f"{simulated.url}/live?pipeline=shop&section=Events&event={run}:1")
    expect(page.get_by_text(f"Run {run} started on db-tools-1").first).to_be_visible()
    page = open_page(f"{simulated.url}/live?pipeline=shop&section=Events&event=nobody:7")
    expect(page.get_by_text("There is no event nobody:7 here.")).to_be_visible()


def test_a_past_run_has_a_timeline(simulated: Console, open_page: OpenPage) -> None:
    """In the history, below the comparison, if one run is selected."""
    page = open_page(f"{simulated.url}/history?pipeline=legacy")
    expect(page.get_by_text(re.compile("· 1 run"))).to_be_visible()
    page.get_by_test_id("stDataFrame").first.click(position={"x": 18, "y": 51})
    expect(page.get_by_text("a click opens the closest event")).to_be_visible()
    expect(page.locator(".js-plotly-plot .ytick").get_by_text("Phase", exact=True)).to_be_visible()

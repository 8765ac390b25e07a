"""The console on an overloaded machine: late messages must not break the page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from engine.pipeline.command_file import send_command
from engine.pipeline.directory import Directory
from tests.browser.conftest import OpenPage
from tests.support.depth import depth
from tests.support.simulation import SimulatedTable, Simulation, real_now
from tests.tools.demo import console

PAGES, COMMANDS, CLICKS = 3, depth(4, 12), depth(8, 24)


@dataclass(frozen=True)
class Starved:
    """A console whose server flushes once per second, and its pipeline."""

    url: str
    home: Path
    pipeline: Directory


@pytest.fixture
def starved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starved]:
    """Such a console, on a pipeline that copies and answers commands."""
    home = tmp_path_factory.mktemp("starved")
    tables = [SimulatedTable("shop.orders", 40_000_000, 1200), SimulatedTable("shop.customers", 400_000, 48, 3.2)]
    running = Simulation(home / "shop", tables, start=real_now() - timedelta(seconds=90)).advance(90)
    with running.play(), console(home, module="tests.browser.starved") as url:
        yield Starved(url, home, running.directory)


@pytest.mark.soak
def test_an_autorefresh_during_a_rerun_leaves_the_page_intact(starved: Starved, open_page: OpenPage) -> None:
    """One autorefresh finds a changed state and reruns the whole page, while those of other parts are due."""
    pages = [open_page(f"{starved.url}/live?pipeline=shop", beside=True) for _ in range(PAGES)]
    for n in range(COMMANDS):
        verb, button = (("pause", "Resume"), ("resume", "Pause"))[n % 2]
        send_command(starved.pipeline, verb)
        for page in pages:
            expect(page.get_by_role("button", name=button, exact=True)).to_be_visible()
    for page in pages:
        panel = page.get_by_role("tabpanel").filter(visible=True)
        tables, charts = panel.get_by_test_id("stDataFrame"), panel.get_by_test_id("stPlotlyChart")
        expect(tables).to_have_count(2)  # the second is that of the timeline's events, in a closed expander
        expect(charts).to_have_count(1)
        tops = _tops(page, (tables.first, panel.get_by_text("Time shown"), charts.first))
        assert tops == sorted(tops)


def test_a_page_that_is_opened_while_timers_are_due_is_not_blank(starved: Starved, open_page: OpenPage) -> None:
    """The timers of the page before ask for runs while the server switches (`app.common.page_switch`)."""
    page = open_page(starved.url)
    for n in range(CLICKS):
        page.goto(starved.url)
        page.get_by_role("button", name="New pipeline").wait_for()
        page.wait_for_timeout(n * 171 % 1000)  # somewhere between two runs of the timers
        page.get_by_role("button", name="New pipeline").click()
        expect(page.get_by_role("button", name="Test connection")).to_be_visible()


def _tops(page: Page, parts: Sequence[Locator]) -> list[float]:
    """Where the parts begin. While an autorefresh draws a part, it has no place."""
    for _ in range(40):
        boxes = [box for part in parts if (box := part.bounding_box()) is not None]
        if len(boxes) == len(parts):
            return [box["y"] for box in boxes]
        page.wait_for_timeout(500)
    raise AssertionError("a part of the page has no place")

"""The console on a machine without time: what is sent too late must not take the page down."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import expect

from engine.directory import Directory, send_command
from tests.browser.conftest import OpenPage
from tests.browser.journals import SimulatedTable, Simulation, real_now
from tests.demo import console

PAGES, COMMANDS = 3, 6


@dataclass(frozen=True)
class Starved:
    """A console whose server sends once a second, and the pipeline that it shows."""

    url: str
    home: Path
    pipeline: Directory


@pytest.fixture
def starved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starved]:
    """A console without time on a pipeline that is being copied and answers commands."""
    home = tmp_path_factory.mktemp("starved")
    tables = [SimulatedTable("shop.orders", 40_000_000, 1200), SimulatedTable("shop.customers", 400_000, 48, 3.2)]
    running = Simulation(home / "shop", tables, start=real_now() - timedelta(seconds=90)).advance(90)
    with running.play(), console(home, module="tests.browser.starved") as url:
        yield Starved(url, home, running.directory)


def test_a_refresh_that_is_due_while_the_page_is_drawn_leaves_it_whole(starved: Starved, open_page: OpenPage) -> None:
    """A refresh finds the state changed and has the whole page drawn, while the refreshes of its other parts wait."""
    pages = [open_page(f"{starved.url}/live?pipeline=shop") for _ in range(PAGES)]
    for n in range(COMMANDS):
        verb, button = (("pause", "Resume"), ("resume", "Pause"))[n % 2]
        send_command(starved.pipeline, verb)
        for page in pages:
            expect(page.get_by_role("button", name=button, exact=True)).to_be_visible()
    for page in pages:
        panel = page.get_by_role("tabpanel").filter(visible=True)
        tables, charts = panel.get_by_test_id("stDataFrame"), panel.get_by_test_id("stPlotlyChart")
        expect(tables).to_have_count(1)
        expect(charts).to_have_count(2)
        boxes = [part.bounding_box() for part in (tables, panel.get_by_text("Time shown"), charts.first)]
        tops = [box["y"] for box in boxes if box]
        assert len(tops) == 3
        assert tops == sorted(tops)

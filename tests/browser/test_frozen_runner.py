"""Every page says that a runner does not respond: no light stays green, and the pages say what to do."""

import json
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from engine.base import processes
from engine.base.durable import write_atomically
from tests.browser.conftest import OpenPage, healthy
from tests.browser.night import TEXTS
from tests.support.simulation import SimulatedTable, Simulation, real_now
from tests.tools.demo import console

FROZEN_S = 91
SAYS = {
    "": {"^not responding$": "red", "does not respond: no heartbeat since .* kill -9": ""},
    "live": {
        "^Not responding$": "red",
        "does not respond: no heartbeat since": "",
        "kill -9": "",
        "^Not current$": "gray",
    },
    "table": {"^Not current$": "red", "the runner does not respond": "", "when last seen": ""},
    "alerts": {"Runner not responding": "", "kill -9": ""},
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console on two pipelines: one works, the other's process, this one, sends no heartbeat."""
    home: Path = tmp_path_factory.mktemp("home")
    tables = [SimulatedTable("shop.orders", 30_000, 3)]
    works = Simulation(home / "bills", tables, start=real_now() - timedelta(seconds=60)).advance(55)
    hangs = Simulation(home / "shop", tables, start=real_now() - timedelta(seconds=200)).advance(200 - FROZEN_S)
    freeze(hangs)
    with works.play(), console(home) as address:
        yield address


def freeze(pipeline: Simulation) -> None:
    """From now on this process is its runner, and sends no heartbeats: the last one was at the model's time."""
    path = pipeline.runner(heartbeat=pipeline.now).directory.runner
    record, here = json.loads(path.read_text(encoding="utf-8")), processes.here()
    here["monotonic_s"] -= (real_now() - pipeline.now).total_seconds()
    write_atomically(path, json.dumps({**record, "pid": os.getpid(), "process": here}))


def texts(page: Page, chosen: str) -> list[tuple[str, str]]:
    """The colour and the text of everything in a part of a page."""
    return [(colour, text) for colour, text in page.locator(chosen).first.evaluate(TEXTS)]


@pytest.mark.parametrize("place", SAYS)
def test_a_frozen_runner_is_red_on_every_page(url: str, open_page: OpenPage, tmp_path: Path, place: str) -> None:
    """With its process and what to do. Nothing about it is green but what is known of the data."""
    page = open_page(f"{url}/{place}?pipeline=shop&table=shop.orders" if place else url)
    chosen = "[data-testid=stMain]" if place else ".st-key-card-shop"
    part = page.locator(chosen).first
    for text in SAYS[place]:
        expect(part.get_by_text(re.compile(text.strip("^$"))).first).to_be_visible()
    if place == "live":
        expect(part.get_by_test_id("stPlotlyChart").first).to_be_visible()
    page.screenshot(path=tmp_path / f"{place or 'pipelines'}.png", full_page=True)
    found = texts(page, chosen)
    for text, colour in SAYS[place].items():
        assert any(re.search(text, shown) and colour in ("", seen) for seen, shown in found), (text, colour, found)
    for word in ("running", "streaming", "keeping up", "safe", "up to date"):
        assert not [shown for seen, shown in found if seen == "green" and shown.casefold() == word], found
    assert str(os.getpid()) in part.inner_text() or place == "table"
    if not place:
        cards = page.locator("[class*=st-key-card-]")
        names = cards.evaluate_all("all => all.map(one => one.className)")
        assert "st-key-card-shop" in names[0], names
    if place == "live":
        assert page.get_by_role("button", name="Restart").count() == 0, "it still holds the pipeline"
        assert page.get_by_role("button", name="Pause").count() == 0
    healthy(page)

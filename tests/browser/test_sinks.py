"""Live shows how far each further sink is, and what to do about one that was stopped."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from engine.base import clock
from engine.pipeline.runner_record import SinkProgress
from tests.browser.conftest import OpenPage, healthy
from tests.support.simulation import SimulatedTable, Simulation, real_now
from tests.tools.demo import console


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console on a pipeline with three further sinks: one is up to date, one cannot be written, one was stopped."""
    home = tmp_path_factory.mktemp("home")
    tables = [SimulatedTable("shop.orders", 30_000, 3)]
    shop = Simulation(home / "shop", tables, start=real_now() - timedelta(seconds=60)).advance(55)
    since, full = clock.utc_text(real_now() - timedelta(minutes=4)), "Sink archive cannot be written: OSError: No space"
    ages = {"p50": 0.4, "p99": 1.2}
    shop.sinks = [
        asdict(SinkProgress("files", "parquet", "/data/files", "publishing", 812, None, 0, 20 << 30, freshness_s=ages)),
        asdict(SinkProgress("archive", "parquet", "/mnt/archive", "retrying", 790, since, 7 << 20, 20 << 30, full)),
        asdict(SinkProgress("old", "parquet", "/mnt/old", "stopped", error="more than sinks.max_kept_bytes")),
    ]
    with shop.play(), console(home) as address:
        yield address


def test_live_shows_the_further_sinks(url: str, open_page: OpenPage) -> None:
    """In the section of the destination, with the remedy for the one that was stopped. One can be paused."""
    page = open_page(f"{url}/live?pipeline=shop&section=Destination")
    expect(page.get_by_text("Further sinks")).to_be_visible()
    expect(page.get_by_text("A stopped sink gets nothing any more")).to_be_visible()
    for name, text, buttons in (
        ("files", "Up to date", ["Pause"]),
        ("files", "0.4 s (p99 1.2 s)", ["Pause"]),
        ("archive", "Retrying", ["Try again", "Pause"]),
        ("old", "Stopped", []),
    ):
        card = page.locator(f".st-key-sink-{name}")
        expect(card.get_by_text(text)).to_be_visible()
        expect(card.get_by_role("button")).to_have_count(len(buttons))
        for button in buttons:
            expect(card.get_by_role("button", name=button)).to_be_enabled()
    page.locator(".st-key-sink-archive").get_by_role("button", name="Try again").click()
    expect(page.get_by_text("resume").first).to_be_visible()
    healthy(page)

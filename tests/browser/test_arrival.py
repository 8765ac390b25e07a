"""Pages that were opened before there was anything to show: they show it as soon as it is there, without a click."""

from datetime import timedelta
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import OpenPage, healthy
from tests.support.simulation import SPEC, SimulatedTable, Simulation, real_now
from tests.tools.demo import console

EMPTY = {
    "": "No pipelines yet",
    "alerts": "No pipelines yet",
    "history": "No runs yet",
    "table?pipeline=shop": "No pipelines yet",
    "verify?pipeline=shop": "No pipelines yet",
    "redump?pipeline=shop": "No pipelines yet",
    "explore?pipeline=shop": "No pipelines yet",
}
CREATED = {
    "": "shop",
    "alerts": "No alert is firing",
    "table?pipeline=shop": "No table planned yet",
    "verify?pipeline=shop": "No table planned yet",
    "redump?pipeline=shop": "No table planned yet",
    "explore?pipeline=shop": "Nothing is published yet",
}
COPIED = {
    "history": "Outcome",
    "table?pipeline=shop": "Events of this table",
    "verify?pipeline=shop": "Verified tables",
    "redump?pipeline=shop": "Chunks of the table's last copy",
}


def test_what_arrives_is_shown(tmp_path: Path, open_page: OpenPage) -> None:
    """First a pipeline, then its tables."""
    with console(tmp_path) as url:
        pages = {address: open_page(f"{url}/{address}", beside=True) for address in EMPTY}
        for address, text in EMPTY.items():
            expect(pages[address].get_by_text(text).first).to_be_visible()
        shop = tmp_path / "shop"
        shop.mkdir()
        (shop / "pipeline.toml").write_text(SPEC.format(name="shop"))
        for address, text in CREATED.items():
            expect(pages[address].get_by_text(text).first).to_be_visible()
        tables = [SimulatedTable("shop.orders", 30_000, 3)]
        running = Simulation(shop, tables, start=real_now() - timedelta(seconds=60)).advance(55)
        with running.play():
            for address, text in COPIED.items():
                expect(pages[address].get_by_text(text).first).to_be_visible()
                healthy(pages[address])


def test_a_pipeline_without_mirrors_offers_no_parts_to_redump(tmp_path: Path, open_page: OpenPage) -> None:
    """Chunks, ranges and keys are rows of a mirror. An address that asks for one of them shows the table."""
    start = real_now() - timedelta(seconds=60)
    shop = Simulation(tmp_path / "shop", [SimulatedTable("shop.orders", 30_000, 3)], start=start).advance(55)
    spec = shop.directory.spec
    spec.write_text(spec.read_text().replace('"delta"', '"parquet"'))
    with shop.play(), console(tmp_path) as url:
        page = open_page(f"{url}/redump?pipeline=shop&part=Keys")
        expect(page.get_by_text("The whole table.")).to_be_visible()
        parts = page.get_by_role("radiogroup").filter(has_text="Everything").get_by_role("radio")
        expect(parts).to_have_text(["Table", "Everything"])
        healthy(page)

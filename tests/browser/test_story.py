"""The whole story on a real server with a real runner: launch from the console, watch, pause, resume, stop.

With TIDEMARK_SCREENSHOTS set to a folder, the pages are photographed on the way (`assets/` has the ones that were kept).
"""

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from playwright.sync_api import Page, TimeoutError, expect  # noqa: A004

from engine.directory import Directory, read_runner
from tests.browser.conftest import OpenPage
from tests.demo import Demo, running
from tests.servers import FLAVORS

ROWS = 2_000_000
"""Enough that the copy can be looked at while it lasts."""
COPY_MS = 180_000
START_MS = 120_000
"""Spark alone took 56 s on two cores that six others wanted."""


@pytest.fixture(params=FLAVORS)
def demo(request: pytest.FixtureRequest) -> Iterator[Demo]:
    """A busy shop and the console, on each server."""
    with running(request.param, rows=ROWS, rate=100.0) as found:
        yield found


def photograph(page: Page, name: str) -> None:
    """Keep the page as it is, whole, when somebody asked for pictures."""
    folder = os.environ.get("TIDEMARK_SCREENSHOTS")
    if folder:
        page.wait_for_timeout(1500)
        height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
        page.set_viewport_size({"width": 1280, "height": max(720, min(height, 1600))})
        page.wait_for_timeout(1000)
        page.screenshot(path=Path(folder) / f"{name}.png")


def section(page: Page, name: str) -> None:
    """Open a section of the live page."""
    page.get_by_role("tab", name=name).click()
    expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")


def follow(page: Page, pipeline: str) -> None:
    """Click the link to a pipeline; once more when the first click met a page that was being drawn anew and was lost."""
    link = page.get_by_test_id("stPageLink").get_by_text(pipeline)
    link.click()
    try:
        page.wait_for_url(re.compile("/live"))
    except TimeoutError:
        link.click()
        page.wait_for_url(re.compile("/live"))


def read_a_damaged_chunk_again(demo: Demo, page: Page) -> None:
    """Rows are deleted from the mirror by hand; the chunk is chosen by its tile, read again, and has them."""
    where = Directory(demo.spec.parent)
    mirror = demo.spec.parent / "lake" / "shop" / "orders"
    events = [json.loads(line) for path in where.journals.glob("*.jsonl") for line in path.read_text().split("\n")[:-1]]
    (chunk,) = (e for e in events if e["event"] == "chunk.finished" and (e["table"], e["chunk"]) == ("shop.orders", 3))
    low, high = int(chunk["lower"]), int(chunk["lower"]) + 200
    DeltaTable(str(mirror)).delete(f"id >= {low} AND id < {high}")
    page.goto(f"{demo.url}/live?pipeline=shop&section=Chunks&table=shop.orders")
    page.get_by_role("button", name="Chunk 3: published", exact=True).click()
    page.get_by_role("link", name="Read this chunk again").click()
    expect(page.get_by_text(re.compile("1 table, .* rows of the mirror"))).to_be_visible(timeout=START_MS)
    page.get_by_role("textbox", name="Reason").fill("rows were deleted by hand")
    page.get_by_role("textbox", name="Reason").press("Tab")
    page.get_by_role("button", name="Read again", exact=True).click()
    expect(page.get_by_text(re.compile("read again in"))).to_be_visible(timeout=START_MS)
    events = [json.loads(line) for path in where.journals.glob("*.jsonl") for line in path.read_text().split("\n")[:-1]]
    assert [e["reason"] for e in events if e["event"] == "command.accepted"] == ["rows were deleted by hand"]
    photograph(page, "redump")
    there = {row["id"] for row in lake_rows(mirror, low, high)}
    wanted = {
        row[0] for row in demo.server.execute("SELECT id FROM shop.orders WHERE id >= %s AND id < %s", (low, high))
    }
    assert len(there & wanted) > 100, "the load deletes a few, never most"
    page.goto(f"{demo.url}/live?pipeline=shop")


def lake_rows(mirror: Path, low: int, high: int) -> list[dict[str, Any]]:
    """Some rows of the mirror, once the last merge has them."""
    for _ in range(60):
        rows = (
            DeltaTable(str(mirror))
            .to_pyarrow_dataset()
            .to_table(filter=(pc.field("id") >= low) & (pc.field("id") < high))
        )
        if rows.num_rows:
            break
        time.sleep(0.5)
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def test_launch_watch_pause_resume_stop(demo: Demo, open_page: OpenPage) -> None:
    """From the first button to the end, by mouse, while the source is written to."""
    where = Directory(demo.spec.parent)
    page = open_page(demo.url)
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_text(re.compile("starting|running")).first).to_be_visible(timeout=START_MS)
    follow(page, "shop")
    expect(page.get_by_role("heading", name="Running").first).to_be_visible(timeout=START_MS)
    line = page.get_by_test_id("stCode").filter(has_text="Copy:")
    expect(line).to_contain_text("State: snapshotting", timeout=START_MS)
    expect(line).to_contain_text(re.compile(r"[1-9]\d+/\d+ chunks"), timeout=COPY_MS)
    photograph(page, "live-overview")
    for name in ("Chunks", "Readers", "Watermarks", "Plan", "Events"):
        section(page, name)
        photograph(page, f"live-{name.lower()}")
    section(page, "Overview")
    expect(line).to_contain_text("State: streaming", timeout=COPY_MS)
    expect(line).to_contain_text("ETA: copy done")
    expect(page.get_by_role("heading", name="Keeping up")).to_be_visible(timeout=START_MS)
    photograph(page, "live-following")
    read_a_damaged_chunk_again(demo, page)

    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("textbox", name="Reason").fill("index rebuild")
    page.get_by_role("button", name="Pause pipeline").click()
    expect(page.get_by_role("heading", name="Paused").first).to_be_visible(timeout=START_MS)
    expect(page.get_by_text(re.compile("Pause done in"))).to_be_visible(timeout=START_MS)
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("heading", name="Running").first).to_be_visible(timeout=START_MS)

    # In the page: Streamlit has a Stop of its own in the header while a slow drawing lasts.
    page.get_by_test_id("stMain").get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop pipeline").click()
    expect(page.get_by_role("heading", name="Stopped").first).to_be_visible(timeout=START_MS)
    expect(page.get_by_role("button", name="Start again")).to_be_visible()
    record = read_runner(where)
    assert record is not None
    assert (record["state"], record["error"]) == ("ended", None)
    page.goto(f"{demo.url}/history")
    expect(page.get_by_text(re.compile("1 run"))).to_be_visible()
    photograph(page, "history")


def test_a_killed_runner_is_said(demo: Demo, open_page: OpenPage) -> None:
    """Nobody has to guess why the numbers stand still, and a start goes on from there."""
    where = Directory(demo.spec.parent)
    page = open_page(f"{demo.url}/live?pipeline=shop")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_test_id("stCode").filter(has_text="State: snapshotting")).to_be_visible(timeout=START_MS)
    record = read_runner(where)
    assert record is not None
    os.kill(record["pid"], 9)
    expect(page.get_by_role("heading", name="Runner lost")).to_be_visible(timeout=START_MS)
    page.get_by_role("button", name="Start again").click()
    expect(page.get_by_role("heading", name="Running").first).to_be_visible(timeout=START_MS)
    expect(page.get_by_test_id("stCode").filter(has_text="State: streaming")).to_be_visible(timeout=COPY_MS)

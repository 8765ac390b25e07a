"""The steps of an operator.

They watch a pipeline, lose the console and the runner, damage and redump a chunk, pause and stop.
"""

import json
import os
import re
import time
from contextlib import suppress
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from playwright.sync_api import Error, expect

from engine.pipeline.runner_file import read_runner
from tests.browser import wizard
from tests.browser.conftest import healthy
from tests.browser.hands import open_from_navigation
from tests.browser.story import PIPELINE, Story
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.support.patience import PATIENCE_S

TABLE, CHUNK = "shop.orders", 3
DAMAGE_TRIES = 20


def press(story: Story, name: str) -> None:
    """A button of the page. During a slow run, Streamlit has its own Stop button in the header."""
    story.hand.press(story.page.get_by_test_id("stMain").get_by_role("button", name=name, exact=True))


def section(story: Story, name: str) -> None:
    """Open a section of the live page. A click can be lost on the way to the server (see `open_from_navigation`)."""
    tab = story.page.get_by_role("tab", name=name)
    for _ in range(3):
        story.hand.press(tab)
        with suppress(AssertionError):
            expect(tab).to_have_attribute("aria-selected", "true", timeout=7_000)
            return
    raise AssertionError(f"three clicks on {name} did not open its section")


def order(story: Story, name: str, verb: str) -> None:
    """Press a button that sends a command, until the page says that it was done.

    A press can be lost on the way to the server (see `open_from_navigation`); an operator who sees no answer presses
    again, and so does this. It prints where the focus was, so that a failure tells more.
    """
    for _ in range(3):
        press(story, name)
        with suppress(AssertionError):
            answer = story.page.get_by_text(re.compile(f"{verb} (sent|accepted|done|was refused)")).first
            expect(answer).to_be_visible(timeout=7_000)
            break
        print(f"{name} was pressed and nothing answered:", story.page.evaluate("document.activeElement.outerHTML"))
    expect(story.page.get_by_text(re.compile(f"{verb} done in"))).to_be_visible()


def headed(story: Story, words: str) -> None:
    """A headline of the health strip."""
    expect(story.page.get_by_role("heading", name=words).first).to_be_visible()


def events(story: Story, *kinds: str) -> list[dict[str, Any]]:
    """The journal's lines of some kinds, oldest first."""
    lines = [
        line for path in sorted(story.where.journals.glob("*.jsonl")) for line in path.read_text().split("\n")[:-1]
    ]
    return [event for line in lines if (event := json.loads(line))["event"] in kinds]


def runner(story: Story) -> int:
    """The runner's process."""
    record = read_runner(story.where)
    assert record is not None
    return record.pid or 0


def chunks_read(story: Story) -> int:
    """The chunks read, from the status line."""
    found = re.search(r"([\d,]+)/~?[\d,]+ chunks", story.line.inner_text())
    assert found, story.line.inner_text()
    return int(found[1].replace(",", ""))


def watch_the_copy(story: Story) -> None:
    """Every section has content during the copy; the list of pipelines links to the page."""
    page, hand = story.page, story.hand
    headed(story, "Running")
    expect(story.line).to_contain_text(re.compile(r"(\d\d+|[5-9])/~?\d+ chunks"))
    story.photograph("live-overview", whole=True)
    for name in ("Chunks", "Readers", "Watermarks", "Plan", "Events"):
        section(story, name)
        story.photograph(f"live-{name.lower()}", whole=True)
    healthy(page)
    open_from_navigation(page, "Pipelines", story.hand.press)
    link = page.get_by_test_id("stPageLink").get_by_role("link", name=PIPELINE)
    hand.press(link)
    try:
        page.wait_for_url(re.compile("/live"))
    except Error:  # the first click hit a card that was being redrawn
        hand.press(link)
        page.wait_for_url(re.compile("/live"))


def restart_the_console(story: Story) -> None:
    """The runner is not affected; the same URL shows the same chunk of the same table, and the copy continues."""
    section(story, "Chunks")
    story.hand.press(story.page.get_by_role("button", name=f"Chunk {CHUNK}: ", exact=False))
    expect(story.page).to_have_url(re.compile(f"chunk={CHUNK}"))
    known, finished, pid, address = (
        chunks_read(story),
        len(events(story, "chunk.finished")),
        runner(story),
        story.page.url,
    )
    story.consoles.end()
    assert psutil.pid_exists(pid)
    story.consoles.open()
    story.sit_down(address)
    headed(story, "Running")
    expect(story.page.get_by_role("tab", name="Chunks")).to_have_attribute("aria-selected", "true")
    expect(story.page.get_by_role("combobox", name="Table")).to_have_value(TABLE)
    expect(story.page.get_by_text(f"Chunk {CHUNK}", exact=True)).to_be_visible()
    expect(story.line).to_contain_text("State: snapshotting")
    assert chunks_read(story) >= known
    section(story, "Events")
    expect(story.page.get_by_test_id("stDataFrame")).to_be_visible()
    read = re.compile(r"([\d,]+) journal lines read")
    found = read.search(story.page.get_by_text(read).inner_text())
    assert found
    assert int(found[1].replace(",", "")) > finished
    section(story, "Overview")
    assert runner(story) == pid


def lose_the_runner(story: Story) -> None:
    """The page explains why the numbers do not change, and a restart continues the copy."""
    expect(story.line).to_contain_text("State: snapshotting")
    os.kill(runner(story), 9)
    committed = sum(event["chunks"] for event in events(story, "epoch.committed"))
    assert committed
    headed(story, "Runner lost")
    expect(story.page.get_by_text("The runner has sent no heartbeat since")).to_be_visible()
    press(story, "Restart")
    headed(story, "Running")
    expect(story.line).to_contain_text("State: snapshotting")
    assert chunks_read(story) >= committed, "chunks that no epoch has committed yet are read again, others are not"
    assert len(events(story, "run.started")) == 2


def watch_it_finish(story: Story) -> None:
    """Without the limit, the copy finishes soon, and the stream keeps up."""
    page = story.page
    section(story, "Pace")
    page.get_by_role("radio", name="2 h", exact=True).click()
    press(story, "Gentle")
    expect(page.get_by_text(re.compile(r"2,000 rows/s; 1 reader until .* UTC"))).to_be_visible()
    for name in ("Rows a second", "Readers"):
        story.hand.write(page.get_by_role("spinbutton", name=name), "0")
    press(story, "Set limits")
    expect(page.get_by_text("set here no limit")).to_be_visible()
    section(story, "Overview")
    expect(story.line).to_contain_text("State: streaming")
    expect(story.line).to_contain_text("ETA: copy done")
    headed(story, "Keeping up")
    assert "card" not in [field.name for field in DeltaTable(str(story.lake("skus"))).schema().fields]
    story.photograph("live-streaming", whole=True)


def redump_a_damaged_chunk(story: Story) -> None:
    """Rows are deleted from the mirror by hand.

    The chunk is selected by its tile and redumped, and equals its source.
    """
    page = story.page
    chunk = next(e for e in events(story, "chunk.finished") if (e["table"], e["chunk"]) == (TABLE, CHUNK))
    low, high = int(chunk["lower"]), int(chunk["upper"])
    damage(story, low, low + 200)
    section(story, "Chunks")
    story.hand.press(page.get_by_role("button", name=f"Chunk {CHUNK}: published", exact=True))
    expect(page.get_by_text(f"Chunk {CHUNK}", exact=True)).to_be_visible()
    story.hand.press(page.get_by_role("button", name="Redump this chunk"))
    expect(page.get_by_text(re.compile("1 table, .* rows of the mirror"))).to_be_visible()
    story.hand.write(page.get_by_role("textbox", name="Reason"), "rows were deleted by hand")
    press(story, "Redump")
    expect(page.get_by_text(re.compile("redumped in"))).to_be_visible()
    assert "rows were deleted by hand" in [e["reason"] for e in events(story, "command.accepted")]
    story.photograph("redump", whole=True)
    story.load.stop()
    await_equal(story, low, high)
    story.load.start()
    open_from_navigation(page, "Live", story.hand.press)
    expect(story.line).to_be_visible()


def query_the_lake(story: Story) -> None:
    """The redumped rows are in the change log, with the id of the command.

    An answer goes when something else is asked.
    """
    page, hand = story.page, story.hand
    open_from_navigation(page, "Explore", story.hand.press)
    expect(page.get_by_role("combobox", name="Pipeline")).to_have_value(PIPELINE)
    hand.choose(page.get_by_role("combobox", name="Table"), TABLE)
    sql = "SELECT _tm_kind, count(*) AS rows FROM shop.orders__changes WHERE _tm_redump IS NOT NULL GROUP BY ALL"
    hand.write(page.get_by_role("textbox", name="SQL"), sql)
    hand.press(
        page.get_by_test_id("stMain").get_by_role("button", name=re.compile("^Run"))
    )  # its name ends in its shortcut
    answered = page.get_by_text(re.compile(r"^\d+ rows?, in "))
    expect(answered).to_be_visible()
    expect(page.get_by_test_id("stDataFrame")).to_be_visible()
    story.photograph("explore", whole=True)
    healthy(page)
    hand.press(page.get_by_role("radio", name="One key through time"))
    expect(page.get_by_role("button", name="Show its history")).to_be_visible()
    expect(answered).to_have_count(0)
    open_from_navigation(page, "Live", story.hand.press)
    expect(story.line).to_be_visible()


def damage(story: Story, low: int, high: int) -> None:
    """Delete rows from the mirror, between two merges of the runner."""
    for _ in range(DAMAGE_TRIES):
        with suppress(CommitFailedError):
            DeltaTable(str(story.lake("orders"))).delete(f"id >= {low} AND id < {high}")
            return
    raise AssertionError(f"the mirror was merged into {DAMAGE_TRIES} times while rows were deleted")


def await_equal(story: Story, low: int, high: int) -> None:
    """Wait until the mirror equals the idle source, for all rows from `low` to `high`."""

    def part(table: pa.Table) -> pa.Table:
        return table.filter((pc.field("id") >= low) & (pc.field("id") < high))

    wanted, deadline = part(source_table(story.server, "shop", "orders")), time.monotonic() + PATIENCE_S
    assert wanted.num_rows > wizard.CHUNK_ROWS / 2, "the load deletes a few, never most"
    while True:
        try:
            return assert_equal(wanted, part(lake_table(story.lake("orders"))))
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def pause_and_resume(story: Story) -> None:
    """While there are writes to the source."""
    press(story, "Pause")
    story.hand.write(story.page.get_by_role("textbox", name="Reason"), "index rebuild")
    wizard.press(story, "Pause pipeline")  # the popover is outside of the page
    headed(story, "Paused")
    expect(story.page.get_by_text(re.compile("Pause done in"))).to_be_visible()
    press(story, "Resume")
    headed(story, "Running")


def maintain(story: Story) -> None:
    """Files and sizes are shown; all tables are maintained at a click."""
    section(story, "Destination")
    expect(story.page.get_by_text(re.compile("Old files stay for 7d"))).to_be_visible()
    expect(story.page.get_by_text(re.compile(r"tables · mirrors .*B"))).to_be_visible()
    order(story, "Maintain all now", "Maintain")
    press(story, "Reload")
    expect(story.page.get_by_text(re.compile("Old files stay for 7d"))).to_be_visible()
    story.photograph("live-destination", whole=True)


def change_the_tables(story: Story) -> None:
    """A table is added and copied while the others stream; then it is removed, with its mirror and change log."""
    page, hand, name = story.page, story.hand, "logs.day_20"
    section(story, "Tables")
    hand.choose(page.get_by_role("combobox", name="Tables of the source"), name)
    expect(page.get_by_role("button", name="Add 1 table", exact=True)).to_be_enabled()
    story.photograph("live-tables", whole=True)
    order(story, "Add 1 table", "Add table")
    assert lake_table(story.lake("day_20", "logs")).num_rows == 0
    hand.choose(page.get_by_role("combobox", name="Tables of the pipeline"), name)
    hand.press(page.get_by_role("radio", name="Delete mirror and change log"))
    button = page.get_by_role("button", name="Remove 1 table and delete the data", exact=True)
    expect(button).to_be_disabled()
    hand.write(page.get_by_role("textbox", name=f"Type {PIPELINE} to confirm"), PIPELINE)
    expect(button).to_be_enabled()
    healthy(page)
    hand.press(button)
    expect(page.get_by_text(re.compile("Remove table done in"))).to_be_visible()
    assert not story.lake("day_20", "logs").exists()


def stop(story: Story) -> None:
    """The mirror equals the source when the runner ends, and all runs are in the history."""
    page = story.page
    headed(story, "Keeping up")
    story.load.stop()
    await_equal(story, 0, 1 << 40)
    press(story, "Stop")
    wizard.press(story, "Stop pipeline")
    headed(story, "Stopped")
    expect(page.get_by_role("button", name="Restart")).to_be_visible()
    record = read_runner(story.where)
    assert record is not None
    assert (record.state, record.error) == ("ended", None)
    open_from_navigation(page, "History", story.hand.press)
    runs = len(events(story, "run.started"))
    expect(page.get_by_text(re.compile(f"{runs} runs?"))).to_be_visible()
    story.photograph("history", whole=True)

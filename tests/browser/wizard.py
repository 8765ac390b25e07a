"""The steps of a new pipeline, from an empty console to the launch."""

import re
import tomllib

from playwright.sync_api import expect

from tests.browser.conftest import healthy
from tests.browser.story import PIPELINE, USER, Story
from tests.servers import Server
from tests.tools.demo import PASSWORD_VARIABLE

ROWS_PER_S = 375
"""The rate limit at first, so that the copy lasts long enough on any machine."""
CHUNK_ROWS = 1000


def write(story: Story, label: str, text: str) -> None:
    """Fill a field of the form, which saves the draft."""
    story.hand.write(story.page.get_by_label(label, exact=True), text)
    settle(story)


def settle(story: Story) -> None:
    """Wait until a rerun has started and ended."""
    story.page.wait_for_timeout(500)
    expect(story.page.get_by_test_id("stStatusWidget")).to_have_count(0)


def press(story: Story, name: str) -> None:
    """A button by its whole name."""
    story.hand.press(story.page.get_by_role("button", name=name, exact=True))


def proceed(story: Story, step: str) -> None:
    """To the next step by its button."""
    story.hand.press(story.page.get_by_role("button", name=re.compile(f"Continue to {step}", re.IGNORECASE)))
    expect(story.page).to_have_url(re.compile(f"step={step}"))


def connect(story: Story) -> None:
    """The first step, from the empty list; the connection is saved for later pipelines."""
    page = story.page
    press(story, "New pipeline")
    expect(page).to_have_url(re.compile("step=Connect"))
    for label, text in (
        ("Pipeline name", PIPELINE),
        ("Port", str(story.server.port)),
        ("User", USER),
        ("Name of the environment variable", PASSWORD_VARIABLE),
    ):
        write(story, label, text)
    press(story, "Save")
    write(story, "Connection name", "production")
    press(story, "Save connection")
    expect(page.get_by_role("combobox", name="Saved connection")).to_have_value(re.compile("production"))
    page.keyboard.press("Escape")
    press(story, "Test connection")
    expect(page.get_by_text(re.compile("(MySQL|MariaDB) .* answered")).first).to_be_visible()
    expect(page.get_by_text(_identity(story.server))).to_be_visible()
    story.photograph("new-connect")


def _identity(server: Server) -> str:
    """The server's identity."""
    if server.flavor == "mariadb":
        return f"mariadb-server-id-{server.server_id}"
    return str(server.execute("SELECT @@server_uuid")[0][0])


def fix_preflight_failures(story: Story) -> None:
    """A missing privilege is shown with its statement. Once granted, the check passes."""
    page = story.page
    proceed(story, "Preflight")
    expect(page.get_by_text(re.compile(r"\d of \d+ checks failed")).first).to_be_visible()
    for part in ("grant: REPLICATION SLAVE", "Expected", "Actual", "Why it matters", "Never asked for", "LOCK TABLES"):
        expect(page.get_by_text(part).first).to_be_visible()
    story.photograph("new-preflight")
    block = page.get_by_test_id("stCode").filter(has_text="GRANT SELECT")
    for statement in block.inner_text().split(";"):
        if "GRANT" in statement:
            story.server.execute(statement.strip())
    press(story, "Check again")
    expect(page.get_by_text(re.compile("All \\d+ checks passed|none failed")).first).to_be_visible()


def pick_tables(story: Story) -> None:
    """A database without one table, tables of another one by search and in bulk, then a glob; a column is left out."""
    page, hand = story.page, story.hand
    proceed(story, "Tables")
    search, boxes = page.get_by_label("Search tables"), page.get_by_role("checkbox")
    hand.tick(page.get_by_role("checkbox", name="All tables of shop"))
    _chosen(story, 3)
    hand.tick(page.get_by_role("checkbox", name="shop.audit"))
    _chosen(story, 2)
    hand.search(search, "day_1?")
    press(story, "Choose 10 shown")
    _chosen(story, 12)
    press(story, "Clear shown")
    _chosen(story, 2)
    hand.tick(page.get_by_role("checkbox", name="logs.day_11"))
    _chosen(story, 3)
    hand.search(search, "")
    expect(boxes).to_have_count(35)
    expect(page.get_by_text("no key", exact=True)).to_be_visible()
    hand.enter(page.get_by_role("checkbox", name="shop.skus"), page.get_by_role("button", name="skus", exact=True))
    hand.choose(page.get_by_role("combobox", name="Leave out"), "card")
    expect(page.get_by_text("card", exact=True).first).to_be_visible()
    hand.press(page.get_by_role("tab", name="Globs"))
    hand.search(search, "logs.*_0[12]")
    expect(page.get_by_role("button", name="Choose 2 shown")).to_be_enabled()
    press(story, "Include glob")
    expect(page.get_by_text("logs.*_0[12]", exact=True)).to_be_visible()
    _chosen(story, 5)
    story.photograph("new-tables")
    healthy(page)


def _chosen(story: Story, number: int) -> None:
    expect(story.page.get_by_text(re.compile(f"^{number} of 33 tables"))).to_be_visible()


def continue_in_another_browser(story: Story) -> None:
    """A draft does not belong to one browser."""
    story.sit_down(story.page.url)
    _chosen(story, 5)


def change_a_chunk_size(story: Story) -> None:
    """The distribution factor is drawn; an edit of a table plans that table again.

    Its mirror gets its own way of merging.
    """
    page = story.page
    proceed(story, "Plan")
    expect(page.get_by_role("group", name="Distribution factor of each table")).to_be_visible()
    expect(page.get_by_role("combobox", name="Table")).to_have_value("shop.orders")
    story.hand.write(page.get_by_role("spinbutton", name="Rows a chunk").last, str(CHUNK_ROWS))
    # The last: the reason is also in the table's text for screen readers.
    expect(page.get_by_text(re.compile(f"about {CHUNK_ROWS} rows a chunk")).last).to_be_visible()
    settle(story)
    expect(page.get_by_text("Changes were counted in")).to_be_visible()
    story.hand.choose(page.get_by_role("combobox", name="Merging into the mirror").last, "Merge on read")
    expect(page.get_by_role("combobox", name="Merging into the mirror").last).to_have_value(re.compile("Merge on read"))
    settle(story)
    story.photograph("new-plan")
    healthy(page)


def choose_destination_and_spark(story: Story) -> None:
    """The destination folder, and Spark, which is tested."""
    page = story.page
    proceed(story, "Destination")
    write(story, "Destination folder", "delta")
    expect(page.get_by_text("writable · ")).to_be_visible()
    write(story, "Seconds between merges into the mirror", "5")
    proceed(story, "Spark")
    write(story, "Chunks read at once", "2")
    press(story, "Test Spark")
    expect(page.get_by_text("is ready")).to_be_visible()
    expect(page.get_by_text("Reads 2 chunks at once")).to_be_visible()


def limit_the_rate(story: Story) -> None:
    """A setting that no step has is written as TOML, into the same draft."""
    page = story.page
    press(story, "Edit as TOML")
    text = page.get_by_label("pipeline.toml")
    expect(text).to_have_value(re.compile("local\\[2\\]"))
    story.hand.append(text, f"\n[throttle]\nmax_rows_per_s = {ROWS_PER_S}\n")
    expect(page.get_by_text("The spec is valid.")).to_be_visible()
    settle(story)
    press(story, "Review and launch")
    expect(page).to_have_url(re.compile("step=Launch"))


def launch(story: Story) -> None:
    """The spec is shown and launched, and the writers start. The saved connection is there for the next pipeline."""
    page = story.page
    expect(page.get_by_test_id("stCode").filter(has_text="[source]")).to_contain_text('"shop.*"')
    button = page.get_by_test_id("stMain").get_by_role("button", name="Launch", exact=True).last
    expect(button).to_be_enabled()
    story.photograph("new-launch")
    healthy(page)
    story.hand.press(button)
    expect(page).to_have_url(re.compile("/live"))  # the only pipeline need not be named in the address
    expect(story.line).to_contain_text("State: snapshotting")
    story.load.start()
    spec = tomllib.loads(story.where.spec.read_text())
    assert spec["source"]["tables"][:2] == ["shop.*", "!shop.audit"]
    assert spec["snapshot"]["tables"] == {"shop.orders": {"chunk_rows": CHUNK_ROWS}}
    assert spec["tables"] == {"shop.skus": {"exclude": ["card"]}}
    assert (spec["sink"]["path"], spec["spark"]["master"]) == ("delta", "local[2]")
    assert spec["sink"]["tables"] == {"shop.orders": {"mirror": "merge_on_read"}}
    assert spec["throttle"] == {"max_rows_per_s": ROWS_PER_S}
    assert not list((story.home / ".drafts").glob("*.json"))
    second = story.open_page(page.url.replace("/live", "/new"), beside=True)
    second.get_by_role("combobox", name="Saved connection").click()
    second.get_by_role("option", name=re.compile("production")).click()
    # During a rerun, the field that is being replaced is there too.
    expect(second.get_by_label("Port", exact=True).first).to_have_value(str(story.server.port))
    second.context.close()

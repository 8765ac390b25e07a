"""A new pipeline from the first look to the running copy, by mouse, on a real server; each step can be left and resumed.

With TIDEMARK_SCREENSHOTS set to a folder, the steps are photographed on the way.
"""

import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.test_console import fill, healthy
from tests.demo import PASSWORD_VARIABLE, console, stop_runners
from tests.live.seed import seed_table
from tests.servers import FLAVORS, Server, start
from tests.servers.users import create_user

START_MS = 120_000
USER = "newcomer"
LOGS = 30


@dataclass(frozen=True)
class Shop:
    """A console that knows no pipeline yet, and a server with a shop."""

    url: str
    home: Path
    server: Server


@pytest.fixture(params=FLAVORS)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """A user who may read tables, but not the binlog."""
    with ExitStack() as stack:
        server = stack.enter_context(start(request.param))
        for database in ("shop", "logs"):
            server.execute(f"CREATE DATABASE {database}")
        seed_table(server, "shop", "orders", 60_000)
        server.execute("CREATE TABLE shop.audit (at DATETIME, what TEXT)")
        server.execute("CREATE TABLE shop.skus (sku VARCHAR(20) PRIMARY KEY, note TEXT, card VARCHAR(20))")
        server.execute("INSERT INTO shop.skus VALUES ('a', 'b', 'c'), ('d', 'e', 'f')")
        for number in range(LOGS):
            server.execute(f"CREATE TABLE logs.day_{number:02} (id INT PRIMARY KEY)")
        server.execute("ANALYZE TABLE shop.orders")
        create_user(server, USER, ["SELECT ON *.*"])
        stack.callback(stop_runners, tmp_path)
        yield Shop(stack.enter_context(console(tmp_path)), tmp_path, server)


def photograph(page: Page, name: str) -> None:
    """Keep the page as it is, when somebody asked for pictures."""
    if folder := os.environ.get("TIDEMARK_SCREENSHOTS"):
        page.wait_for_timeout(2500)
        page.screenshot(path=Path(folder) / f"new-{name}.png")


def proceed(page: Page, step: str) -> None:
    """To the next step by its button."""
    page.get_by_role("button", name=re.compile(f"Continue to {step}", re.IGNORECASE)).click()
    expect(page).to_have_url(re.compile(f"step={step}"))


def connect(page: Page, shop: Shop) -> None:
    """The first step, from a saved connection that the first pipeline saves."""
    fill(page, "Pipeline name", "web")
    fill(page, "Port", str(shop.server.port))
    fill(page, "User", USER)
    fill(page, "Name of the environment variable", PASSWORD_VARIABLE)
    page.get_by_role("button", name="Save", exact=True).click()
    fill(page, "Connection name", "production")
    page.get_by_role("button", name="Save connection").click()
    expect(page.get_by_role("combobox", name="Saved connection")).to_have_value(re.compile("production"))
    page.get_by_role("button", name="Test connection").click()
    answer = page.get_by_text(re.compile("(MySQL|MariaDB) .* answered")).first
    expect(answer).to_be_visible()
    expect(page.get_by_text(str(identity(shop.server)))).to_be_visible()
    photograph(page, "connect")


def identity(server: Server) -> str:
    """What the server says of itself."""
    if server.flavor == "mariadb":
        return f"mariadb-server-id-{server.server_id}"
    return str(server.execute("SELECT @@server_uuid")[0][0])


def preflight(page: Page, shop: Shop) -> None:
    """What is missing is shown with its statement; granted, it passes at the press of a button."""
    expect(page.get_by_text(re.compile(r"\d of \d+ checks failed")).first).to_be_visible()
    for part in ("grant: REPLICATION SLAVE", "Expected", "Actual", "Why it matters", "Never asked for", "LOCK TABLES"):
        expect(page.get_by_text(part).first).to_be_visible()
    photograph(page, "preflight")
    block = page.get_by_test_id("stCode").filter(has_text="GRANT SELECT")
    for statement in block.inner_text().split(";"):
        if "GRANT" in statement:
            shop.server.execute(statement.strip())
    page.get_by_role("button", name="Check again").click()
    expect(page.get_by_text(re.compile("All \\d+ checks passed|nothing in the way")).first).to_be_visible()


def pick(page: Page) -> None:
    """A whole database, without one table, and some of another by search and bulk; a column is left out."""
    page.get_by_role("checkbox", name="All tables of shop").check()
    expect(page.get_by_text(re.compile("^3 of 33 tables"))).to_be_visible()
    page.get_by_role("checkbox", name="shop.audit").uncheck()
    page.get_by_label("Search tables").fill("day_1?")
    page.get_by_role("button", name="Choose 10 shown").click()
    expect(page.get_by_text(re.compile("^12 of 33 tables"))).to_be_visible()
    page.get_by_role("checkbox", name="logs.day_10").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    expect(page.get_by_text(re.compile("^11 of 33 tables"))).to_be_visible()
    page.get_by_label("Search tables").fill("")
    expect(page.get_by_text("no key", exact=True)).to_be_visible()
    page.get_by_role("button", name="skus", exact=True).click()
    leave_out = page.get_by_role("combobox", name="Leave out")
    leave_out.fill("card")
    leave_out.press("Enter")
    expect(page.get_by_text("card", exact=True).first).to_be_visible()
    leave_out.press("Escape")
    page.get_by_role("tab", name="Globs").click()
    page.get_by_label("Search tables").fill("logs.*_0?")
    expect(page.get_by_role("button", name="Choose 10 shown")).to_be_enabled()
    page.get_by_role("button", name="Include glob").click()
    expect(page.get_by_text("logs.*_0?", exact=True)).to_be_visible()
    expect(page.get_by_text(re.compile("^21 of 33 tables"))).to_be_visible()
    photograph(page, "tables")
    healthy(page)


def plan(page: Page) -> None:
    """The distribution factor is drawn; an edit of one table plans it anew."""
    expect(page.get_by_test_id("stPlotlyChart")).to_be_visible(timeout=START_MS)
    rows = page.get_by_role("spinbutton", name="Rows a chunk")
    expect(page.get_by_role("combobox", name="Table")).to_have_value("shop.orders")
    rows.last.fill("5000")
    rows.last.press("Enter")
    expect(page.get_by_text(re.compile("about 5000 rows a chunk"))).to_be_visible()
    photograph(page, "plan")
    healthy(page)


def test_from_the_first_look_to_the_running_copy(shop: Shop, open_page: OpenPage) -> None:
    """Points it at a database, understands what will happen, starts it; half way, another browser goes on."""
    page = open_page(f"{shop.url}/new")
    connect(page, shop)
    proceed(page, "Preflight")
    preflight(page, shop)
    proceed(page, "Tables")
    pick(page)
    page = open_page(page.url)
    expect(page.get_by_text(re.compile("^21 of 33 tables"))).to_be_visible()
    proceed(page, "Plan")
    plan(page)
    proceed(page, "Destination")
    fill(page, "Folder of the lake", "delta")
    expect(page.get_by_text("can be written")).to_be_visible()
    proceed(page, "Spark")
    fill(page, "Chunks read at once", "2")
    page.get_by_role("button", name="Test Spark").click()
    expect(page.get_by_text("is ready")).to_be_visible(timeout=START_MS)
    expect(page.get_by_text("Reads 2 chunks at once")).to_be_visible()
    proceed(page, "Launch")
    expect(page.get_by_test_id("stCode").filter(has_text="[source]")).to_contain_text('"shop.*"')
    launch = page.get_by_test_id("stMain").get_by_role("button", name="Launch", exact=True).last
    expect(launch).to_be_enabled()
    photograph(page, "launch")
    healthy(page)
    launch.click()
    expect(page).to_have_url(re.compile("/live"))  # the only pipeline need not be named in the address
    expect(page.get_by_text(re.compile("State: (snapshotting|streaming)"))).to_be_visible(timeout=START_MS)
    spec = tomllib.loads((shop.home / "web" / "pipeline.toml").read_text())
    assert spec["source"]["tables"][:2] == ["shop.*", "!shop.audit"]
    assert spec["snapshot"]["tables"] == {"shop.orders": {"chunk_rows": 5000}}
    assert spec["tables"] == {"shop.skus": {"exclude": ["card"]}}
    assert (spec["sink"]["path"], spec["spark"]["master"]) == ("delta", "local[2]")
    assert not list((shop.home / ".drafts").glob("*.json"))
    second = open_page(f"{shop.url}/new")
    second.get_by_role("combobox", name="Saved connection").click()
    second.get_by_role("option", name=re.compile("production")).click()
    # While the page is drawn anew the field that is replaced stands there too.
    expect(second.get_by_label("Port", exact=True).first).to_have_value(str(shop.server.port))

"""Access control: nothing without a login, viewers see, operators act, and the journal has their names."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from engine.pipeline.directory import Directory
from engine.pipeline.verification_records import Details, Difference
from engine.pipeline.verifications import save
from tests.browser.conftest import OpenPage
from tests.servers.oidc import CLIENT, SECRET, provider
from tests.servers.server import free_port
from tests.support.simulation import SimulatedTable, Simulation, real_now
from tests.tools.demo import console

ADA, BOB, EVE = "ada@example.com", "bob@example.com", "eve@elsewhere.com"
MAL = "mal@elsewhere.com"
CHOSEN = {"email": ADA, "email_verified": False, "preferred_username": ADA}
"""What the login of MAL says: she has entered the address of ADA, and called herself so."""
SECRETS = """
[auth]
redirect_uri = "http://127.0.0.1:{port}/oauth2callback"
cookie_secret = "a cookie secret of a test that nobody uses twice"
client_id = "{client}"
client_secret = "{secret}"
server_metadata_url = "{issuer}/.well-known/openid-configuration"

[roles]
operators = ["ada@example.com"]
viewers = ["*@example.com"]
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Directory]]:
    """A console with a login, and one pipeline."""
    folder = tmp_path_factory.mktemp("guarded")
    shop = Simulation(
        folder / "home" / "shop",
        [SimulatedTable("shop.orders", 3_000_000, 180)],
        start=real_now() - timedelta(seconds=30),
    )
    shop.advance(30)
    row = Difference("missing", ("5",), cause="it never arrived", source={"note": "a value of the source"}, chunk=1)
    save(shop.directory, {}, [Details(table="shop.orders", complete=True, parts=[], differences=[row])])
    (shop.directory.verifications / "report.html").write_text("a value of the source")
    port = free_port()
    with provider([ADA, BOB, EVE, MAL], {MAL: CHOSEN}) as issuer, pytest.MonkeyPatch.context() as patch:
        (folder / "secrets.toml").write_text(SECRETS.format(port=port, client=CLIENT, secret=SECRET, issuer=issuer))
        patch.setenv("STREAMLIT_SECRETS_FILES", str(folder / "secrets.toml"))
        with shop.play(), console(folder / "home", port) as url:
            yield url, shop.directory


def log_in(page: Page, who: str) -> None:
    """Log in on the provider's page."""
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("link", name=who).click()
    page.get_by_test_id("stMain").wait_for()


def test_a_console_without_a_login_shows_nothing(
    tmp_path: Path, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it listens on every interface."""
    monkeypatch.setenv("TIDEMARK_CONSOLE_ADDRESS", "0.0.0.0")  # noqa: S104 - that is what is refused
    with console(tmp_path) as url:
        page = open_page(url)
        expect(page.get_by_text("listens on more than this machine")).to_be_visible()
        expect(page.get_by_role("link", name="Pipelines")).to_have_count(0)
        expect(page.get_by_role("heading", level=1)).to_have_text("Tidemark")


def test_a_viewer_sees_and_an_operator_acts(guarded: tuple[str, Directory], open_page: OpenPage) -> None:
    """A viewer has no pages that change something or show rows, not even by URL. Commands carry names."""
    url, where = guarded
    page = open_page(f"{url}/live?pipeline=shop")
    expect(page.get_by_role("button", name="Log in")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Tidemark")
    expect(page.get_by_text("Copy:")).to_have_count(0)
    log_in(page, BOB)
    expect(page.get_by_text(f"{BOB} · viewer")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/live\?pipeline=shop(&|$)"))  # the login does not lose it
    expect(page.locator(".status-line")).to_be_visible()
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    for name in ("Pace", "Tables"):
        expect(page.get_by_role("tab", name=name)).to_have_count(0)
    page.goto(f"{url}/alerts")
    expect(page.get_by_role("heading", name="Rules")).to_be_visible()
    for name in ("Acknowledge", "Send test"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    page.goto(f"{url}/explore?pipeline=shop")
    expect(page.get_by_text("Explore is for operators, and you are logged in as a viewer.")).to_be_visible()
    expect(page.get_by_text("Page not found")).to_have_count(0)
    page.goto(f"{url}/verify?pipeline=shop&table=shop.orders")
    expect(page.get_by_text("Operators see the rows.")).to_be_visible()
    expect(page.get_by_text("a value of the source")).to_have_count(0)
    expect(page.get_by_role("button", name="Download the report")).to_have_count(0)

    page = open_page(url)
    log_in(page, EVE)
    expect(page.get_by_text("has no role here")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Tidemark")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Tidemark")

    log_in(page, MAL)
    expect(page.get_by_text("has no role here")).to_be_visible()
    expect(page.get_by_text("email_verified is not true")).to_be_visible()
    page.get_by_role("button", name="Log out").click()

    log_in(page, ADA)
    page.goto(f"{url}/verify?pipeline=shop&table=shop.orders")
    expect(page.get_by_text("a value of the source").first).to_be_visible()
    expect(page.get_by_role("button", name="Download the report")).to_be_visible()
    page.goto(f"{url}/live?pipeline=shop")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("button", name="Pause pipeline").click()
    expect(page.get_by_role("heading", name="Paused").first).to_be_visible()
    events = [json.loads(line) for line in _lines(where)]
    assert [e["actor"] for e in events if e["event"] == "command.accepted"] == [ADA]


def _lines(where: Directory) -> list[str]:
    return [line for path in sorted(where.journals.glob("*.jsonl")) for line in Path(path).read_text().splitlines()]

"""The page of alerts, the badge in the header and the number in the browser's title."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from engine.base import clock
from engine.journal.alert_kinds import remedy
from engine.pipeline.command_file import send_command
from engine.pipeline.command_queue import claim_for_run
from tests.browser.conftest import OpenPage, healthy
from tests.browser.hands import open_from_navigation, select
from tests.support.receiver import Receiver
from tests.support.simulation import SimulatedTable, Simulation, real_now
from tests.tools.demo import console

RULES = """
[alerts]
lag_s = 60
webhook_env = "TIDEMARK_TEST_WEBHOOK"
"""


@dataclass(frozen=True)
class Alerting:
    """A console, a pipeline that runs, one whose runner can be lost, and the webhook of the first."""

    url: str
    shop: Simulation
    crm: Simulation
    webhook: Receiver


@pytest.fixture
def alerting(tmp_path: Path, receiver: Receiver) -> Iterator[Alerting]:
    """Nothing is wrong at first."""
    shop, crm = (
        Simulation(
            tmp_path / name,
            [SimulatedTable(f"{name}.orders", 3_000_000, 180)],
            start=real_now() - timedelta(seconds=30),
        ).advance(30)
        for name in ("shop", "crm")
    )
    with shop.directory.spec.open("a") as spec:
        spec.write(RULES)
    crm.end("stopped").runner()
    environment = {"TIDEMARK_TEST_WEBHOOK": receiver.url}
    with shop.play(), console(tmp_path, environment=environment) as url:
        yield Alerting(url, shop, crm, receiver)


def lagging(shop: Simulation) -> None:
    """Raise an alert whose cause began five minutes ago."""
    since = clock.utc_text(real_now() - timedelta(minutes=5))
    message = "The pipeline is 75 s behind its source, more than 60 s."
    shop.raise_alert("lag", value=75.2, threshold=60.0, message=message, hint=remedy("lag"), since=since)


def counted(page: Page, number: int) -> None:
    """The badge and the title have this number, without a reload."""
    badge = page.locator(".st-key-header").get_by_role("link", name=re.compile(r"\d+ alerts?"))
    expect(page).to_have_title(re.compile(rf"^\({number}\) \w+.* · Tidemark$" if number else r"^\w+.* · Tidemark$"))
    expect(badge).to_have_count(min(number, 1))
    if number:
        expect(badge).to_contain_text(f"{number} alert")


def test_an_alert_is_counted_until_it_is_acknowledged_or_resolved(alerting: Alerting, open_page: OpenPage) -> None:
    """On every page. It stays listed with the operator's name and note, and counts again when it comes back."""
    shop = alerting.shop
    page = open_page(f"{alerting.url}/live?pipeline=shop")
    counted(page, 0)
    lagging(shop)
    counted(page, 1)
    shop.raise_alert("table_stopped", "shop.orders", message="shop.orders stopped: no date.", hint="Set invalid_dates.")
    counted(page, 2)
    badge = page.locator(".st-key-header").get_by_role("link", name="2 alerts")
    badge_box, last_box = badge.bounding_box(), page.get_by_test_id("stTopNavLink").last.bounding_box()
    assert badge_box is not None
    assert last_box is not None
    assert last_box["x"] + last_box["width"] < badge_box["x"], "the badge covers the navigation"
    badge.click()
    expect(page).to_have_url(re.compile("/alerts$"))
    cards = page.locator("[class*='st-key-alert-shop-']")
    expect(cards).to_have_count(2)
    lag, table = cards.filter(has_text="75 s behind"), cards.filter(has_text="no date")
    for text in ("1 min 15 s", "1 min", "What to do", "Find what slows it down"):
        expect(lag).to_contain_text(text)
    expect(table.get_by_role("link", name="shop.orders")).to_be_visible()
    lag.get_by_role("button", name="Acknowledge").click()
    page.get_by_label("Your name").fill("Ada")
    page.get_by_label("Note").fill("index rebuild")
    page.get_by_role("button", name="Acknowledge alert").click()
    expect(lag).to_contain_text(re.compile(r"Acknowledged by Ada at .*: index rebuild"))
    expect(lag.get_by_role("button", name="Acknowledge")).to_have_count(0)
    counted(page, 1)
    shop.clear_alert("lag", value=2.0, message="The pipeline is 2 s behind its source.")
    expect(cards).to_have_count(1)
    resolved = page.get_by_test_id("stDataFrame").first
    expect(resolved).to_be_visible()
    shop.clear_alert("table_stopped", "shop.orders")
    counted(page, 0)
    expect(page.get_by_text("No alert is firing")).to_be_visible()
    for text in ("Lag", "Table stopped", "shop.orders", "Ada: index rebuild"):
        expect(resolved.locator("td").filter(has_text=text).first).to_be_attached()
    lagging(shop)
    counted(page, 1)
    healthy(page)


def test_a_lost_runner_counts_and_its_alerts_are_the_last_known(alerting: Alerting, open_page: OpenPage) -> None:
    """They are never shown as current; an operator can acknowledge them without a runner."""
    crm = alerting.crm
    crm.raise_alert("table_stopped", "crm.orders", message="crm.orders stopped: no date.", hint="Set invalid_dates.")
    crm.state = "running"
    crm.runner(heartbeat=real_now() - timedelta(minutes=3))
    page = open_page(f"{alerting.url}/alerts?pipeline=crm")
    counted(page, 2)
    cards = page.locator("[class*='st-key-alert-crm-']")
    lost, table = cards.filter(has_text="Runner lost"), cards.filter(has_text="no date")
    expect(lost).to_contain_text("The runner has sent no heartbeat since")
    expect(lost).not_to_contain_text("Last known")
    expect(table).to_contain_text(re.compile(r"Last known at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"))
    lost.get_by_role("button", name="Acknowledge").click()
    page.get_by_role("button", name="Acknowledge alert").click()
    expect(lost).to_contain_text("Acknowledged by")
    counted(page, 1)
    healthy(page)
    again = open_page(f"{alerting.url}/alerts?pipeline=shop")
    counted(again, 1)
    expect(again.get_by_text("No alert is firing")).to_be_visible()


def test_a_test_notification_reaches_the_webhook(alerting: Alerting, open_page: OpenPage) -> None:
    """Once, and the page shows the answer but not the address."""
    page = open_page(f"{alerting.url}/alerts")
    expect(
        page.get_by_text("Seconds above the threshold before an alert fires, and below it before it clears.")
    ).to_be_visible()
    send = page.get_by_role("button", name="Send test")
    send.click()
    expect(page.get_by_text("webhook answered 200")).to_be_visible()
    (got,) = alerting.webhook.got
    assert (got["event"], got["pipeline"]) == ("alert.test", "shop")
    alerting.webhook.answers = [503]
    expect(send).to_have_count(1)  # each click gets a button of its own
    send.click()
    expect(page.get_by_text("not delivered: it answered 503")).to_be_visible()
    assert len(alerting.webhook.got) == 1
    for secret in ("s3cret", "k3y"):
        assert secret not in page.content()
    assert "s3cret" not in json.dumps([path.read_text() for path in alerting.shop.directory.journals.iterdir()])
    healthy(page)


def test_the_address_chooses_the_pipeline(alerting: Alerting, open_page: OpenPage) -> None:
    """A pipeline that is not there is named, and the alerts of all are shown."""
    lagging(alerting.shop)
    page = open_page(f"{alerting.url}/alerts")
    select(page, "Pipeline", "crm")
    expect(page).to_have_url(re.compile(r"/alerts\?pipeline=crm"))
    expect(page.get_by_text("No alert is firing")).to_be_visible()
    again = open_page(page.url, beside=True)
    expect(again.get_by_text("No alert is firing")).to_be_visible()
    select(page, "Pipeline", "All pipelines")
    expect(page).to_have_url(re.compile("/alerts$"))
    expect(page.get_by_text("75 s behind")).to_be_visible()
    missing = open_page(f"{alerting.url}/alerts?pipeline=gone")
    expect(missing.get_by_text("There is no pipeline gone")).to_be_visible()
    expect(missing.get_by_text("75 s behind")).to_be_visible()
    open_from_navigation(missing, "Live")
    expect(missing.get_by_text("Choose a pipeline")).to_have_count(1)
    healthy(missing)


def test_a_silence_is_seen_by_everyone_and_hides_nothing(alerting: Alerting, open_page: OpenPage) -> None:
    """It needs a reason. The alert still counts; a silence can be ended by hand."""
    shop = alerting.shop
    lagging(shop)
    page = open_page(f"{alerting.url}/alerts?pipeline=shop")
    page.get_by_role("button", name="Silence").click()
    page.get_by_role("button", name="Silence alerts").click()
    expect(page.get_by_text("A silence needs a reason.")).to_be_visible()
    page.get_by_label("Reason for the silence").fill("index rebuild")
    page.get_by_label("Reason for the silence").press("Tab")
    page.get_by_role("button", name="Silence alerts").click()
    card = page.locator("[class*='st-key-alert-shop-']")
    said = re.compile(r"Silenced by .* until .*: index rebuild")
    expect(card).to_contain_text(said)
    counted(page, 1)
    page.keyboard.press("Escape")
    line = page.locator("[class*='st-key-silence-']").filter(has_text="all alerts")
    expect(line).to_contain_text(said)
    other = open_page(f"{alerting.url}/live?pipeline=shop", beside=True)
    expect(other.get_by_text(said)).to_be_visible()
    line.get_by_role("button", name="End").click()
    expect(page.get_by_text("No silence is in force")).to_be_visible()
    expect(card).not_to_contain_text("Silenced")
    healthy(page)


def test_commands_that_wait_for_a_runner_can_be_withdrawn(alerting: Alerting, open_page: OpenPage) -> None:
    """They are on *Live*, with who sent them; one that a run has accepted cannot be withdrawn."""
    where = alerting.crm.directory
    kept = send_command(where, "redump", reason="wrong rows", actor="ada", arguments={"tables": ["crm.orders"]})
    gone = send_command(where, "throttle", actor="bob", arguments={"readers": 1})
    assert claim_for_run(where.inbox / f"{kept}.json") == ""
    page = open_page(f"{alerting.url}/live?pipeline=crm")
    queue = page.locator(".st-key-queue")
    expect(queue).to_contain_text("2 commands waiting for a runner")
    expect(queue).to_contain_text(re.compile(r"Redump crm\.orders · sent by ada at .* UTC: wrong rows"))
    taken, free = (page.locator(f".st-key-queued-{one}") for one in (kept, gone))
    expect(taken.get_by_role("button", name="Withdraw")).to_be_disabled()
    free.get_by_role("button", name="Withdraw").click()
    expect(queue).to_contain_text("1 command waiting for a runner")
    assert (where.inbox / "withdrawn" / f"{gone}.json").exists()
    healthy(page)

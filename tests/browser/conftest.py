"""A real Chromium, the console on simulated pipelines, and the record of a failure."""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from engine.alerting.acknowledgements import acknowledge
from engine.base import clock
from engine.base.durable import write_atomically
from engine.journal.alert_kinds import remedy
from engine.pipeline.directory import Directory
from engine.pipeline.saved_lists import list_text, read_alerts
from engine.source.connect import RESNAPSHOT_ALL
from tests.browser.evidence import Witness, log_tails
from tests.servers.drivers import Driver, Drivers
from tests.support.patience import PATIENCE_MS
from tests.support.simulation import SPEC, SimulatedTable, Simulation, real_now
from tests.tools.demo import console

# The browser's own services would otherwise contact hosts that a closed network does not have.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
CHROMIUM = os.environ.get("TIDEMARK_CHROMIUM", "/usr/bin/chromium-headless-shell")

# The contrast of each element's text with its background, by WCAG 2. A canvas resolves mixed colours.
CONTRASTS = """all => {
    const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true })
    const light = colour => {
        pen.fillStyle = colour
        pen.fillRect(0, 0, 1, 1)
        const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].map(
            part => part <= 10 ? part / 3295 : ((part / 255 + 0.055) / 1.055) ** 2.4)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b
    }
    return all.map(getComputedStyle).map(style => {
        const [dark, bright] = [light(style.color), light(style.backgroundColor)].sort((a, b) => a - b)
        return (bright + 0.05) / (dark + 0.05)
    })
}"""

expect.set_options(timeout=PATIENCE_MS)

OpenPage = Callable[..., Page]
_WITNESSES = pytest.StashKey[list[Witness]]()


@dataclass(frozen=True)
class Console:
    """A running console, and its pipelines."""

    url: str
    home: Path
    shop: Simulation
    """Copying; answers commands like a runner."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for the test run."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the records of the pages, and the ends of the logs, to a failure."""
    report = yield
    if report.when == "call" and report.failed:
        witnesses: list[Witness] = item.stash.get(_WITNESSES, [])
        for number, witness in enumerate(witnesses, 1):
            report.sections.append((f"page {number}", witness.report()))
        report.sections.extend(log_tails(getattr(item, "funcargs", {})).items())
    return report


@pytest.fixture
def open_page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[OpenPage]:
    """``open_page(address, width=1280, theme="light", zone="Asia/Kolkata", beside=False)``: a fresh profile on it.

    The pages before it are closed, because an open page is drawn every two seconds; `beside` keeps them.
    It must stay without errors.
    """
    witnesses = request.node.stash.setdefault(_WITNESSES, [])
    with ExitStack() as stack:

        def factory(
            address: str, width: int = 1280, theme: str = "light", zone: str = "Asia/Kolkata", *, beside: bool = False
        ) -> Page:
            if not beside:
                stack.close()
            context = browser.new_context(
                viewport={"width": width, "height": 1000},
                color_scheme=theme,  # type: ignore[arg-type]
                timezone_id=zone,
            )
            stack.callback(context.close)
            context.set_default_timeout(60_000)
            page = context.new_page()
            witnesses.append(Witness(page))
            page.goto(address)
            page.get_by_test_id("stMain").wait_for()
            return page

        yield factory
        errors = [error for witness in witnesses for error in witness.errors]
    assert not errors, errors


@pytest.fixture
def driver(drivers: Drivers) -> Iterator[Driver]:
    """The JVM of a console's runners."""
    lent = drivers.lend()
    yield lent
    drivers.back(lent)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A console on a pipeline in every state."""
    home = tmp_path_factory.mktemp("home")
    with every_state(home) as running, console(home) as url:
        yield Console(url, home, running)


def healthy(page: Page) -> None:
    """The page shows no exception, and does not scroll horizontally."""
    assert page.get_by_test_id("stException").count() == 0, page.get_by_test_id("stException").all_inner_texts()
    wider = page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth - window.innerWidth")
    assert wider <= 0


@contextmanager
def every_state(home: Path) -> Iterator[Simulation]:
    """A pipeline in every state, with simulated runners where alive. Yields the one that copies."""
    now = real_now()
    shop = [
        SimulatedTable("shop.orders", 40_000_000, 1200),
        SimulatedTable("shop.customers", 400_000, 48, 3.2),
        SimulatedTable("shop.order_items", 9_000_000, 900, 1200.0),
        SimulatedTable("shop.countries", 250, 1, None),
    ]
    running = Simulation(home / "shop", shop, start=now - timedelta(seconds=90), readers=3).advance(90)
    billing = [SimulatedTable("billing.invoices", 3_000_000, 180)]
    paused = Simulation(home / "billing", billing, start=now - timedelta(seconds=100)).advance(20)
    paused.command("pause", reason="nightly backup")
    _ended(home)
    fresh = home / "fresh"
    fresh.mkdir()
    (fresh / "pipeline.toml").write_text(SPEC.format(name="fresh"))
    with running.play(), paused.play():
        yield running


def alerting(shop: Simulation) -> None:
    """Raise alerts of the pipeline that copies, and of two whose runner ended; one is over, and one is acknowledged."""
    began = clock.utc_text(real_now() - timedelta(minutes=7))
    shop.raise_alert(
        "lag",
        value=75.2,
        threshold=60.0,
        message="The pipeline is 75 s behind its source, more than 60 s.",
        hint=remedy("lag"),
        since=began,
    )
    stopped = "shop.order_items stopped: The column `paid_at` has the date 0000-00-00, which does not exist."
    hint = "Set source.invalid_dates, then: tidemark redump SPEC --table shop.order_items"
    shop.raise_alert("table_stopped", "shop.order_items", message=stopped, hint=hint)
    shop.raise_alert("source_away", value=30.0, message="The source is unreachable: no route to host.", since=began)
    shop.clear_alert("source_away", value=None, message="The source can be reached again.")
    home = shop.directory.root.parent
    (failed,) = read_alerts(shop.directory)[:1]
    legacy = replace(
        failed,
        kind="run_failed",
        value=4,
        threshold=None,
        since=began,
        message="The run failed: The binlog mysql-bin.000038 was purged.",
        hint=f"{RESNAPSHOT_ALL}.",
    )
    parked = replace(
        failed,
        kind="chunk_parked",
        table="crm.contacts",
        value=None,
        threshold=None,
        since=clock.utc_text(real_now() - timedelta(hours=2, minutes=20)),
        message="Chunk 17 of crm.contacts was parked after 8 attempts: Lost connection. Everything else continues.",
        hint=remedy("chunk_parked", "crm.contacts"),
    )
    for name, alert in (("legacy", legacy), ("crm", parked)):
        write_atomically(home / name / "alerts.json", list_text("alerts", [alert.to_json()]))
    acknowledge(Directory(home / "legacy"), legacy, actor="ada", note="copying again tonight")


def _ended(home: Path) -> None:
    """Pipelines whose runner failed, was lost, and ended normally. The lost one has a torn line in its journal."""
    then = real_now() - timedelta(hours=2)
    failed = Simulation(home / "legacy", [SimulatedTable("erp.stock", 3_000_000, 180)], start=then).advance(20)
    error = {
        "error": "SourceLostError",
        "message": "The binlog mysql-bin.000038 was purged.",
        "detail": "Changes between mysql-bin.000038:4120 and mysql-bin.000041:4 are gone.",
        "hint": f"{RESNAPSHOT_ALL}. To avoid this, raise binlog_expire_logs_seconds.",
    }
    failed.end("failed", 4, error).runner(heartbeat=failed.now, error=error)
    failed.directory.log.write_text("preflight done\nThe binlog mysql-bin.000038 was purged.\n")
    lost = Simulation(home / "crm", [SimulatedTable("crm.contacts", 3_000_000, 160)], start=then).advance(12)
    lost.runner(heartbeat=lost.now)
    with lost.journal.path.open("a") as journal:
        journal.write('{"run": "torn\n')
    lost.directory.log.write_text("Spark is up\nKilled\n")
    done = Simulation(home / "archive", [SimulatedTable("archive.events", 3_000_000, 60)], start=then).advance(60)
    done.end("done").runner(heartbeat=done.now)

"""`python -m tests.browser.gallery FOLDER`: every page of the console in every state, light and dark, at 1280 and 1920.

The states are busy, broken, starting, source away, and empty. On simulated pipelines, without a server, for visual
inspection. A kind or an address can be given instead of all: `away`, `busy/live?pipeline=shop`.
"""

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from engine.base import clock
from tests.browser.conftest import CHROMIUM, FLAGS, alerting, every_state
from tests.support.simulation import SimulatedTable, Simulation, real_now
from tests.tools.demo import console

SECTIONS = ("Overview", "Chunks", "Readers", "Watermarks", "Plan", "Pace", "Tables", "Destination", "Events", "Source")
BUSY = [
    "",
    *(f"live?pipeline=shop&section={name}" for name in (*SECTIONS, "Spec")),
    "live?pipeline=shop&section=Chunks&table=shop.orders&chunk=7",
    "table?pipeline=shop&table=shop.orders",
    "table?pipeline=shop",
    "verify?pipeline=shop",
    "redump?pipeline=shop",
    "explore?pipeline=shop",
    "alerts",
    "alerts?pipeline=shop",
    "history",
    "glossary",
    "diagnostics?pipeline=shop",
    "new?draft=0000aaaa&step=Connect",
    "new?draft=0000aaaa&step=Destination",
    "new?draft=0000aaaa&step=Spark",
    "new?draft=0000aaaa&step=TOML",
]
BROKEN = [
    *(f"live?pipeline={name}" for name in ("legacy", "crm", "billing", "fresh", "archive")),
    *(f"new?draft=0000aaaa&step={step}" for step in ("Preflight", "Tables", "Plan", "Launch")),
    "table?pipeline=legacy",
    "table?pipeline=crm",
    "table?pipeline=fresh",
    "redump?pipeline=legacy",
    "explore?pipeline=legacy",
    "diagnostics?pipeline=legacy",
]
STARTING_AND_AWAY = [
    "",
    *(f"live?pipeline={name}&section={section}" for name in ("stock", "orders") for section in SECTIONS),
    *(
        f"{page}?pipeline={name}"
        for name in ("stock", "orders")
        for page in ("verify", "redump", "alerts", "diagnostics")
    ),
    "table?pipeline=orders&table=shop.orders",
    "table?pipeline=stock",
    "alerts",
    "explore?pipeline=orders",
    "history",
]
EMPTY = ["", "alerts", "live", "table", "verify", "redump", "explore", "history", "diagnostics", "new"]
VARIANTS = [(width, theme) for width in (1280, 1920) for theme in ("light", "dark")]
# The height of a page, or a random text while part of it is loading. Numbers may keep changing.
_SHAPE = """() => {
    const main = document.querySelector("[data-testid=stMain]")
    const busy = main.querySelector("[data-testid=stSkeleton], [data-testid=stSpinner], [data-testid=stStatusWidget]")
    return busy ? `busy ${Math.random()}` : main.scrollHeight
}"""


def drawn(page: Page) -> None:
    """Wait until the page is complete: nothing is loading, and its height has been stable for a while."""
    before, same = None, 0
    for _ in range(50):
        page.wait_for_timeout(300)
        now = page.evaluate(_SHAPE)
        same = same + 1 if now == before else 0
        if same == 4:
            return
        before = now


def photograph(browser: Browser, url: str, address: str, target: Path, variants: list[tuple[int, str]]) -> None:
    """Save a screenshot of the whole page."""
    for width, theme in variants:
        context = browser.new_context(
            viewport={"width": width, "height": 1000},
            color_scheme=theme,  # type: ignore[arg-type]
        )
        page = context.new_page()
        page.goto(f"{url}/{address}")
        page.get_by_test_id("stMain").wait_for()
        drawn(page)
        height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
        page.set_viewport_size({"width": width, "height": max(720, min(height + 60, 2400))})
        drawn(page)
        name = re.sub(r"[^A-Za-z0-9]+", "-", address).strip("-") or "pipelines"
        page.screenshot(path=target.with_name(f"{target.name}-{name}-{width}-{theme}.png"))
        context.close()


@contextmanager
def starting_and_away(home: Path) -> Iterator[None]:
    """Three pipelines: one that starts, and two whose sources are away.

    One was copying when its source went away, the other was streaming.
    """
    now = real_now()
    tables = [SimulatedTable("shop.orders", 9_000_000, 180), SimulatedTable("shop.customers", 400_000, 8, 3.2)]
    starts = Simulation(home / "stock", tables, start=now - timedelta(seconds=9), starting=True).advance(9)
    for step, after_s, seconds in (("Spark", 0.1, None), ("preflight", 0.1, 1.214), ("plan", 1.4, None)):
        since = clock.utc_text(starts.started + timedelta(seconds=after_s))
        starts.startup.append({"step": step, "since": since, "seconds": seconds})
    copies = Simulation(home / "orders", tables, start=now - timedelta(seconds=80)).advance(25)
    copies.lose_source(
        "Connecting to 127.0.0.1:3306 as tidemark failed: Can't connect to MySQL server on '127.0.0.1' "
        "([Errno 111] Connection refused) (error 2003)."
    )
    streams = Simulation(home / "prices", tables[1:], start=now - timedelta(seconds=100)).advance(50)
    streams.lose_source("The source did not answer within 3 s.")
    with starts.play(), copies.play(), streams.play():
        yield


def main(folder: Path, wanted: list[str]) -> None:
    """Save screenshots of the given kinds and addresses, or of all."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        home, away, empty = (Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(3))
        alerting(stack.enter_context(every_state(home)))
        stack.enter_context(starting_and_away(away))
        browser = stack.enter_context(sync_playwright()).chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for kind, place, addresses in (
            ("busy", home, BUSY + BROKEN),
            ("away", away, STARTING_AND_AWAY),
            ("empty", empty, EMPTY),
        ):
            chosen = [one for one in addresses if not wanted or f"{kind}/{one}" in wanted or kind in wanted]
            if not chosen:
                continue
            with console(place) as url:
                for address in chosen:
                    photograph(browser, url, address, folder / kind, VARIANTS)
                    print(kind, address, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

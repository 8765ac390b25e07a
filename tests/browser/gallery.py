"""`python -m tests.browser.gallery FOLDER`: every page of the console, light and dark, at 1280 and 1920, busy, broken and empty.

On simulated pipelines, without a server, for visual inspection. Addresses can be given instead of all: `live?pipeline=shop`.
"""

import re
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.conftest import CHROMIUM, FLAGS, alerting, every_state
from tests.tools.demo import console

BUSY = [
    "",
    *(
        f"live?pipeline=shop&section={name}"
        for name in (
            "Overview",
            "Chunks",
            "Readers",
            "Watermarks",
            "Plan",
            "Pace",
            "Tables",
            "Destination",
            "Events",
            "Spec",
        )
    ),
    "live?pipeline=shop&section=Chunks&table=shop.orders&chunk=7",
    "table?pipeline=shop&table=shop.orders",
    "table?pipeline=shop",
    "verify?pipeline=shop",
    "redump?pipeline=shop",
    "explore?pipeline=shop",
    "alerts",
    "alerts?pipeline=shop",
    "history",
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
        context = browser.new_context(viewport={"width": width, "height": 1000}, color_scheme=theme)  # type: ignore[arg-type]
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


def main(folder: Path, wanted: list[str]) -> None:
    """Save screenshots of the given addresses, or of all."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        home, empty = (Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2))
        alerting(stack.enter_context(every_state(home)))
        browser = stack.enter_context(sync_playwright()).chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        full, bare = (stack.enter_context(console(place)) for place in (home, empty))
        for kind, url, addresses in (("busy", full, wanted or BUSY + BROKEN), ("empty", bare, [] if wanted else EMPTY)):
            for address in addresses:
                photograph(browser, url, address, folder / kind, VARIANTS)
                print(kind, address, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

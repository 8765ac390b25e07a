"""`python -m tests.browser.gallery FOLDER`: every page of the console, light and dark, at 1280 and 1920, busy, broken and empty.

On simulated pipelines, without a server; it is for the eye. Addresses may be named instead of all: `live?pipeline=shop`.
"""

import re
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.browser.conftest import CHROMIUM, FLAGS, every_state
from tests.demo import console

BUSY = [
    "",
    *(
        f"live?pipeline=shop&section={name}"
        for name in ("Overview", "Chunks", "Readers", "Watermarks", "Plan", "Events", "Spec")
    ),
    "live?pipeline=shop&section=Chunks&table=shop.orders&chunk=7",
    "redump?pipeline=shop",
    "explore?pipeline=shop",
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
    "redump?pipeline=legacy",
    "explore?pipeline=legacy",
    "diagnostics?pipeline=legacy",
]
EMPTY = ["", "live", "redump", "explore", "history", "diagnostics", "new"]
LOOKS = [(1280, "light"), (1920, "dark")]
"""One at each width and in each theme; the other two are drawn from the same rules."""


def photograph(browser: Browser, url: str, address: str, target: Path, looks: list[tuple[int, str]]) -> None:
    """The whole page, as long as it is."""
    for width, theme in looks:
        context = browser.new_context(viewport={"width": width, "height": 1000}, color_scheme=theme)  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(f"{url}/{address}")
        page.get_by_test_id("stMain").wait_for()
        page.wait_for_timeout(6000)
        height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
        page.set_viewport_size({"width": width, "height": max(720, min(height + 60, 2400))})
        page.wait_for_timeout(1500)
        name = re.sub(r"[^A-Za-z0-9]+", "-", address).strip("-") or "pipelines"
        page.screenshot(path=target.with_name(f"{target.name}-{name}-{width}-{theme}.png"))
        context.close()


def main(folder: Path, wanted: list[str]) -> None:
    """Draw what is wanted, or everything."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        home, empty = (Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2))
        stack.enter_context(every_state(home))
        browser = stack.enter_context(sync_playwright()).chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        full, bare = (stack.enter_context(console(place)) for place in (home, empty))
        looks = [(width, theme) for width in (1280, 1920) for theme in ("light", "dark")] if wanted else LOOKS
        for kind, url, addresses in (("busy", full, wanted or BUSY + BROKEN), ("empty", bare, [] if wanted else EMPTY)):
            for address in addresses:
                photograph(browser, url, address, folder / kind, looks)
                print(kind, address, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

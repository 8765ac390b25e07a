"""The setting of the story test.

A busy shop on a server, a home of pipelines, the console, and a hand that operates it.
"""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Locator, Page

from engine.pipeline.directory import Directory
from tests.browser.conftest import OpenPage
from tests.browser.hands import HANDS, Hand
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import Server
from tests.servers.drivers import Drivers
from tests.servers.server import free_port
from tests.servers.users import create_user
from tests.tools.demo import console

PIPELINE, USER = "web", "newcomer"
ROWS, LOGS = 75_000, 30


def fill_shop(server: Server) -> None:
    """A shop, many log tables, and a user with SELECT but without the privileges for the binlog."""
    for database in ("shop", "logs"):
        server.execute(f"CREATE DATABASE {database}")
    seed_table(server, "shop", "orders", ROWS)
    server.execute("CREATE TABLE shop.audit (at DATETIME, what TEXT)")
    server.execute("CREATE TABLE shop.skus (sku VARCHAR(20) PRIMARY KEY, note TEXT, card VARCHAR(20))")
    server.execute("INSERT INTO shop.skus VALUES ('a', 'b', 'c'), ('d', 'e', 'f')")
    for number in range(LOGS):
        server.execute(f"CREATE TABLE logs.day_{number:02} (id INT PRIMARY KEY)")
    create_user(server, USER, ["SELECT ON *.*"])


class Consoles:
    """One console after another on the same pipelines, at the same address.

    Each with a JVM of its own for its runners.
    """

    def __init__(self, home: Path, drivers: Drivers) -> None:
        self._home, self._drivers, self._port = home, drivers, free_port()
        self._now = ExitStack()
        self._lent = ExitStack()

    def open(self) -> str:
        """Start a console, and return its URL."""
        driver = self._drivers.lend()
        self._lent.callback(self._drivers.back, driver)
        return self._now.enter_context(console(self._home, self._port, environment=driver.environment))

    def end(self) -> None:
        """End the console; its runners continue."""
        self._now.close()

    def give_back(self) -> None:
        """Return the JVMs, when no runner uses them."""
        self._lent.close()


@dataclass
class Story:
    """The state of a story."""

    way: str
    hand: Hand
    server: Server
    load: Workload
    home: Path
    consoles: Consoles
    open_page: OpenPage

    @property
    def page(self) -> Page:
        """The current page."""
        return self.hand.page

    @property
    def where(self) -> Directory:
        """The pipeline's folder."""
        return Directory(self.home / PIPELINE)

    def lake(self, table: str, database: str = "shop") -> Path:
        """The folder of a mirror."""
        return self.home / PIPELINE / "delta" / database / table

    @property
    def line(self) -> Locator:
        """The status line."""
        return self.page.locator(".status-line")

    def sit_down(self, address: str) -> None:
        """Open another browser; the previous one is closed."""
        self.page.context.close()
        self.hand = HANDS[self.way](self.open_page(address))

    def photograph(self, name: str, *, whole: bool = False) -> None:
        """Save a screenshot if TIDEMARK_SCREENSHOTS is set. whole: including the part below the viewport."""
        if folder := os.environ.get("TIDEMARK_SCREENSHOTS"):
            self.page.wait_for_timeout(2500)
            if whole:
                height = self.page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
                self.page.set_viewport_size({"width": 1280, "height": max(720, min(height, 1600))})
                self.page.wait_for_timeout(1000)
            self.page.screenshot(path=Path(folder) / f"{name}.png")

"""The setting of the night test: a pipeline, its truth as seen from outside, and what the pages of the console show."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Page

from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import read_runner
from engine.pipeline.saved_lists import read_alerts
from tests.browser.conftest import OpenPage
from tests.servers import USER, Server
from tests.servers.drivers import Driver
from tests.support.mounts import Small, mounted
from tests.support.patience import PATIENCE_S
from tests.tools.demo import PASSWORD_VARIABLE, console, stop_runners

PIPELINE = "night"
PAGES_TABLE = "d.audit"
"""The table of the page Table."""
SHOWN_S = 3.0
"""A fact is on both pages after so long."""
_PRESSURE = Path("/proc/pressure/cpu")
SPEC = """
name = "night"
poll_interval_s = 0.2
[source]
host = "127.0.0.1"
port = {port}
user = "{user}"
password_env = "{variable}"
tables = ["d.*"]
{settings}
[sink]
type = "delta"
path = "lake"
merge_interval_s = 0.5
[spark]
master = "local[2]"
[alerts]
for_s = 2
"""

# Every visible text with its colour, by hue. An icon is a text too; it is left out.
TEXTS = """root => {
    const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true })
    const named = colour => {
        pen.clearRect(0, 0, 1, 1)
        pen.fillStyle = colour
        pen.fillRect(0, 0, 1, 1)
        const [r, g, b] = pen.getImageData(0, 0, 1, 1).data
        const high = Math.max(r, g, b), span = high - Math.min(r, g, b)
        if (span < 0.35 * high) return "gray"
        const hue = 60 * (high === r ? (6 + (g - b) / span) % 6 : high === g ? 2 + (b - r) / span : 4 + (r - g) / span)
        return hue < 20 || hue > 330 ? "red" : hue < 65 ? "orange" : hue < 175 ? "green" : hue < 240 ? "blue" : "violet"
    }
    const found = [], walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT)
    while (walk.nextNode()) {
        const text = walk.currentNode.data.trim(), of = walk.currentNode.parentElement
        if (!text || of.closest("[role=img], style, script, canvas, pre, svg") || !of.checkVisibility()) continue
        found.push([named(getComputedStyle(of).color), text])
    }
    return found
}"""


@dataclass(frozen=True)
class Truth:
    """The facts of an instant, from processes, the disk and the journal."""

    source: bool
    """Whether the server can answer."""
    runner: bool
    room: bool
    """Whether the pipeline's disk has room."""
    stopped: frozenset[str]
    """The tables that have stopped."""
    rows_logged: bool = True
    """Whether the source logs rows, as a run requires."""
    readable: bool = True
    """Whether no file of a mirror is gone, of another table than that of the page Table."""
    account: bool = True
    """Whether the source lets the account in, with the privileges that it needs."""

    @property
    def well(self) -> bool:
        """Whether nothing is wrong, so that nothing may be red or orange."""
        facts = (self.source, self.runner, self.room, self.rows_logged, self.readable, self.account)
        return all(facts) and not self.stopped

    def green(self, page: str) -> tuple[str, ...]:
        """The lights that may be green on a page. Table is that of the table that stops."""
        found = ["done in"]  # the last command, which is over
        if page == "Alerts":
            found.append("resolved")
        if page == "Table":
            found.append("Copied")
        if self.runner and self.source and self.account:
            if self.rows_logged:
                found.append("Safe")
            if self.room:
                found.append("Running")
                if page == "Table" and PAGES_TABLE not in self.stopped:
                    found += ["Streaming", "Up to date"]
                    if self.rows_logged:
                        found.append("Verified")
                if not self.stopped:
                    found += ["running", "Keeping up", "Fresh", "streaming"]
                    if self.rows_logged and self.readable:
                        found.append("Verified")
        return tuple(found)


@dataclass
class Night:
    """The state of a night."""

    server: Server
    home: Path
    disk: Small
    pages: dict[str, Page]
    """Pipelines and Live, which must show each fact in time; and others, which must show nothing green that is red."""
    rows_logged: bool = True
    readable: bool = True
    account: bool = True

    @property
    def where(self) -> Directory:
        """The pipeline's folder."""
        return Directory(self.home / PIPELINE)

    @property
    def runner(self) -> psutil.Process:
        """The runner's process."""
        record = read_runner(self.where)
        assert record is not None
        return psutil.Process(record.pid)

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """The journal's lines of some kinds, oldest first."""
        lines = [line for p in sorted(self.where.journals.glob("*.jsonl")) for line in p.read_text().split("\n")[:-1]]
        return [event for line in lines if (event := json.loads(line))["event"] in kinds]

    def truth(self) -> Truth:
        """The facts of this instant."""
        states = {event["table"]: event["state"] for event in self.events("table.state")}
        stopped = frozenset(table for table, state in states.items() if state == "stopped")
        source, record = self.server.process, read_runner(self.where)
        return Truth(
            _runs(source.pid if source else None),
            _runs(record.pid if record else None),
            self.disk.free_bytes > 0,
            stopped,
            self.rows_logged,
            self.readable,
            self.account,
        )

    def texts(self, name: str) -> list[tuple[str, str]]:
        """The colour and the text of everything on a page that concerns the pipeline."""
        chosen = f".st-key-card-{PIPELINE}" if name == "Pipelines" else "[data-testid=stMain]"
        found = self.pages[name].locator(chosen).first.evaluate(TEXTS)
        return [(colour, text) for colour, text in found]

    def lies(self) -> Iterator[str]:
        """The green lights whose fact is red."""
        for name in self.pages:
            shown, truth = self.texts(name), self.truth()
            for colour, text in shown:
                if colour == "green" and not any(word in text for word in truth.green(name)):
                    yield f"{name}: {text!r} is green, but {truth}"

    def false_alarms(self) -> Iterator[str]:
        """What is red or orange although nothing is wrong."""
        for name in self.pages:
            shown = self.texts(name)
            if self.truth().well and not self.alerts():
                yield from (f"{name}: {text!r} is {colour}" for colour, text in shown if colour in ("red", "orange"))

    def shows(self, what: str, wanted: dict[str, dict[str, str]], since_s: float, bound_s: float = SHOWN_S) -> None:
        """The pages show texts (regular expressions) in colours ("" for any), no green light lies, no red one is false.

        wanted: by page. since_s: when the fact began. Time in which processes waited for a processor does not count.
        """
        starved_s, last = _starved_s(), [""]
        while True:
            lacking = [*self._lacking(wanted), *self.lies(), *self.false_alarms()]
            last = lacking or last
            now_s = time.monotonic()
            if not lacking:
                break
            assert now_s - since_s < PATIENCE_S, (what, lacking, {name: self.texts(name) for name in self.pages})
            next(iter(self.pages.values())).wait_for_timeout(30)
        took_s = now_s - since_s - (_starved_s() - starved_s)
        print(f"{what}: {now_s - since_s:.2f} s, {took_s:.2f} s without waits for a processor; last came {last}")
        assert took_s <= bound_s, f"{what}: shown after {now_s - since_s:.1f} s; last came {last}"

    def _lacking(self, wanted: dict[str, dict[str, str]]) -> Iterator[str]:
        for name, texts in wanted.items():
            found = self.texts(name)
            for text, colour in texts.items():
                if not any(re.search(text, shown) and colour in ("", seen) for seen, shown in found):
                    yield f"{name} lacks {text!r} in {colour or 'any colour'}"

    def streams(self, count: int) -> bool:
        """Whether so many tables have begun to stream, or more."""
        return len([event for event in self.events("table.state") if event["state"] == "streaming"]) >= count

    def alerts(self) -> set[str]:
        """The kinds of the standing alerts."""
        return {alert.kind for alert in read_alerts(self.where)}

    def wait_for(self, found: Callable[[], Any], timeout_s: float = PATIENCE_S) -> float:
        """Wait until `found` returns true. Returns the time."""
        deadline = time.monotonic() + timeout_s
        while not found():
            assert time.monotonic() < deadline, (self.where.log.read_text()[-3000:], self.truth())
            next(iter(self.pages.values())).wait_for_timeout(50)
        return time.monotonic()


@contextmanager
def night_on(
    source: Server, home: Path, driver: Driver, open_page: OpenPage, *, tables: int, settings: str
) -> Iterator[Night]:
    """A pipeline on a small disk that captures so many tables of the database `d` and streams; its pages are open.

    settings: lines of its `[source]`.
    """
    with ExitStack() as stack:
        disk = stack.enter_context(mounted(home / PIPELINE, 48 << 20))
        spec = SPEC.format(port=source.port, user=USER, variable=PASSWORD_VARIABLE, settings=settings)
        (disk.folder / "pipeline.toml").write_text(spec)
        url = stack.enter_context(console(home, environment=driver.environment))
        stack.callback(stop_runners, home)
        addresses = {"Pipelines": "", "Live": f"live?pipeline={PIPELINE}", "Alerts": "alerts"}
        addresses |= {
            "Table": f"table?pipeline={PIPELINE}&table={PAGES_TABLE}",
            "Verify": f"verify?pipeline={PIPELINE}",
        }
        pages = {name: open_page(f"{url}/{address}", beside=True) for name, address in addresses.items()}
        stack.callback(lambda: disk.free() if disk.free_bytes == 0 else None)
        night = Night(source, home, disk, pages)
        pages["Live"].get_by_role("button", name="Start", exact=True).click()
        night.wait_for(lambda: night.streams(tables))
        yield night


def _runs(pid: int | None) -> bool:
    with suppress(psutil.NoSuchProcess):
        return pid is not None and psutil.Process(pid).status() not in (
            psutil.STATUS_STOPPED,
            psutil.STATUS_ZOMBIE,
            psutil.STATUS_DEAD,
        )
    return False


def _starved_s() -> float:
    """How long any process has waited for a processor since the machine started; 0 if the kernel does not say."""
    with suppress(OSError):
        some = _PRESSURE.read_text().splitlines()[0]
        return int(some.rpartition("total=")[2]) / 1e6
    return 0.0

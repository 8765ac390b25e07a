"""A record of what happened on a page, so that a failure in CI can be understood from the output."""

import time
from collections import deque
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, Page, WebSocket

LAST = 40
"""The most messages to keep per page."""
LOG_TAIL = 3000
# If an element is replaced between press and release, there is no click. So both are logged.
_LOG_CLICKS = """for (const kind of ["pointerdown", "click"])
    addEventListener(kind, event => console.debug(`${kind} on ${event.target.innerText?.slice(0, 40)}`), true)
"""


class Witness:
    """Records the events of one page from its first request on."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self._began = time.monotonic()
        self._sockets: list[WebSocket] = []
        self._frames = {"sent": (0, 0.0), "received": (0, 0.0)}
        self._messages: deque[str] = deque(maxlen=LAST)
        page.add_init_script(_LOG_CLICKS)
        page.on("pageerror", self._failed)
        page.on("crash", lambda _: self._note("the page's process crashed"))
        page.on("console", lambda message: self._note(f"console {message.type}: {message.text}"))
        page.on("requestfailed", lambda request: self._note(f"request failed: {request.url} {request.failure}"))
        page.on("framenavigated", lambda frame: self._note(f"at {frame.url}"))
        page.on("websocket", self._connected)

    def report(self) -> str:
        """The connection, the errors, the last messages, and the accessibility tree of the page."""
        states = ["closed" if socket.is_closed() else "open" for socket in self._sockets]
        lines = [f"websockets: {', '.join(states) or 'none'}; now it is {self._now_s():.2f} s"]
        lines += [f"frames {way}: {number}, the last at {at_s:.2f} s" for way, (number, at_s) in self._frames.items()]
        return "\n".join([*lines, *self._messages, "", self._as_read()])

    def _now_s(self) -> float:
        return time.monotonic() - self._began

    def _note(self, text: str) -> None:
        self._messages.append(f"{self._now_s():7.2f} s {text}")

    def _count(self, way: str) -> None:
        self._frames[way] = (self._frames[way][0] + 1, self._now_s())

    def _failed(self, error: Error) -> None:
        self.errors.append(str(error))
        self._note(f"page error: {error}\n{error.stack or ''}")

    def _connected(self, socket: WebSocket) -> None:
        self._sockets.append(socket)
        self._note("websocket opened")
        socket.on("framesent", lambda _: self._count("sent"))
        socket.on("framereceived", lambda _: self._count("received"))
        socket.on("close", lambda _: self._note("websocket closed"))
        socket.on("socketerror", lambda error: self._note(f"websocket error: {error}"))

    def _as_read(self) -> str:
        try:
            return self.page.locator("body").aria_snapshot(timeout=5000)
        except Error as problem:
            return f"the page could not be read: {problem}"


def log_tails(fixtures: dict[str, Any]) -> dict[str, str]:
    """The ends of the console's and the runners' logs in the homes of a test's fixtures, by path."""
    homes = {home for value in fixtures.values() if isinstance(home := getattr(value, "home", None), Path)}
    logs = [log for home in sorted(homes) for pattern in ("*.log", "*/*.log") for log in sorted(home.glob(pattern))]
    return {str(log): log.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL:] for log in logs}

"""Posts JSON to a webhook from its own thread, so that callers never wait.

Messages go in order. An undeliverable one is retried with growing pauses and holds up those after it; only the newest of those are
kept. An answer that rejects a message permanently (400, 404 …) drops it.
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from engine import __version__
from engine.run.helpers import Helpers

MAX_WAITING = 256
_TIMEOUT_S = 10.0
_FIRST_RETRY_S, _LONGEST_RETRY_S, _CLOSING_RETRY_S = 1.0, 60.0, 0.5
_WORTH_ANOTHER_TRY = (408, 425, 429)
"""4xx answers that are worth a retry, like all 5xx answers."""


class Webhook:
    """A webhook.

    failed: called once when it cannot be reached, and again only after it worked in between. Receives the reason, without the
    address, and the seconds until the next try, None if the message is dropped.
    """

    def __init__(
        self,
        url: str,
        failed: Callable[[str, float | None], None],
        helpers: Helpers,
        *,
        first_retry_s: float = _FIRST_RETRY_S,
    ) -> None:
        self._url, self._failed, self._helpers, self._first_retry_s = url, failed, helpers, first_retry_s
        self._waiting: deque[Mapping[str, Any]] = deque(maxlen=MAX_WAITING)
        self._wake, self._closing, self._abandoned = threading.Event(), threading.Event(), threading.Event()
        self._down = False
        self._opener = _opener()
        self._thread = threading.Thread(target=self._work, name="webhook", daemon=True)
        self._thread.start()

    def post(self, message: Mapping[str, Any]) -> None:
        """Queue a message; returns at once."""
        self._waiting.append(message)
        self._wake.set()

    def close(self, patience_s: float) -> None:
        """Wait up to `patience_s` for the delivery of all messages; the rest is lost."""
        self._closing.set()
        self._wake.set()
        self._thread.join(patience_s)
        self._abandoned.set()

    def _work(self) -> None:
        while not self._abandoned.is_set():
            try:
                message = self._waiting.popleft()
            except IndexError:
                if self._closing.is_set():
                    return
                self._wake.wait()
                self._wake.clear()
                continue
            try:
                self._deliver(json.dumps(message, ensure_ascii=False).encode())
            except Exception as error:  # noqa: BLE001 - one alert that cannot be posted must not block the others
                self._helpers.failed("webhook", error)
            else:
                self._helpers.succeeded("webhook")

    def _deliver(self, body: bytes) -> None:
        """Try until the message is accepted or rejected, or the run ends."""
        retry_s = self._first_retry_s
        while not self._abandoned.is_set():
            problem, retry = self._post(body)
            if not problem:
                self._down = False
                return
            if not self._down and not self._abandoned.is_set():
                self._down = True
                self._failed(problem, retry_s if retry else None)
            if not retry:
                return
            if self._closing.is_set():  # an ending run waits only briefly
                self._abandoned.wait(min(retry_s, _CLOSING_RETRY_S))
            else:
                self._closing.wait(retry_s)
                retry_s = min(2 * retry_s, _LONGEST_RETRY_S)

    def _post(self, body: bytes) -> tuple[str, bool]:
        """Post once. Returns the problem, "" if there is none, and whether a retry makes sense."""
        headers = {"Content-Type": "application/json", "User-Agent": f"tidemark/{__version__}"}
        try:
            with self._opener.open(Request(self._url, body, headers), timeout=_TIMEOUT_S):  # noqa: S310 - settings.webhook
                return "", False
        except HTTPError as error:
            with error:
                return f"it answered {error.code}", error.code >= 500 or error.code in _WORTH_ANOTHER_TRY
        except URLError as error:
            return self._without_address(str(error.reason)), True
        except (OSError, HTTPException) as error:
            return self._without_address(f"{type(error).__name__}: {error}"), True
        except ValueError as error:  # urllib rejects the address; the error's message may contain it
            return f"its address cannot be used ({type(error).__name__})", False

    def _without_address(self, text: str) -> str:
        parts = urlsplit(self._url)
        for secret in (self._url, f"{parts.path}?{parts.query}", parts.path.strip("/"), parts.query):
            text = text.replace(secret, "***") if secret else text
        return text


def _opener() -> OpenerDirector:
    """An opener that follows no redirects: urllib would turn one into a GET without the body."""
    opener = OpenerDirector()
    for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler(), HTTPDefaultErrorHandler(), HTTPErrorProcessor()):
        opener.add_handler(handler)
    return opener

"""Posts JSON to a webhook from its own thread, so that callers never wait.

Messages go in order. An undeliverable one is retried with growing pauses and holds up those after it; only the newest of those are
kept. An answer that rejects a message permanently (400, 404 …) drops it.
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from engine.posting import Poster
from engine.run.helpers import Helpers

MAX_WAITING = 256
_FIRST_RETRY_S, _LONGEST_RETRY_S, _CLOSING_RETRY_S = 1.0, 60.0, 0.5


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
        self._poster, self._failed, self._helpers, self._first_retry_s = Poster(url), failed, helpers, first_retry_s
        self._waiting: deque[Mapping[str, Any]] = deque(maxlen=MAX_WAITING)
        self._wake, self._closing, self._abandoned = threading.Event(), threading.Event(), threading.Event()
        self._down = False
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
            answer = self._poster.post(body)
            problem, retry = answer.problem, answer.retry
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

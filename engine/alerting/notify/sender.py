"""Delivers the notices of one route in its own thread, so that callers never wait.

Notices go in order. An undeliverable one is retried with growing pauses and holds up those after it; only the newest of
those are kept. An answer that rejects a notice permanently (400, 404 …) drops it.
"""

import threading
from collections import deque
from collections.abc import Callable

from engine.alerting.notify.notice import DeliveryResult, Notice
from engine.base import clock
from engine.base.redaction import redact

MAX_WAITING = 256
_FIRST_RETRY_S, _LONGEST_RETRY_S, _CLOSING_RETRY_S = 1.0, 60.0, 0.5


class Sender:
    """One route.

    deliver: delivers a notice once. failed: called once when that fails, and again only after it worked in between.
    Receives the problem, and the seconds until the next try, None if the notice is dropped. recovered: called when a
    notice is accepted after that. Receives the number of failures, and the seconds since the first one. down: whether
    it counts as failing from the beginning.
    """

    def __init__(
        self,
        name: str,
        deliver: Callable[[Notice], DeliveryResult],
        failed: Callable[[str, float | None], None],
        recovered: Callable[[int, float], None],
        *,
        down: bool = False,
        first_retry_s: float = _FIRST_RETRY_S,
    ) -> None:
        self._deliver_once = deliver
        self._failed = failed
        self._recovered = recovered
        self._first_retry_s = first_retry_s
        self._waiting: deque[Notice] = deque(maxlen=MAX_WAITING)
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._abandoned = threading.Event()
        self._failures = int(down)
        self._down_since_s = clock.monotonic_s()
        self._thread = threading.Thread(target=self._work, name=f"route {name}", daemon=True)
        self._thread.start()

    def post(self, notice: Notice) -> None:
        """Queue a notice; returns at once."""
        self._waiting.append(notice)
        self._wake.set()

    def finish(self) -> None:
        """Try what waits at once, and end when it is delivered."""
        self._closing.set()
        self._wake.set()

    def join(self, patience_s: float) -> None:
        """Wait for the end, after `finish`; what is not delivered by then is lost."""
        self._thread.join(patience_s)
        self._abandoned.set()

    def _work(self) -> None:
        while not self._abandoned.is_set():
            try:
                notice = self._waiting.popleft()
            except IndexError:
                if self._closing.is_set():
                    return
                self._wake.wait()
                self._wake.clear()
                continue
            self._deliver(notice)

    def _deliver(self, notice: Notice) -> None:
        """Try until the notice is accepted or rejected, or the run ends."""
        retry_s = self._first_retry_s
        while not self._abandoned.is_set():
            answer = self._try(notice)
            if not answer.problem:
                self._works()
                return
            self._fails(answer.problem, retry_s if answer.retry else None)
            if not answer.retry:
                return
            if self._closing.is_set():  # an ending run waits only briefly
                self._abandoned.wait(min(retry_s, _CLOSING_RETRY_S))
            else:
                self._closing.wait(retry_s)
                retry_s = min(2 * retry_s, _LONGEST_RETRY_S)

    def _try(self, notice: Notice) -> DeliveryResult:
        try:
            return self._deliver_once(notice)
        except Exception as error:  # noqa: BLE001 - one notice that cannot be delivered must not block the others
            return DeliveryResult(redact(f"{type(error).__name__}: {error}"))

    def _works(self) -> None:
        failures, self._failures = self._failures, 0
        if failures:
            self._recovered(failures, clock.monotonic_s() - self._down_since_s)

    def _fails(self, problem: str, retry_s: float | None) -> None:
        self._failures += 1
        if self._failures == 1:
            self._down_since_s = clock.monotonic_s()
            if not self._abandoned.is_set():
                self._failed(problem, retry_s)

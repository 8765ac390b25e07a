"""A source that is away: how long a run waits for it, and where it says so.

A run waits for as long as waiting can mend it: until the binlog at the committed position may be purged, by the last runway that
was measured before the source went. A source that does not purge is waited for without end. A source that answers and refuses
the login (a proxy without a server behind it does, and one that is just starting) is waited for five minutes: a changed password
needs a person.

Two threads report: the coordinator, whose epochs fail, and the monitor, which finds out sooner where the source hangs. The source
is back when neither has anything to report. What is known is an event of the journal for each try, `away` in `runner.json`, and
from there `status`, the console and an alert.
"""

import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from engine import clock
from engine.errors import LoginRefusedError, SourceAwayError, TidemarkError, TransientError
from engine.events import ErrorReported, LagMeasured, RunState, SourceAway, SourceBack
from engine.journal import Entry, Journal

EPOCHS, MONITOR = "epochs", "monitor"
"""Who reports."""
REFUSED_S = 300.0
"""A login that is refused for longer than this is not a moment's."""
_LEAST_S = 300.0
"""A source is waited for at least so long, however short its runway: what is due to be purged is often still there."""
_FIRST_S, _LONGEST_S = 1.0, 30.0
_ATTEMPTS = 10
"""Of an epoch that fails though the source is there."""


@dataclass(frozen=True)
class Outage:
    """What is known of a source that is away."""

    since: str
    attempt: int
    next_try: str
    error: str
    gives_up_at: str | None
    """UTC text, as are `since` and `next_try`; None where the run never gives up."""


class OutageTracker:
    """Keeps account of one run's source. Any thread may use it.

    show: given the fields of an `Outage` at each change, None when the source is back. let_go: called when a stop is asked for and
    the source is away: whoever waits for an answer of it need not.
    """

    def __init__(self, journal: Journal, show: Callable[[dict[str, Any] | None], None]) -> None:
        self._journal, self._show = journal, show
        self.let_go: Callable[[], None] | None = None
        self._lock = threading.RLock()
        self._tries: dict[str, int] = {}
        self._since_s, self._refused_s = 0.0, 0.0
        self._since = ""
        self._purged_s: float | None = None  # when the binlog may be purged (`clock.monotonic_s`)
        self._stopping = False
        self._failures = 0
        journal.listeners.append(self._hear)

    @property
    def now(self) -> bool:
        """Whether the source is away."""
        return bool(self._tries)

    def _hear(self, entry: Entry) -> None:
        event = entry.event
        if isinstance(event, LagMeasured):
            self._purged_s = None if event.runway_s is None else clock.monotonic_s() + event.runway_s
        elif isinstance(event, RunState) and event.state == "stopping":
            self._stopping = True
            self._release()

    def _release(self) -> None:
        if self._stopping and self.now and self.let_go is not None:
            self.let_go()

    def failed(self, by: str, error: TidemarkError) -> float:
        """A try failed; returns the seconds to wait before the next one.

        Raises the error of a source that was waited for long enough; only for the coordinator, whose run it ends.
        """
        with self._lock:
            now_s = clock.monotonic_s()
            if not self._tries:
                self._since_s, self._since = now_s, clock.utc_text()
            if not isinstance(error, LoginRefusedError):
                self._refused_s = 0.0
            elif not self._refused_s:
                self._refused_s = now_s
            attempt = self._tries[by] = self._tries.get(by, 0) + 1
            until_s = self._until_s()
            if until_s is not None and now_s >= until_s and by == EPOCHS:
                raise _given_up(error, now_s - self._since_s)
            pause_s: float = min(_FIRST_S * 2 ** min(attempt - 1, 10), _LONGEST_S)
            if until_s is not None:
                pause_s = min(pause_s, max(until_s - now_s, 0.1))
            if by == EPOCHS or EPOCHS not in self._tries:
                self._say(attempt, pause_s, error, None if until_s is None else until_s - now_s)
        self._release()
        return pause_s

    def _until_s(self) -> float | None:
        if self._refused_s:
            return self._refused_s + REFUSED_S
        return None if self._purged_s is None else max(self._purged_s, self._since_s + _LEAST_S)

    def _say(self, attempt: int, pause_s: float, error: TidemarkError, left_s: float | None) -> None:
        now = clock.utc_now()
        gives_up = None if left_s is None else clock.utc_text(now + timedelta(seconds=left_s))
        next_try = clock.utc_text(now + timedelta(seconds=pause_s))
        self._show(asdict(Outage(self._since, attempt, next_try, error.message, gives_up)))
        self._journal.write(
            SourceAway(
                since=self._since,
                attempt=attempt,
                retry_in_s=pause_s,
                message=error.message,
                gives_up_at=gives_up,
            )
        )

    def pause_after(self, error: TidemarkError) -> float:
        """Seconds that the coordinator waits after an epoch failed. Raises the error when waiting does not mend it."""
        if isinstance(error, SourceAwayError | LoginRefusedError):
            return self.failed(EPOCHS, error)
        self._failures += 1
        if self._failures >= _ATTEMPTS:
            raise error
        retry_s: float = min(_FIRST_S * 2 ** (self._failures - 1), _LONGEST_S)
        self._journal.write(ErrorReported.of(error, attempt=self._failures, retry_in_s=retry_s))
        return retry_s

    def epoch_done(self) -> None:
        """An epoch was committed, or there was nothing to commit."""
        self._failures = 0
        self.back(EPOCHS)

    def back(self, by: str) -> None:
        """A try succeeded, or there will be no more of them."""
        with self._lock:
            if self._tries.pop(by, None) is None or self._tries:
                return
            self._show(None)
            seconds = round(clock.monotonic_s() - self._since_s, 3)
            self._journal.write(SourceBack(since=self._since, seconds=seconds))
            self._refused_s = 0.0


def _given_up(error: TidemarkError, seconds: float) -> TidemarkError:
    waited = f"The source was away for {seconds / 60:,.0f} minutes."
    if isinstance(error, LoginRefusedError):
        return LoginRefusedError(error.message, detail=f"{waited} {error.detail}", hint=error.hint)
    return TransientError(
        error.message,
        detail=f"{waited} The binlog at the committed position may be purged by now. What is committed is whole.",
        hint=f"{error.hint} Then run again: it goes on from the last commit, or says that the binlog is purged.",
    )

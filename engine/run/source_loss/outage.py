"""An unreachable source: how long a run waits for it, and where it reports that.

A run waits as long as waiting can help: until the source may purge the binlog at the committed position, judged by the
retention left that was last measured. If the source never purges, the run waits forever. If the source answers but
refuses the login, the run waits five minutes: a proxy without a server does that, and a server that is starting. A
changed password needs a person. It waits as long for privileges that the account has lost: whoever took them can give
them back.

Two threads report: the coordinator, whose epochs fail, and the lag monitor, which notices a hanging source sooner. The
source is back when neither reports failures. Each try is a journal event; `away` in `runner.json` feeds `status`, the
console and an alert.

The monitor asks the source twice a second. If there is no answer for a second, `away` says so (`look`), with no attempt
yet: nothing is journaled unless the question fails.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any

from engine.base import clock
from engine.base.errors import (
    AccountRefusedError,
    PrivilegesMissingError,
    SourceAwayError,
    TidemarkError,
    TransientError,
)
from engine.journal import Entry, Journal
from engine.journal.connection_events import PreflightPassed
from engine.journal.events import ErrorReported, LagMeasured, RunState, SourceAway, SourceBack
from engine.journal.outage_causes import Cause

EPOCHS, MONITOR = "epochs", "monitor"
"""The reporting threads."""
REFUSED_S = 300.0
"""An account refused for longer than this is not a temporary condition."""
_MIN_WAIT_S = 300.0
"""The shortest wait for a source, however little retention is left: expired binlog files often still exist."""
_FIRST_S, _MAX_PAUSE_S = 1.0, 30.0
_MONITOR_PAUSE_S = 5.0
"""The monitor asks at least this often while the epochs report the outage: its questions are cheap, and no try is
journaled."""
PATIENCE_S = 1.0
"""A source that leaves a ping unanswered for longer is shown as away."""
MEASURE_PATIENCE_S = 3.0
"""The same for a measurement, whose queries take longer on a source with many binlog files."""
GRANT_AND_CONTINUE = "Grant them: the run then continues by itself from its position. Tidemark needs:"
_GRANT_AND_START = "Grant them, then start the run again: it continues from the last commit. Tidemark needs:"
_ATTEMPTS = 10
"""Tries of an epoch that fails although the source answers."""


@dataclass(frozen=True)
class Outage:
    """An ongoing outage of the source."""

    since: str
    attempt: int
    """0 while the first question is still unanswered."""
    next_try: str
    error: str
    gives_up_at: str | None
    """UTC text, like `since` and `next_try`; None if the run never gives up."""
    refused: bool = False
    """Whether the source answers, but refuses the account."""
    hint: str = ""
    """What to do about a refused account."""
    cause: Cause = "unreachable"


@dataclass(frozen=True)
class Account:
    """The run's account on the source, and the statements that grant it all that Tidemark needs."""

    user: str
    grants: tuple[str, ...]


class OutageTracker:
    """Tracks the outages of one run's source. Thread-safe.

    show: called on each change, with the fields of an `Outage`, or None when the source is back. answers: called when
    the monitor reaches the source while the epochs still wait.
    """

    def __init__(
        self,
        journal: Journal,
        show: Callable[[dict[str, Any] | None], None],
        answers: Callable[[], None] = lambda: None,
    ) -> None:
        self._journal = journal
        self._show = show
        self._answers = answers
        self._abort_waits: Callable[[], None] = lambda: None
        self._account: Account | None = None
        self._lock = threading.RLock()
        self._tries: dict[str, int] = {}
        self._since_s = 0.0
        self._refused_s = 0.0
        self._since = ""
        self._purged_s: float | None = None  # when the source may purge the binlog (`clock.monotonic_s`)
        self._stopping = False
        self._failures = 0
        self._asked_s: float | None = None  # since when a question has been unanswered
        self._patience_s = PATIENCE_S
        self._shows_silence = False
        self._requests = 0
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
        if self._stopping and (self.now or self._shows_silence):
            self._abort_waits()

    @contextmanager
    def aborting(self, abort_waits: Callable[[], None]) -> Iterator[None]:
        """Meanwhile, a stop while the source is away calls `abort_waits`, which aborts the waits for its answer."""
        self._abort_waits = abort_waits
        try:
            yield
        finally:
            self._abort_waits = lambda: None

    def preflight_passed(self, account: Account) -> None:
        """Journal that the source has accepted the login, which ends the alerts of an earlier run's outage.

        Errors about privileges that the account lacks name it from now on, and how to grant them.
        """
        self._account = account
        self._journal.write(PreflightPassed())

    def failed(self, by: str, error: TidemarkError) -> float:
        """Record a failed try. Returns the seconds to wait before the next one.

        Raises the error when the source has been away too long; only for the coordinator, whose run that ends.
        """
        with self._lock:
            now_s, error = clock.monotonic_s(), _named(error, self._account)
            if not self._tries:
                self._begin(now_s if self._asked_s is None else self._asked_s, now_s)
            self._shows_silence = False
            if by == MONITOR:
                self._asked_s = None
            if not isinstance(error, AccountRefusedError):
                self._refused_s = 0.0
            elif not self._refused_s:
                self._refused_s = now_s
            attempt = self._tries[by] = self._tries.get(by, 0) + 1
            until_s = self._until_s()
            if until_s is not None and now_s >= until_s and by == EPOCHS:
                raise _given_up(error, now_s - self._since_s)
            pause_s: float = min(_FIRST_S * 2 ** min(attempt - 1, 10), _MAX_PAUSE_S)
            if until_s is not None:
                pause_s = min(pause_s, max(until_s - now_s, 0.1))
            if by == EPOCHS or EPOCHS not in self._tries:
                self._report(attempt, pause_s, error, until_s)
            else:
                pause_s = min(pause_s, _MONITOR_PAUSE_S)
        self._release()
        return pause_s

    def _begin(self, since_s: float, now_s: float) -> None:
        self._since_s = since_s
        self._since = clock.utc_text(clock.utc_now() - timedelta(seconds=now_s - since_s))

    def asks(self, patience_s: float = PATIENCE_S) -> None:
        """Record that the monitor asks the source something that it answers within `patience_s` if it can."""
        with self._lock:
            self._asked_s = clock.monotonic_s()
            self._patience_s = patience_s

    def answered(self) -> None:
        """Record the answer."""
        with self._lock:
            self._asked_s = None
            if self._shows_silence:
                self._shows_silence = False
                self._show(None)

    def look(self) -> None:
        """Show a source that does not answer.

        A thread that never waits for the source calls it several times a second.
        """
        with self._lock:
            now_s = clock.monotonic_s()
            if self._asked_s is None or self._tries or self._shows_silence or now_s - self._asked_s < self._patience_s:
                return
            self._shows_silence = True
            self._begin(self._asked_s, now_s)
            self._show(asdict(self._outage(0, 0.0, "The source does not answer.", self._until_s())))
        self._release()

    def try_now(self) -> None:
        """End the pauses before the next tries."""
        self._requests += 1

    def pause(self, seconds: float, closing: threading.Event) -> None:
        """Wait before the monitor's next try; ended by `try_now` and by the event."""
        until_s, requests = clock.monotonic_s() + seconds, self._requests
        while (left_s := until_s - clock.monotonic_s()) > 0 and self._requests == requests:
            if closing.wait(min(left_s, 0.2)):
                return

    def _until_s(self) -> float | None:
        if self._refused_s:
            return self._refused_s + REFUSED_S
        return None if self._purged_s is None else max(self._purged_s, self._since_s + _MIN_WAIT_S)

    def _report(self, attempt: int, pause_s: float, error: TidemarkError, until_s: float | None) -> None:
        cause = _cause(error)
        refused = cause != "unreachable"
        outage = self._outage(attempt, pause_s, error.message, until_s)
        outage = replace(outage, refused=refused, hint=error.hint if refused else "", cause=cause)
        self._show(asdict(outage))
        self._journal.write(
            SourceAway(
                since=self._since,
                attempt=attempt,
                retry_in_s=pause_s,
                message=error.message,
                gives_up_at=outage.gives_up_at,
                refused=refused,
                hint=outage.hint,
                cause=cause,
            )
        )

    def _outage(self, attempt: int, pause_s: float, error: str, until_s: float | None) -> Outage:
        """The outage as it is shown. `gives_up_at` counts from `since`, so it stays the same from try to try."""
        gives_up_at = None
        if until_s is not None:
            gives_up_at = clock.utc_text(clock.parse_utc(self._since) + timedelta(seconds=until_s - self._since_s))
        next_try = clock.utc_text(clock.utc_now() + timedelta(seconds=pause_s))
        return Outage(self._since, attempt, next_try, error, gives_up_at)

    def pause_after(self, error: TidemarkError) -> float:
        """Seconds for the coordinator to wait after a failed epoch. Raises the error when waiting cannot help."""
        if isinstance(error, SourceAwayError | AccountRefusedError):
            return self.failed(EPOCHS, error)
        self._failures += 1
        if self._failures >= _ATTEMPTS:
            raise error
        retry_s: float = min(_FIRST_S * 2 ** (self._failures - 1), _MAX_PAUSE_S)
        self._journal.write(ErrorReported.of(error, attempt=self._failures, retry_in_s=retry_s))
        return retry_s

    def epoch_done(self) -> None:
        """Record that an epoch was committed, or that there was nothing to commit."""
        self._failures = 0
        self.back(EPOCHS)

    def back(self, by: str) -> None:
        """Record that a try succeeded, or that this thread stops trying."""
        with self._lock:
            if self._tries.pop(by, None) is None:
                return
            if self._tries:
                if by == MONITOR:
                    self._answers()
                return
            self._show(None)
            seconds = round(clock.monotonic_s() - self._since_s, 3)
            self._journal.write(SourceBack(since=self._since, seconds=seconds))
            self._refused_s = 0.0


def _named(error: TidemarkError, account: Account | None) -> TidemarkError:
    """An error about missing privileges, with the account and the statements that grant them.

    Any other error as it is.
    """
    if account is None or not isinstance(error, PrivilegesMissingError):
        return error
    return PrivilegesMissingError(
        f"The account {account.user} lacks privileges: {error.message}",
        detail="Committed data is complete. Nothing is lost as long as the source keeps its binlog.",
        hint="\n".join((GRANT_AND_CONTINUE, *account.grants)),
    )


def _cause(error: TidemarkError) -> Cause:
    if isinstance(error, PrivilegesMissingError):
        return "privileges"
    return "login" if isinstance(error, AccountRefusedError) else "unreachable"


def _given_up(error: TidemarkError, seconds: float) -> TidemarkError:
    waited = f"{seconds / 60:,.0f} minutes."
    if isinstance(error, AccountRefusedError):
        hint = error.hint.replace(GRANT_AND_CONTINUE, _GRANT_AND_START)
        return type(error)(error.message, detail=f"The source refused it for {waited} {error.detail}", hint=hint)
    return TransientError(
        error.message,
        detail=f"The source was away for {waited} The binlog at the committed position may be purged by now. "
        "Committed data is complete.",
        hint=f"{error.hint} Then run again: it continues from the last commit, or says that the binlog is purged.",
    )

"""Notices a Spark that does not answer: a stopped process, or one that hangs. Its jobs do not fail then; they wait.

One thread asks Spark something trivial, and waits for as long as the answer takes. Another one notices that it takes
too long. Only that is reported: a Spark that is gone breaks the connection, and the next job or epoch says so. While a
session starts there is nobody to ask; then its process is looked at.
"""

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from engine.base import clock, processes
from engine.base.errors import HelperError, TidemarkError
from engine.base.wording import utc_time
from engine.pipeline.helpers import SPARK, Helpers

if TYPE_CHECKING:
    from engine.spark.session import Session

_INTERVAL_S = 2.0
_PATIENCE_S = 8.0
_NOTHING_LOST = "Committed data is complete. Nothing is read until it answers, and the lag grows."


class SparkMonitor:
    """Asks a session until it is closed."""

    def __init__(self, session: "Session", helpers: Helpers) -> None:
        self._session = session
        self._helpers = helpers
        self._question: tuple[str, float] | None = None
        self._closing = threading.Event()
        for work, name in ((self._ask, "ask Spark"), (self._look, "Spark's answers")):
            threading.Thread(target=work, name=name, daemon=True).start()

    def close(self) -> None:
        """End the threads. Does not wait for them: Spark may not answer. Another session is not silent."""
        self._closing.set()
        self._helpers.ended(SPARK)

    def _ask(self) -> None:
        while not self._closing.wait(_INTERVAL_S):
            self._question = clock.utc_text(), clock.monotonic_s()
            with suppress(Exception):  # a lost session: its next job reports it
                self._session.ping()
            self._question = None

    def _look(self) -> None:
        while not self._closing.wait(_INTERVAL_S):
            self._helpers.guard(SPARK, self._require_answer)

    def _require_answer(self) -> None:
        """Raises HelperError if Spark has not answered for too long, and its process, if known, has not ended."""
        question, pid = self._question, self._session.driver_pid
        if question is None or clock.monotonic_s() - question[1] < _PATIENCE_S:
            return
        if pid is None or not processes.is_gone(pid):
            raise silence(self._session.master, pid, question[0])


class SparkStartMonitor:
    """Looks after a session that starts, until it is closed.

    failure: why the session before was lost; None for the first one.
    """

    def __init__(self, master: str, helpers: Helpers, failure: TidemarkError | None = None) -> None:
        self._master = master
        self._helpers = helpers
        self._failure = failure
        self._stopped_pid: int | None = None
        self._since = ""
        self._closing = threading.Event()
        self._look()
        self._thread = threading.Thread(target=self._watch, name="Spark's start", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread: the session has started, or its start has failed."""
        self._closing.set()
        self._thread.join()
        self._helpers.ended(SPARK)

    def _watch(self) -> None:
        while not self._closing.wait(_INTERVAL_S):
            self._look()

    def _look(self) -> None:
        """Report a JVM that a signal has stopped, or else that a session was lost."""
        pid = next(filter(processes.is_stopped, processes.children("java")), None)
        if pid != self._stopped_pid:
            self._helpers.ended(SPARK)
            self._stopped_pid = pid
            self._since = clock.utc_text()
        if pid is not None:
            self._helpers.failed(SPARK, silence(self._master, pid, self._since))
        elif self._failure is not None:
            self._helpers.failed(SPARK, restart(self._failure))


def restart(failure: TidemarkError) -> HelperError:
    """The error about a Spark that was lost and is being started again."""
    return HelperError(
        f"Spark is being started again: {failure.message}",
        detail=_NOTHING_LOST,
        hint="Nobody must act unless it lasts: the run continues by itself once Spark answers. If it lasts, look at "
        "the runner's log.",
    )


def silence(master: str, pid: int | None, since: str) -> HelperError:
    """The error about a Spark that does not answer. pid: of its driver, if that is on this host. since: UTC text."""
    unanswered = f"Spark does not answer since {utc_time(since)}"
    if pid is None:
        return HelperError(
            f"{unanswered}: the server at {master}.",
            detail=_NOTHING_LOST,
            hint="Look at that server: its process may be stopped, or its host overloaded. The run continues by itself "
            "once it answers or was restarted.",
        )
    end = f"kill -9 {pid}; the run then starts Spark again by itself, and continues from the last commit."
    if processes.is_stopped(pid):
        return HelperError(
            f"{unanswered}: its process {pid} on {socket.gethostname()} is stopped by a signal.",
            detail=_NOTHING_LOST,
            hint=f"Continue it: kill -CONT {pid}. Or end it: {end}",
        )
    return HelperError(
        f"{unanswered}: its process {pid} on {socket.gethostname()} hangs, or has no CPU time.",
        detail=_NOTHING_LOST,
        hint=f"Look for what uses the CPUs and the memory there. If it does not recover, end it: {end}",
    )

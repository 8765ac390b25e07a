"""The Spark session of a run (`engine.spark.session.open_session` opens it), and its replacement when it is lost.

A session is lost with its driver, its Connect server, or when the cluster ends the application. Committed data is safe;
running reads start again. The first start shows whether the spec is right, so its failure ends the run. Later starts
are retried with growing pauses for an hour. A session that lasted ten minutes resets the count.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, suppress
from typing import TYPE_CHECKING

from engine.base import clock
from engine.base.errors import SparkLostError, TidemarkError
from engine.journal import Journal
from engine.journal.events import ErrorReported
from engine.pipeline.helpers import Helpers
from engine.run.commands.heartbeat import Activity
from engine.run.commands.runner_state import StopSignal
from engine.run.monitors.spark_monitor import SparkMonitor, SparkStartMonitor

if TYPE_CHECKING:
    from engine.spark.driver_process import EarlyDriver
    from engine.spark.session import Session

PATIENCE_S = 3600.0
_LASTED_S = 600.0
_FIRST_S, _LONGEST_S = 1.0, 60.0


class EarlySession:
    """A session that starts before it is needed: that of a standby runner, whose takeover need not wait for it."""

    def __init__(self, open_session: "Callable[[], Session]") -> None:
        self._open = open_session
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="early spark")
        self._early: Future[Session] | None = self._pool.submit(open_session)

    def open(self) -> "Session":
        """The session, which may still be starting; a new one if that failed, and at each further call."""
        early, self._early = self._early, None
        if early is not None:
            with suppress(Exception):
                return early.result()
        return self._open()

    def close(self) -> None:
        """Stop the session if nobody has asked for it."""
        early, self._early = self._early, None
        if early is not None and not early.cancel() and early.exception() is None:
            early.result().stop()
        self._pool.shutdown()


class SparkSessions:
    """The session of a run. open_session: starts one, or raises. driver: its first JVM. Used by one thread."""

    def __init__(
        self,
        open_session: "Callable[[], Session]",
        state: StopSignal,
        activity: Activity,
        journal: Journal,
        helpers: Helpers,
        master: str,
        driver: "EarlyDriver | None" = None,
    ) -> None:
        self._open = open_session
        self._driver = driver
        self._master = master
        self._state = state
        self._activity = activity
        self._journal = journal
        self._helpers = helpers
        self._session: Session | None = None
        self._started_s = 0.0
        self._lost_s = 0.0
        self._tries = 0

    def open_first(self) -> "Session":
        """Start the first session; `use` makes it the current one. May run in another thread."""
        with closing(SparkStartMonitor(self._master, self._helpers)):
            return self._open()

    def use(self, session: "Session") -> "Session":
        """Make this the current session."""
        self._session = session
        self._started_s = clock.monotonic_s()
        self._activity.spark_ui = session.ui
        return session

    def watched(self, session: "Session") -> "AbstractContextManager[SparkMonitor]":
        """Meanwhile, a session that does not answer is reported."""
        return closing(SparkMonitor(session, self._helpers))

    def replace_lost(self, error: SparkLostError) -> "Session | None":
        """A new session in place of the lost one; None after a stop.

        Raises start errors that a retry cannot fix, and the last error after an hour.
        """
        if clock.monotonic_s() - self._started_s >= _LASTED_S:
            self._tries = 0
        if not self._tries:
            self._lost_s = clock.monotonic_s()
        with closing(SparkStartMonitor(self._master, self._helpers, error)):
            self.stop()
            return self._replaced(error)

    def _replaced(self, failure: TidemarkError) -> "Session | None":
        while not self._state.stopping:
            if clock.monotonic_s() - self._lost_s >= PATIENCE_S:
                raise failure
            self._tries += 1
            retry_s = min(_FIRST_S * 2 ** min(self._tries - 1, 10), _LONGEST_S)
            self._journal.write(ErrorReported.of(failure, attempt=self._tries, retry_in_s=retry_s))
            self._activity.waiting_for = "a new Spark session"
            self._wait(retry_s)
            try:
                if not self._state.stopping:
                    return self.use(self._open())
            except SparkLostError as cause:
                failure = cause
            except TidemarkError:
                raise
            except Exception as cause:  # noqa: BLE001 - the first start worked, so Spark is at fault
                failure = SparkLostError(
                    f"Spark could not be started again: {type(cause).__name__}: {cause}",
                    hint="Look at the runner's log.",
                )
            finally:
                self._activity.waiting_for = ""
        return None

    def _wait(self, seconds: float) -> None:
        until_s = clock.monotonic_s() + seconds
        while not self._state.stopping and (left_s := until_s - clock.monotonic_s()) > 0:
            self._state.wait(left_s)

    def end(self, first: "Future[Session]") -> None:
        """Stop the current session, or the first one, which may still be starting."""
        if self._started_s > 0:
            self.stop()
        elif not first.cancel():
            if self._driver is not None and not first.done():  # nobody waits for a session that nobody needs
                self._driver.kill()
            if first.exception() is None:
                with suppress(Exception):  # it may have opened at the moment when its JVM was ended
                    first.result().stop()

    def stop(self) -> None:
        """Stop the current session, if any."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):  # it may be dead already
                session.stop()

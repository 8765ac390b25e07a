"""What follows an epoch that failed: a wait for the disk or for the source, or the end of the run."""

from collections.abc import Callable

from engine.base.errors import AccountRefusedError, TidemarkError, TransientError
from engine.ledger.state import State
from engine.pipeline.disk import Disk
from engine.run.commands.runner_state import RunnerState
from engine.run.lifecycle.source_connection import SourceConnection
from engine.run.source_loss.outage import OutageTracker

FAILURES = (TransientError, AccountRefusedError, OSError)
"""The errors of an epoch that do not end the run at once."""


class EpochRetries:
    """The retries of one coordinator. committed: the committed state."""

    def __init__(
        self,
        connection: SourceConnection,
        away: OutageTracker,
        disk: Disk,
        state: RunnerState,
        committed: Callable[[], State],
    ) -> None:
        self._connection = connection
        self._away = away
        self._disk = disk
        self._state = state
        self._committed = committed

    def succeeded(self) -> None:
        """Record that an epoch was committed, or that there was nothing to commit."""
        self._away.epoch_done()
        self._disk.succeeded("log")

    def failed(self, error: TidemarkError | OSError) -> None:
        """Wait until another try makes sense; return early on a pause or a stop.

        Raises the error if the source stays away too long, if it persists while the source answers, or if connections
        are too few; and an OSError that is not of a disk.
        """
        if self._disk.takes(error):
            self._disk.failed("log", error)
        elif isinstance(error, OSError):
            raise error
        else:
            self._retry(error)

    def failed_last(self, error: TidemarkError | OSError) -> None:
        """Accept that the epoch of a stop failed for the disk or the source; the next run reads it again.

        Raises other errors.
        """
        if self._disk.takes(error):
            self._disk.failed("log", error)
        elif not self._away.now:
            raise error

    def _retry(self, error: TidemarkError) -> None:
        self._connection.require_enough(error)
        while self._state.running:
            self._state.wait(self._away.pause_after(error))
            if self._state.name != "running":
                return
            try:
                self._connection.reopen()
                with self._connection.turn():
                    self._connection.check(self._committed())
                break
            except (TransientError, AccountRefusedError) as again:
                error = again

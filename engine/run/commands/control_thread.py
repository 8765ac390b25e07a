"""The thread that takes commands and signals and writes the heartbeat; it never waits for Spark or the source.

No error ends it (`pipeline.helpers`).
"""

import signal
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from engine.base import clock
from engine.base.errors import ErrorRecord
from engine.journal import Journal
from engine.journal.events import RunEnded
from engine.pipeline.helpers import Helpers
from engine.pipeline.runner_file import HEARTBEAT_S
from engine.run.commands.command_intake import CommandIntake
from engine.run.commands.operator_settings import OperatorSettings
from engine.run.commands.run_display import RunDisplay
from engine.run.commands.runner_state import RunnerState
from engine.run.commands.second_signal import LEAVE_S, leave
from engine.run.source_loss.outage import OutageTracker

_INBOX_S = 0.2


class ControlThread:
    """Call `start` once the journal is open, and `finish` at the end.

    chores: called with each heartbeat, by the name under which a failure is reported.
    """

    def __init__(
        self,
        journal: Journal,
        state: RunnerState,
        intake: CommandIntake,
        settings: OperatorSettings,
        away: OutageTracker,
        helpers: Helpers,
        display: RunDisplay,
        chores: Mapping[str, Callable[[], object]],
    ) -> None:
        self._journal = journal
        self._state = state
        self._intake = intake
        self._settings = settings
        self._away = away
        self._helpers = helpers
        self._display = display
        self._chores = chores
        self._signal: int | None = None
        self._failed_listeners: set[str] = set()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="control", daemon=True)

    def start(self) -> None:
        """Start to poll the inbox and write the heartbeat; SIGTERM and SIGINT become a stop."""
        self._intake.begin()
        self._display.show()
        self._thread.start()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._signalled)

    def finish(self, error: ErrorRecord | None) -> None:
        """End the run, and show that in `runner.json`."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self._state.end()
        self._display.show_end(error)

    def _signalled(self, number: int, _: Any) -> None:
        """Only record the signal: the main thread may hold any lock when this runs."""
        if self._signal is not None:
            leave(128 + number, partial(self._left, 128 + number))
        self._signal = number

    def _left(self, code: int) -> None:
        self._closing.set()
        self._thread.join(LEAVE_S / 2)
        self._journal.write(RunEnded(outcome="stopped", exit_code=code))
        self._journal.flush()
        self._state.end()
        self._display.beat()

    def _loop(self) -> None:
        last_s = 0.0
        while not self._closing.wait(_INBOX_S):
            self._helpers.guard("inbox", self._take)
            self._helpers.guard("throttle", self._settings.end_throttle)
            self._away.look()
            if self._display.is_outdated:
                self._display.show()
            if clock.monotonic_s() - last_s >= HEARTBEAT_S:
                last_s = clock.monotonic_s()
                self._display.show()
                for name, chore in self._chores.items():
                    self._helpers.guard(name, chore)
            self._report_journal_failures()

    def _take(self) -> None:
        if self._signal is not None and self._state.name not in ("stopping", "ended"):
            self._state.apply("stop", f"signal {signal.Signals(self._signal).name}")
        self._intake.poll()

    def _report_journal_failures(self) -> None:
        """Report the journal's failures: it cannot report them itself, as its writers may hold any lock."""
        self._journal.flush()
        failures = dict(self._journal.failures)
        self._failed_listeners |= failures.keys()
        for name in list(self._failed_listeners):
            if name in failures:
                self._helpers.failed(name, failures[name])
            else:
                self._helpers.succeeded(name)

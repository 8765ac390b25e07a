"""The state of a run, as operators, signals and the throttle set it (`pipeline.state_machines`)."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Protocol

from engine.journal import Journal
from engine.journal.events import RunState
from engine.pipeline.state_machines import IllegalEventError, after


class StopSignal(Protocol):
    """What a component that waits must know of the run's state."""

    @property
    def stopping(self) -> bool:
        """Whether the run ends."""

    def wait(self, seconds: float) -> None:
        """Sleep; a change of state ends it early."""


class RunnerState:
    """The state of one run. Thread-safe.

    name: "starting", "running", "paused", "stopping" or "ended". reason: of the last change. stop_requested: whether
    the run was asked to stop. listeners: called after each event, outside the lock.
    """

    def __init__(self, journal: Journal, lock: AbstractContextManager[object]) -> None:
        """lock: held while the state changes; reentrant. Who holds it may check the state and change it in one."""
        self._journal = journal
        self._lock = lock
        self._wake = threading.Event()
        self.name = "starting"
        self.reason = ""
        self.stop_requested = False
        self.listeners: list[Callable[[], object]] = []

    def apply(self, event: str, reason: str = "") -> None:
        """Apply an event to the state. Raises IllegalEventError if the state does not allow it."""
        with self._lock:
            following = after(self.name, event)
            if following != self.name:
                self._journal.write(RunState(state=following, reason=reason))
                self.name = following
                self.reason = reason
                self.stop_requested |= event == "stop"
            self._wake.set()
        for listener in self.listeners:
            listener()

    def end(self) -> None:
        """Enter the last state, which no event leaves. The journal has an event of its own for it."""
        self.name = after(self.name, "end")

    def overloaded(self, reason: str) -> None:
        """Pause everything, until an operator resumes it, because the source is overloaded."""
        with suppress(IllegalEventError):  # already paused, or ending
            self.apply("pause", reason)

    def stop_unless_ending(self, reason: str) -> None:
        """Stop the run, if it does not end already."""
        with suppress(IllegalEventError):
            self.apply("stop", reason)

    def disk_full(self, reason: str) -> None:
        """Journal a pause until files can be written. The state itself stays as operators set it."""
        if self.running:
            self._journal.write(RunState(state="paused", reason=reason))
        self._wake.set()

    def disk_freed(self, reason: str) -> None:
        """Journal the end of that pause."""
        if self.running:
            self._journal.write(RunState(state="running", reason=reason))
        self._wake.set()

    @property
    def running(self) -> bool:
        return self.name == "running"

    @property
    def paused(self) -> bool:
        return self.name == "paused"

    @property
    def stopping(self) -> bool:
        return self.name == "stopping"

    def wait(self, seconds: float) -> None:
        """Sleep; a change of state, or `wake`, ends it early."""
        self._wake.wait(seconds)
        self._wake.clear()

    def wake(self) -> None:
        """End the current `wait`."""
        self._wake.set()

"""Steps of a start that a full disk only delays."""

from collections.abc import Callable
from typing import TypeVar

from engine.pipeline.disk import Disk
from engine.run.commands.runner_state import RunnerState

T = TypeVar("T")


class DiskRetries:
    """The steps of one run."""

    def __init__(self, disk: Disk, state: RunnerState) -> None:
        self._disk = disk
        self._state = state

    def run(self, name: str, step: Callable[[], T]) -> T:
        """The result of a step; waits while a disk is full, until a stop. name: under which a full disk is reported."""
        return self._disk.retry_when_full(name, step, lambda: self._state.stopping)

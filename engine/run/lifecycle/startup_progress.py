"""The steps of a start, for the heartbeat: an operator sees which one is under way, and how long each took."""

from collections.abc import Callable
from typing import TypeVar

from engine.base import clock
from engine.base.wording import duration
from engine.run.commands.heartbeat import Activity, CurrentStep

T = TypeVar("T")


class StartupProgress:
    """Runs the steps of a start. Steps may run in different threads, each once."""

    def __init__(self, activity: Activity, say: Callable[[str], None] | None = None) -> None:
        """say: called with a line when a step begins, and when it is done."""
        self._activity = activity
        self._say = say or (lambda _: None)

    def run(self, name: str, step: Callable[[], T]) -> T:
        """The result of a step. It stays unfinished if it fails: the run then ends with its error."""
        began_s = clock.monotonic_s()
        entry: CurrentStep = {"step": name, "since": clock.utc_text(), "seconds": None}
        self._activity.startup.append(entry)  # atomic, unlike building a new sequence
        self._say(f"starting: {name} …")
        result = step()
        entry["seconds"] = round(clock.monotonic_s() - began_s, 3)
        self._say(f"starting: {name} is done after {duration(entry['seconds'])}")
        return result

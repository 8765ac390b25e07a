"""A frozen runner: its process lives, but its heartbeat is old. `status`, alert and console share the words."""

from dataclasses import dataclass

from engine.base.wording import utc_time


@dataclass(frozen=True)
class FrozenRunner:
    """The process of a run that does not respond."""

    pid: int
    host: str
    since: str
    """The last heartbeat: UTC text."""
    stopped: bool
    """Whether a signal has stopped the process, as SIGSTOP and Ctrl-Z do. Otherwise it hangs, or cannot write."""

    @property
    def message(self) -> str:
        """What happened."""
        what = "is stopped by a signal, as Ctrl-Z sends it" if self.stopped else "is there, but does not respond"
        return f"Process {self.pid} on {self.host} {what}: no heartbeat since {utc_time(self.since)}."

    @property
    def detail(self) -> str:
        """What it means for the data."""
        return "Committed data is complete. Nothing is read now, and the lag grows."

    @property
    def hint(self) -> str:
        """What to do."""
        pid = self.pid
        if self.stopped:
            return (
                f"Continue it: kill -CONT {pid}. Or end it with kill -9 {pid}, then restart: "
                "it continues from the last commit."
            )
        return (
            "It hangs, or it cannot write to its folder: check the end of its log. If it does not recover, end it with "
            f"kill {pid}, or else kill -9 {pid}, then restart: it continues from the last commit."
        )

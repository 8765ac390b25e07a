"""A runner whose heartbeat is old: frozen if its process lives, gone if not, unseen if nobody here can know that.

`status`, alert and console share the words.
"""

from dataclasses import dataclass

from engine.base.wording import utc_time

GONE_HINT = (
    "Nothing has to be ended. Look at the end of the runner's log for the cause, then restart: the new run continues "
    "from the last commit."
)
"""What to do about a lost runner whose process has surely ended."""


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


@dataclass(frozen=True)
class UnseenRunner:
    """A run without heartbeats whose process cannot be seen from here: it has ended, or it is frozen."""

    pid: int
    host: str
    since: str
    """The last heartbeat: UTC text."""

    @property
    def message(self) -> str:
        """What is known."""
        return (
            f"The runner has sent no heartbeat since {utc_time(self.since)}. Its process {self.pid} is on {self.host}, "
            "which cannot be seen from here: it may have ended, hang or be stopped."
        )

    @property
    def detail(self) -> str:
        """What it means for the data."""
        return "Committed data is complete. Nothing has been reported since, and the lag probably grows."

    @property
    def hint(self) -> str:
        """What to do."""
        pid = self.pid
        return (
            f"Look on {self.host}: ps -o stat,args -p {pid}. If the process is gone, restart. If its state is T, "
            f"continue it with kill -CONT {pid}. If it hangs, end it with kill {pid}, or else kill -9 {pid}, then "
            "restart: the new run continues from the last commit."
        )

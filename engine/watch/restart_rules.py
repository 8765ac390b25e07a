"""Whether and when a runner is started again. Pure: the caller reads the files and the time.

A runner is started again only if all of this is true:

    asked      the spec has watch.restart = "on-failure"
    unwanted   nobody had asked the run to stop: `runner.json` says so, whatever killed it afterwards
    mendable   a restart can help: the run was lost, or failed with exit code 1 and not by an error of `_NEEDS_OPERATOR`
    here       the run was on this host, and no standby runner waits, which would take over
    allowed    the last hour had fewer than watch.max_restarts_per_hour restarts

Nothing here keeps a second runner out. The pipeline's lock and term do that: a runner that finds another one ends with
exit code 5.
"""

from dataclasses import dataclass

from engine.base.errors import ERRORS, ErrorRecord, TidemarkError
from engine.base.exit_codes import NEEDS_OPERATOR
from engine.base.wording import plural
from engine.pipeline.runner_record import RunnerRecord
from engine.spec.watch_settings import Watch

HOUR_S = 3600.0
_NEEDS_OPERATOR = ("LedgerError", "NewerFormatError", "TablesStoppedError", "ChunksParkedError")
"""Errors with exit code 1 that come back until an operator has acted."""


@dataclass(frozen=True)
class Death:
    """A run that has ended without having been asked to."""

    run: str
    host: str
    pid: int
    lost: bool
    """Whether its heartbeat stopped without an end of the run."""
    last_seen: str
    """The last heartbeat: UTC text."""
    error: str
    """The class of the error that ended it; empty if it was lost."""
    message: str

    @property
    def why(self) -> str:
        """What became of it, in words."""
        return "the runner was lost" if self.lost else f"the run failed: {self.message}"


def death_of(runner: RunnerRecord | None) -> Death | None:
    """What became of a run; None while it lives, and if it ended as asked.

    runner: `engine.pipeline.runner_file.read_runner`.
    """
    if runner is None or runner.alive:
        return None
    is_lost, error = runner.state != "ended", runner.error or ErrorRecord()
    if not is_lost and (runner.error is None or asked_to_stop(runner)):
        return None
    return Death(
        runner.run,
        runner.host or "",
        runner.pid or 0,
        is_lost,
        runner.heartbeat,
        "" if is_lost else error.error,
        "" if is_lost else error.message,
    )


def asked_to_stop(runner: RunnerRecord) -> bool:
    """Whether an operator or a signal had asked the run to stop."""
    return runner.stop or runner.state == "stopping"


def not_mendable(death: Death) -> str:
    """Why a restart cannot help after this end; empty if it may."""
    if death.lost:
        return ""
    code = ERRORS.get(death.error, TidemarkError).exit_code
    if code != 1:
        return after_code(code)
    return f"{death.error} needs an operator" if death.error in _NEEDS_OPERATOR else ""


def after_code(code: int) -> str:
    """Why a restart cannot help after this exit code; empty if it may. A signal has a negative code."""
    return f"exit code {code}: {NEEDS_OPERATOR[code]}" if code in NEEDS_OPERATOR else ""


def limit_reached(settings: Watch, within_hour: int) -> str:
    """Why there is no further restart within this hour; empty if there may be one."""
    if within_hour < settings.max_restarts_per_hour:
        return ""
    return f"it was restarted {plural(within_hour, 'time')} within an hour"


def delay_s(settings: Watch, within_hour: int) -> float:
    """The pause before the next restart: it doubles with each one of the last hour."""
    doubled = settings.first_delay_s * 2.0 ** min(within_hour, 64)
    return min(doubled, settings.longest_delay_s)

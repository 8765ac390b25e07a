"""What the watchdog will do about a runner that is gone, for `status` and the console."""

from contextlib import suppress
from dataclasses import dataclass

from engine.pipeline.directory import Directory
from engine.pipeline.runner_record import RunnerRecord
from engine.watch.record import read_record
from engine.watch.restart_rules import HOUR_S, death_of
from engine.watch.stop_requests import waiting_stop


@dataclass(frozen=True)
class WatchStatus:
    """What the watchdog does about a runner that is gone."""

    due: str | None
    """When it starts the runner again: UTC text; None if it does not."""
    down: str | None
    """Why it does not; None if it does."""
    restarts_within_hour: int


def as_status(directory: Directory, runner: RunnerRecord | None) -> WatchStatus | None:
    """What the watchdog will do about the newest run; None if nothing.

    A stop counts from the moment at which it is sent, also if no watchdog looks. runner:
    `engine.pipeline.runner_file.read_runner`.
    """
    with suppress(Exception):
        death, record = death_of(runner), read_record(directory)
        if death is None:
            return None
        stop = waiting_stop(directory, record, death.run)
        due, down = (record.due, record.down) if record.run == death.run else ("", "")
        if stop is not None:
            due, down = "", down or stop.why
        if due or down:
            recent = sum(one.age_s < HOUR_S for one in record.restarts)
            return WatchStatus(due or None, down or None, recent)
    return None

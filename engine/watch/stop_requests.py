"""Commands to stop that no runner took: they also cancel the restart of the runner that they were meant for.

A `stop` names the run that its sender saw. If that run was killed before it took the command, or was gone already, the
command waits in the inbox. No clock decides: a stop is for the lost run if it names that run, or an earlier one of the
same series of restarts. A runner that a watchdog has launched obeys such a stop too, which may have come while it
started.
"""

import json
import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.base.wording import utc_time
from engine.journal.events import CommandAccepted, CommandDone
from engine.pipeline import formats
from engine.pipeline.command_queue import keep_answered
from engine.pipeline.directory import Directory
from engine.pipeline.runner_record import RunnerRecord
from engine.spec.watch_settings import Watch
from engine.watch.record import WatchRecord, read_record
from engine.watch.restart_rules import HOUR_S, asked_to_stop, death_of, not_mendable


@dataclass(frozen=True)
class StopRequest:
    """A `stop` in the inbox."""

    path: Path
    identity: str
    actor: str
    reason: str
    sent: str
    """UTC text; empty if unknown."""

    @property
    def why(self) -> str:
        """Who wants the pipeline to stay down, and why."""
        at = f" at {utc_time(self.sent)}" if self.sent else ""
        return f"{self.actor or 'somebody'} asked it to stop{at}{f': {self.reason}' if self.reason else ''}"

    def answers(self) -> tuple[CommandAccepted, CommandDone]:
        """For the journal of the run that was meant."""
        what = "no restart of the runner"
        accepted = CommandAccepted(id=self.identity, verb="stop", actor=self.actor, reason=self.reason, what=what)
        return accepted, CommandDone(id=self.identity, verb="stop", duration_s=0.0)

    def put_away(self) -> None:
        """Move the command to those that were carried out. It stays if that fails: the next run refuses it."""
        with suppress(OSError):
            keep_answered(self.path, "done", self.identity)


def waiting_stop(directory: Directory, record: WatchRecord, run: str) -> StopRequest | None:
    """The first `stop` in the inbox that is meant for a run that is gone; None if there is none."""
    meant = {run, *_series(record)}
    paths = sorted(directory.inbox.glob("*.json"), key=lambda path: path.name)
    return next((one for path in paths if (one := _read(path, run, meant)) is not None), None)


def runs_restarted_by(directory: Directory) -> Collection[str]:
    """The runs whose series of restarts this process continues; none if no watchdog has launched it."""
    with suppress(Exception):  # it decides only which stops are obeyed
        record = read_record(directory)
        if any(one.pid == os.getpid() and one.starting for one in record.restarts):
            return _series(record)
    return frozenset()


def restart_pending(directory: Directory, settings: Watch, runner: RunnerRecord | None) -> bool:
    """Whether a watchdog restarts the runner, now or when one looks.

    runner: `engine.pipeline.runner_file.find_runner`.
    """
    death = death_of(runner)
    if runner is None or death is None or settings.restart == "never" or asked_to_stop(runner) or not_mendable(death):
        return False
    record = read_record(directory)
    return not (record.run == death.run and record.down)


def _series(record: WatchRecord) -> frozenset[str]:
    return frozenset(one.run for one in record.restarts if one.age_s < HOUR_S)


def _read(path: Path, run: str, meant: Collection[str]) -> StopRequest | None:
    with suppress(OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        record = json.loads(path.read_text(encoding="utf-8"))
        readable = formats.version_of(record) <= formats.VERSIONS["command"]
        # One that was written by hand names no run.
        if readable and record["verb"] == "stop" and record.get("run", run) in meant:
            actor, reason, sent = (str(record.get(name) or "") for name in ("actor", "reason", "sent"))
            return StopRequest(path, str(record["id"]), actor, reason, sent)
    return None

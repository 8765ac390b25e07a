"""Reads `runner.json`: whether a runner lives, and what it says of itself. `run.commands.heartbeat` writes it."""

import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.base import clock, processes
from engine.pipeline import formats
from engine.pipeline.directory import Directory
from engine.pipeline.frozen_runner import FrozenRunner, UnseenRunner
from engine.pipeline.runner_record import RunnerRecord

HEARTBEAT_S = 1.0
"""How often a runner rewrites `runner.json`."""
HEARTBEAT_STALE_S = 10.0
"""A runner with an older heartbeat is frozen or gone. A heartbeat may be seconds late on an overloaded machine."""
_LOOKS, _LOOK_S = 5, 0.02
_SECOND_LOOK_S = 2.5
_SEEN: dict[Path, tuple[tuple[Any, Any], float, bool]] = {}
"""By `runner.json`: run and beat, when this process first saw them (`clock.monotonic_s`), whether it saw an earlier
beat."""


def read_runner(directory: Directory) -> RunnerRecord | None:
    """The newest run of a pipeline; None if there never was a runner.

    On the runner's own machine no wall clock is used. `alive` is whether its process lives (from another container:
    whether the heartbeat is fresh), and the age is by the clock that all processes of the machine share
    (`engine.base.processes`). On other machines the wall clocks are compared, with a tolerance of `HEARTBEAT_STALE_S`
    either way. A runner whose clock differs by more is alive if a second look, at least `HEARTBEAT_S` later, finds a
    newer heartbeat (`find_runner` looks twice). A runner that has reported its end is not alive. A runner whose process
    lives on this machine is `frozen` if its heartbeat is older than `HEARTBEAT_STALE_S`. One that is neither alive nor
    surely gone is `unseen`: its process, on another machine or in another container, may be frozen too.
    """
    content = runner_json(directory.runner)
    if content is None:
        return None
    formats.check("runner", content, directory.runner)
    record = RunnerRecord.from_json(content)
    moved = _beats(directory.runner, record)
    age_s, lives = processes.age_s(record.process), None
    if age_s is None:
        age_s = (clock.utc_now() - clock.parse_utc(record.heartbeat)).total_seconds()
    elif record.pid is not None:
        lives = processes.lives(record.pid, record.process)
    stale_s = HEARTBEAT_STALE_S + float(content.get("renewed_every_s") or 0.0)  # of a state in a bucket
    fresh = -HEARTBEAT_STALE_S < age_s < stale_s or moved
    alive = record.state != "ended" and (fresh if lives is None else lives)
    frozen = _frozen(record) if alive and lives and age_s >= stale_s else None
    record = replace(record, heartbeat_age_s=round(max(age_s, 0.0), 3), alive=alive, frozen=frozen)
    return record if alive else replace(record, unseen=_unseen(record))


def _frozen(record: RunnerRecord) -> FrozenRunner:
    pid = record.pid or 0
    return FrozenRunner(pid, record.host or "", record.heartbeat, processes.is_stopped(pid))


def _unseen(record: RunnerRecord) -> UnseenRunner | None:
    if surely_gone(record) or record.pid is None or not record.host:
        return None
    return UnseenRunner(record.pid, record.host, record.heartbeat)


def find_runner(directory: Directory) -> RunnerRecord | None:
    """`read_runner`.

    If only the clocks of two machines say that the runner is gone, look again after `_SECOND_LOOK_S`.
    """
    record = read_runner(directory)
    if record is None or record.alive or record.state == "ended":
        return record
    if processes.age_s(record.process) is not None:
        return record
    clock.sleep(_SECOND_LOOK_S)
    return read_runner(directory)


def surely_gone(runner: RunnerRecord) -> bool:
    """Whether the process of a run has surely ended, so that nobody else writes its files."""
    if runner.state == "ended" or processes.lives(runner.pid or 0, runner.process) is False:
        return True
    rebooted = runner.process.get("boot") not in (None, processes.here()["boot"])
    return rebooted and runner.host == socket.gethostname() and (runner.heartbeat_age_s or 0.0) > HEARTBEAT_STALE_S


def _beats(path: Path, record: RunnerRecord) -> bool:
    """Whether this process saw the heartbeat advance, and its last look was recent."""
    now_s, this = clock.monotonic_s(), (record.run, record.beat)
    look = _SEEN.get(path)
    if look is None or look[0] != this:
        _SEEN[path] = look = (this, now_s, look is not None and look[0][0] == this[0])
    return look[2] and now_s - look[1] < HEARTBEAT_STALE_S


def runner_json(path: Path) -> dict[str, Any] | None:
    """The content of `runner.json`, as it is; None if there is none. Raises ValueError if it stays unreadable."""
    for attempt in range(_LOOKS):
        try:
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:  # being overwritten, on a full disk
            if attempt == _LOOKS - 1:
                raise
            clock.sleep(_LOOK_S)
        else:
            return record
    return None

"""Who may run a pipeline: the lock, the heartbeat without a lock, and standby."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.base import durable
from engine.base.durable import write_atomically
from engine.base.errors import PipelineHeldError
from engine.pipeline import pipeline_lock
from engine.pipeline.directory import Directory
from engine.pipeline.pipeline_lock import held, standing_by
from engine.pipeline.saved_lists import read_standbys


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Directory:
    """An empty pipeline with short leases."""
    monkeypatch.setattr(pipeline_lock, "LEASE_S", 0.8)
    monkeypatch.setattr(pipeline_lock, "_LOOK_S", 0.05)
    return Directory(tmp_path)


@contextmanager
def beating(directory: Directory, **fields: Any) -> Iterator[None]:
    """The heartbeat of a runner on another host."""
    ended = threading.Event()

    def beat() -> None:
        number = 0
        while not ended.wait(0.05):
            number += 1
            record = {"run": "r", "pid": 1, "host": "elsewhere", "state": "running", "heartbeat": str(number), **fields}
            write_atomically(directory.runner, json.dumps(record))

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        while not directory.runner.exists():
            time.sleep(0.01)
        yield
    finally:
        ended.set()
        thread.join()


def test_a_lock_keeps_a_second_runner_out(directory: Directory) -> None:
    """At once, with an error that names the remedy."""
    with held(directory), pytest.raises(PipelineHeldError, match="holds its lock") as raised, held(directory):
        pass
    assert "--standby" in raised.value.hint
    with held(directory):
        pass


def test_a_heartbeat_keeps_a_second_runner_out_where_there_is_no_lock(directory: Directory) -> None:
    """The lock file was deleted, or the file system has no locks; the other host's clock does not matter."""
    with beating(directory), pytest.raises(PipelineHeldError, match="run r on elsewhere"), held(directory):
        pass
    with held(directory):
        pass


def test_a_runner_that_is_dead_on_this_machine_is_not_waited_for(directory: Directory) -> None:
    """Nor one whose pid belongs to another process now."""
    with subprocess.Popen(["sleep", "60"]) as other, subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
        for pid in (gone.pid, os.getpid(), other.pid):
            _starts_at_once(directory, pid)
        other.kill()


def _starts_at_once(directory: Directory, pid: int) -> None:
    record = {"run": "r", "pid": pid, "host": socket.gethostname(), "state": "running", "heartbeat": "x"}
    write_atomically(directory.runner, json.dumps(record))
    began = time.monotonic()
    with held(directory):
        assert time.monotonic() - began < 0.5


def test_a_standby_takes_over_when_the_lease_ends(directory: Directory) -> None:
    """It reports that it waits, and why; then it becomes the runner."""
    why: list[str] = []
    taken = threading.Event()

    def stand_by() -> None:
        with ExitStack() as waiting:
            waiting.enter_context(standing_by(directory))
            with held(directory, standby=True, report=why.append):
                waiting.close()
                taken.set()

    with beating(directory):
        thread = threading.Thread(target=stand_by)
        thread.start()
        while not why:
            time.sleep(0.01)
        assert [found.pid for found in read_standbys(directory)] == [os.getpid()]
        assert not taken.is_set()
    thread.join(10)
    assert taken.is_set()
    assert read_standbys(directory) == []
    assert "elsewhere" in why[0]


@pytest.mark.parametrize("is_there", [False, True])
def test_a_power_cut_does_not_take_the_folder_of_a_first_run(
    tmp_path: Path, is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is synced before the run creates anything elsewhere, whoever has made it."""
    synced = list[Path]()
    monkeypatch.setattr(pipeline_lock, "sync_folder", synced.append)
    monkeypatch.setattr(durable, "sync_folder", synced.append)
    directory = Directory(tmp_path / "home" / "shop")
    if is_there:
        directory.root.mkdir(parents=True)
    with held(directory):
        assert directory.root.parent in synced
        assert is_there or tmp_path in synced

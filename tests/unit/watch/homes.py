"""A folder with one pipeline whose runner is gone, for the tests of the watchdog."""

import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engine import __main__ as _verbs  # noqa: F401 - registers them
from engine.base import clock, processes
from engine.base.durable import write_atomically
from engine.pipeline.directory import Directory
from engine.pipeline.remote_state.host_pipelines import pipelines_in
from engine.watch import watchdog
from engine.watch.watchdog import Watchdog
from tests.support.patience import PATIENCE_S

SPEC = """
name = "shop"
[source]
host = "127.0.0.1"
user = "u"
tables = ["s.t"]
[sink]
type = "delta"
path = "lake"
[alerts]
webhook_env = "TIDEMARK_TEST_HOOK"
[watch]
"""
BROKEN = '[alerts.routes.broken]\ntype = "webhook"\nurl_file = "no-such-file"\n'
ON_FAILURE = 'restart = "on-failure"\nfirst_delay_s = 0\n'


class Home:
    """A folder with one pipeline whose runner is gone, and the programs that are launched instead of runners."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.where = folder, Directory(folder / "shop")
        self.said: list[str] = []
        self.launched: list[subprocess.Popen[bytes]] = []
        self.program = ["sleep", "600"]
        self._dogs: list[Watchdog] = []
        self._lock = threading.Lock()
        monkeypatch.setattr(watchdog, "launch", self._launch)

    def _launch(self, spec: Path, where: Directory, *, until: str | None = None) -> subprocess.Popen[bytes]:
        with self._lock:
            self.launched.append(subprocess.Popen([*self.program, *([until] if until else [])]))
            return self.launched[-1]

    def spec(self, watch: str = "") -> None:
        """Write the spec."""
        self.where.journals.mkdir(parents=True, exist_ok=True)
        self.where.spec.write_text(SPEC + watch)

    def gone(self, run: str = "r1", state: str = "running", *, until: str | None = None, **more: Any) -> None:
        """Leave the files of a run whose process has ended."""
        with subprocess.Popen(["sleep", "600"]) as process:
            seen = processes.of(process.pid)
            process.kill()
        self.runner(run, state, pid=process.pid, process=seen, **more)
        self._begun(run, until)

    def _begun(self, run: str, until: str | None = None) -> None:
        started = {"run": run, "seq": 1, "ts": clock.utc_text(), "event": "run.started", "until": until}
        self.where.journal(run).write_text(json.dumps(started) + "\n")

    @contextmanager
    def frozen(self, run: str = "r1") -> Iterator[Callable[[float], None]]:
        """A live process as the runner; the function writes a heartbeat of an age in seconds."""
        with subprocess.Popen(["sleep", "600"]) as process:
            now = processes.of(process.pid)

            def beat(age_s: float) -> None:
                seen = {**now, "monotonic_s": clock.monotonic_s() - age_s}
                self.runner(run, "running", pid=process.pid, process=seen)

            beat(0.0)
            self._begun(run)
            try:
                yield beat
            finally:
                process.kill()

    def elsewhere(self, run: str = "r1", state: str = "running", *, age_s: float = 0.0, **more: Any) -> None:
        """Show the heartbeat of a run on another host, of this age."""
        beat = clock.utc_text(clock.utc_now() - timedelta(seconds=age_s))
        self.runner(run, state, host="another", heartbeat=beat, **more)

    def runner(self, run: str, state: str, **more: Any) -> None:
        """Write `runner.json`."""
        record = {"format": 1, "run": run, "pid": 7, "process": {}, "state": state, "error": None, "phase": "streaming"}
        record |= {"host": socket.gethostname(), "heartbeat": clock.utc_text(), **more}
        write_atomically(self.where.runner, json.dumps(record))

    def watchdog(self) -> Watchdog:
        """A watchdog."""
        self._dogs.append(
            Watchdog(lambda: pipelines_in(self.folder), lambda name, what: self.said.append(f"{name}: {what}"))
        )
        return self._dogs[-1]

    def events(self, run: str = "r1") -> list[dict[str, Any]]:
        """The journal of a run without its first line."""
        return [json.loads(line) for line in self.where.journal(run).read_text().splitlines()[1:]]

    def close(self) -> None:
        for dog in self._dogs:
            dog.close()  # what it posts would reach the webhook of the next test
        for one in self.launched:
            one.kill()
            one.wait()


def until(state: Callable[[], object], step: Callable[[], object]) -> None:
    """Repeat a step until the state is there."""
    deadline = time.monotonic() + PATIENCE_S
    while not state():
        assert time.monotonic() < deadline
        step()
        time.sleep(0.01)

"""``python -m tests.tools.demo_pipeline HOME``: the demo as a pipeline among others.

The console's *Load the demo* starts it.

It starts a private server, fills it, keeps writing to it, and adds the pipeline `demo` to the folder of pipelines, with
its runner. Each line of the output is a step; the last one is `READY`. When the file `.demo/end` appears, or the
process that started it ends, the runner, the server and the pipeline's folder are removed. One demo at a time: it holds
a lock on `.demo/lock`.
"""

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from engine.pipeline.directory import Directory
from engine.pipeline.launch import launch
from engine.pipeline.runner_file import read_runner
from tests.live.support.workload import Workload
from tests.servers import FLAVORS, PASSWORD, Server, start
from tests.servers.binaries import find, installed
from tests.support.patience import PATIENCE_S
from tests.tools.demo import DATABASE, ORDERS, fill, spec_text, stop_runner

NAME, READY = "demo", "Ready"
ROWS, RATE = 300_000, 100.0


def say(step: str) -> None:
    """Print a step as it begins."""
    print(step, flush=True)


def missing() -> list[str]:
    """The programs that the demo needs and this machine lacks."""
    java = Path(os.environ["JAVA_HOME"], "bin/java") if "JAVA_HOME" in os.environ else "java"
    programs = {"Java": java, "setpriv": "setpriv"}
    found = [name for name, program in programs.items() if shutil.which(program) is None]
    return found if any(map(installed, FLAVORS)) else ["MySQL or MariaDB", *found]


@contextmanager
def added(home: Path, rows: int = ROWS) -> Iterator[Server]:
    """The server of the demo's pipeline, which has a runner; at the end nothing of it is left."""
    where = Directory(home / NAME)
    flavor = next(filter(installed, FLAVORS))
    program = find(flavor)
    with ExitStack() as stack:
        say(f"Start a private {'MySQL' if flavor == 'mysql' else 'MariaDB'} {program.version}")
        server = stack.enter_context(start(flavor, event_scheduler="ON"))
        say(f"Fill three tables: {rows:,} orders, 50,000 customers, 5,000 products")
        fill(server, rows)
        say(f"Write {RATE:g} transactions a second to 127.0.0.1:{server.port}")
        stack.enter_context(Workload(server, DATABASE, ORDERS, seed=1, rate=RATE, connections=2))
        say("Start the runner of the pipeline demo")
        where.root.mkdir()
        stack.callback(shutil.rmtree, where.root, ignore_errors=True)
        password = where.root / "password"
        password.touch(0o600)
        password.write_text(PASSWORD)
        where.spec.write_text(spec_text(NAME, server, 'password_file = "password"'))
        runner = launch(where.spec, where)
        stack.callback(reap, runner)
        stack.callback(stop_runner, where.spec)
        deadline = time.monotonic() + PATIENCE_S
        while read_runner(where) is None and runner.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        yield server


def reap(runner: "subprocess.Popen[bytes]") -> None:
    """Wait for a runner that was told to stop; kill it if it does not."""
    try:
        runner.wait(10)
    except subprocess.TimeoutExpired:
        runner.kill()
        runner.wait()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Run the demo until its end. Returns 1 if it cannot start, with the reason as the last line."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.demo_pipeline", description="The demo as a pipeline.")
    parser.add_argument("home", type=Path, help="the folder of pipelines")
    home, parent = parser.parse_args().home, os.getppid()
    signal.signal(signal.SIGTERM, _interrupt)
    here = home / ".demo"
    here.mkdir(parents=True, exist_ok=True)
    with (here / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("A demo is running already.")
            return 1
        (here / "end").unlink(missing_ok=True)
        if lacks := missing():
            say(f"Not on this machine: {', '.join(lacks)}.")
            return 1
        if (home / NAME).exists():
            say(f"There is a folder {home / NAME} already. Move it away first.")
            return 1
        try:
            with added(home) as server:
                say(READY)
                while server.alive and os.getppid() == parent and not (here / "end").exists():
                    time.sleep(0.5)
                if not server.alive:
                    say("The server has ended.")
                    return 1
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

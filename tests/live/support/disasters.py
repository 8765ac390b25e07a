"""Disasters of a pipeline, and how an operator ends them: by what the errors say."""

import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from engine.store.folder import Folder
from tests.live.support.change_log import change_log_faults
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.keyed import KEYED, KeyedWriter
from tests.live.support.pipeline import ROOT, Pipeline, Runner
from tests.powercut.cut import PowerCut, compiled
from tests.servers import Server
from tests.support.delta import rows_at
from tests.support.patience import PATIENCE_S

NAMES, ROWS, WRITTEN, CHUNK_ROWS = ("falling", "general", "ranked"), 400, 500, 150
_ROUNDS = 6


@dataclass
class World:
    """A pipeline, its source, a random generator, and whether the change logs are still complete."""

    server: Server
    database: str
    pipeline: Pipeline
    place: Folder
    """The lake."""
    lake: Path
    """The folder with its files; a bucket's store keeps them in one, too."""
    chance: random.Random
    gaps: bool = False
    said: list[str] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.pipeline.home

    def mirror(self, name: str) -> Folder:
        """A table."""
        return self.place / self.database / name

    def delta(self, name: str) -> DeltaTable:
        """A table of the lake as other programs open it, such as `ranked` or `ranked__changes`."""
        folder = self.mirror(name)
        return DeltaTable(folder.url, storage_options=dict(folder.options) or None)

    def start(self, **environment: str) -> Runner:
        """Start a runner and wait until it streams."""
        known = len(self.pipeline.events("table.state"))
        runner = self.pipeline.start(environment=environment)

        def streams() -> bool:
            return any(e["state"] == "streaming" for e in self.pipeline.events("table.state")[known:])

        self.pipeline.wait_for(streams, runner)
        return runner

    def kill(self, runner: Runner) -> None:
        runner.kill()
        runner.wait()

    def run(self) -> CompletedProcess[str]:
        result = self.pipeline.command("run", "--until", "caught-up")
        self.said.append(f"exit {result.returncode}: {result.stdout[-1500:]}{result.stderr[-1500:]}")
        return result

    def settle(self) -> None:
        """Run until caught up with the source, and apply the remedy of each error.

        Fails if the remedy does not work.
        """
        for _ in range(_ROUNDS):
            result = self.run()
            if result.returncode == 0:
                return
            advice = " ".join((result.stdout + result.stderr).split())
            assert result.returncode in (1, 4, 5, 7), self.said
            if result.returncode == 5:
                time.sleep(2.0)
                continue
            self.gaps = True
            if "redump SPEC --all" in advice:
                self.pipeline.command("redump", "--all")
            else:
                tables = sorted(set(re.findall(r"--table (\S+?)[,.)]?(?= |$)", advice)))
                assert tables, f"nothing says what to do: {self.said}"
                self.pipeline.command("redump", *(word for name in tables for word in ("--table", name)))
        raise AssertionError(self.said)

    def check(self) -> None:
        """Assert that mirrors and change logs are right."""
        for name in NAMES:
            try:
                assert_equal(
                    source_table(self.server, self.database, name), rows_at(self.mirror(name)), KEYED[name].names
                )
            except AssertionError as error:
                raise AssertionError(name, self.said) from error
            # A row that moves into a chunk which is not copied yet leaves the log with its before-image, and comes by
            # the copy.
            log = rows_at(self.mirror(f"{name}__changes"))
            faults = change_log_faults(
                log, rows_at(self.mirror(name)), name, whole=not self.gaps and not KEYED[name].moves
            )
            assert not faults, (name, faults, self.said)


def killed(world: World) -> None:
    """Kill the runner at a random instant."""
    runner = world.start()
    time.sleep(world.chance.uniform(0.5, 3.0))
    world.kill(runner)


def older_ledger(world: World) -> None:
    """Replace the pipeline's folder by an older copy."""
    runner = world.start()
    copy = world.pipeline.folder / "older"
    shutil.copytree(world.home, copy, symlinks=True)
    time.sleep(3.0)
    world.kill(runner)
    _delete(world.home)
    copy.rename(world.home)


def older_lake(world: World) -> None:
    """Replace the lake by an older copy."""
    runner = world.start()
    world.kill(runner)
    world.run()
    copy = world.pipeline.folder / "older"
    shutil.copytree(world.lake, copy, symlinks=True)
    runner = world.start()
    time.sleep(3.0)
    world.kill(runner)
    _delete(world.lake)
    copy.rename(world.lake)
    world.gaps = True  # its change logs are older, too


def backed_up(world: World) -> None:
    """Make a backup during a run, and restore it later."""
    runner = world.start()
    time.sleep(1.0)
    made = world.pipeline.command("backup", str(world.pipeline.folder / "backup.zip"))
    assert made.returncode == 0, made.stderr
    refused = world.pipeline.command("restore", str(world.pipeline.folder / "backup.zip"))
    assert refused.returncode == 5, "a runner lives"
    time.sleep(2.0)
    world.kill(runner)
    verified = world.pipeline.home / "verify"
    verified.mkdir(exist_ok=True)
    put_back = world.pipeline.command("restore", str(world.pipeline.folder / "backup.zip"))
    assert put_back.returncode == 0, put_back.stderr
    assert not verified.exists(), "it was about later versions"
    result = world.run()
    assert result.returncode == 0, world.said


def without_lock(world: World) -> None:
    """Delete the lock file.

    A second runner is refused while the first is alive, and takes over when the first hangs.
    """
    first = world.start()
    (world.home / "runner.lock").unlink()
    assert world.run().returncode == 5
    first.send_signal(signal.SIGSTOP)
    try:
        second = world.pipeline.start("--standby")
        (world.home / "runner.lock").unlink(missing_ok=True)
        known = len(world.pipeline.events("run.connected"))
        world.pipeline.wait_for(lambda: len(world.pipeline.events("run.connected")) > known, second, 180)
    finally:
        first.send_signal(signal.SIGCONT)
    assert first.wait(timeout=PATIENCE_S) == 5, "the older runner stops"
    world.kill(second)


def copied_folder(world: World) -> None:
    """Let a copy of the pipeline's folder publish to the same lake while the runner is alive."""
    runner = world.start()
    folder = world.pipeline.folder / f"copied-{world.chance.random()}"
    folder.mkdir()
    shutil.copytree(world.home, folder / "shop", symlinks=True)
    shutil.copy(world.pipeline.spec, folder / "shop.toml")
    if world.chance.random() < 0.5:
        time.sleep(2.0)
    copy = subprocess.run(
        [sys.executable, "-m", "engine", "run", str(folder / "shop.toml"), "--until", "caught-up"],
        cwd=ROOT,
        env=dict(world.pipeline.environment),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert copy.returncode in (0, 5, 7), copy.stdout + copy.stderr
    with suppress(subprocess.TimeoutExpired):
        assert runner.wait(timeout=5) == 5, "it may only be overtaken"
    world.gaps = True
    world.kill(runner)


def cleaned(world: World) -> None:
    """Run a full VACUUM without retention again and again."""
    runner = world.start()
    for _ in range(4):
        for name in (*NAMES, *(f"{name}__changes" for name in NAMES)):
            with suppress(DeltaError, OSError):
                world.delta(name).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
        time.sleep(0.3)
    world.gaps = True
    world.kill(runner)


def other_writers(world: World) -> None:
    """Run OPTIMIZE from another writer."""
    runner = world.start()
    for _ in range(3):
        for name in NAMES:
            with suppress(DeltaError, OSError):
                world.delta(name).optimize.compact()
        time.sleep(0.3)
    world.kill(runner)


def removed_folder(world: World) -> None:
    """Remove the folder of a table."""
    runner = world.start()
    world.kill(runner)
    _delete(world.lake / world.database / world.chance.choice(NAMES))


def source_away(world: World) -> None:
    """Kill the source and start it again."""
    runner = world.start()
    world.server.kill()
    time.sleep(world.chance.uniform(1.0, 8.0))
    world.server.restart()
    world.pipeline.wait_for(lambda: world.pipeline.events("source.lag")[-1]["ts"] > _now(), runner, 120)
    world.kill(runner)


def clock_jumps(world: World) -> None:
    """Set the runner's clock a day ahead, then back by two: it still takes commands, and the next run continues."""
    jump = world.pipeline.folder / "jump"
    jump.write_text("86400")
    runner = world.start(LD_PRELOAD=str(compiled("clock.c")), CLOCK_OFFSET_FILE=str(jump))
    time.sleep(1.0)
    jump.write_text("-86400")
    time.sleep(1.0)
    for verb in ("pause", "resume", "stop"):
        sent = world.pipeline.command(verb)
        assert sent.returncode == 0, (verb, sent.stdout, sent.stderr)
    assert runner.wait(120) == 0, world.pipeline.output[-3000:]


def power_fails(world: World) -> None:
    """Lose what was not synced, on a strict or a random disk."""
    power = PowerCut(world.pipeline.folder)
    runner = world.start(**power.environment)
    time.sleep(world.chance.uniform(0.5, 4.0))
    power.cut(world.chance.choice([None, world.chance.randrange(1000)]))
    runner.wait(10)
    shutil.rmtree(power.folder)


def _delete(folder: Path) -> None:
    """Remove a folder, though Spark's workers outlive their runner for a moment and may still write."""
    deadline = time.monotonic() + PATIENCE_S
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=time.monotonic() < deadline)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3))


Disaster = Callable[[World], None]


def happen(world: World, disasters: Sequence[Disaster]) -> None:
    """Let disasters happen one after the other, while tables are written; after each, all is right."""
    for disaster in disasters:
        if disaster is source_away:
            disaster(world)
        else:
            with KeyedWriter(world.server, world.database, list(NAMES), WRITTEN, 100.0) as writer:
                disaster(world)
                writer.stop()
        world.settle()
        world.check()

"""Disasters at random, while tables are written: all equals the source in the end, or a verdict names what to do, and it helps."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess, Popen
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.keyed import KEYED, KeyedWriter, create
from tests.live.support.pipeline import ROOT, Pipeline
from tests.powercut.cut import PowerCut, compiled
from tests.servers import FLAVORS, PASSWORD, Server
from tests.servers.drivers import Drivers
from tests.servers.hosts import Hosts
from tests.support.depth import SOAK, depth
from tests.support.mounts import Small, mounted

NAMES, ROWS, WRITTEN, CHUNK_ROWS = ("falling", "general", "ranked"), 400, 500, 150
SEEDS = depth(5, 100)
_ROUNDS = 6
_DISK_BYTES = 1 << 30


@dataclass
class World:
    """A pipeline, its source, chance, and whether the change logs are whole still."""

    server: Server
    database: str
    pipeline: Pipeline
    disk: Small
    chance: random.Random
    gaps: bool = False
    said: list[str] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.pipeline.home

    @property
    def lake(self) -> Path:
        return self.pipeline.folder / "lake"

    def start(self, **environment: str) -> "Popen[bytes]":
        """A runner that follows the log by now."""
        known = len(self.pipeline.events("table.state"))
        runner = self.pipeline.start(environment=environment)

        def streams() -> bool:
            return any(e["state"] == "streaming" for e in self.pipeline.events("table.state")[known:])

        self.pipeline.wait_for(streams, runner)
        return runner

    def kill(self, runner: "Popen[bytes]") -> None:
        runner.kill()
        runner.wait()

    def run(self) -> CompletedProcess[str]:
        result = self.pipeline.command("run", "--until", "caught-up")
        self.said.append(f"exit {result.returncode}: {result.stdout[-1500:]}{result.stderr[-1500:]}")
        return result

    def settle(self) -> None:
        """Run until the source is caught up with, and do what a refusal says; fails when that does not help."""
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
        """Mirrors and change logs are right."""
        for name in NAMES:
            try:
                assert_equal(
                    source_table(self.server, self.database, name), self.pipeline.mirror(name), KEYED[name].names
                )
            except AssertionError as error:
                raise AssertionError(name, self.said) from error
            # A row that moves into a chunk which is not copied yet leaves the log with its before-image, and comes by the copy.
            faults = log_faults(self.pipeline, name, whole=not self.gaps and not KEYED[name].moves)
            assert not faults, (name, faults, self.said)


def log_faults(pipeline: Pipeline, name: str, *, whole: bool) -> list[Any]:
    """Numbers that a change log has twice; where it is whole, also keys of which it says otherwise than the mirror."""
    key = ", ".join(f'"{column}"' for column in KEYED[name].names)
    with closing(duckdb.connect()) as db:
        db.execute("SET TimeZone = 'UTC'")
        db.register("log", lake_table(pipeline.changes(name)))
        db.register("mirror", lake_table(pipeline.mirror(name)))
        found = db.sql("SELECT _tm_seq FROM log GROUP BY 1 HAVING count(*) > 1 LIMIT 5").fetchall()
        if whole:
            db.execute(
                f"CREATE VIEW newest AS SELECT * FROM log QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY _tm_seq DESC) = 1"
            )
            there = f"SELECT {key}, v FROM newest WHERE _tm_kind IN ('+I', '+U')"
            gone = f"SELECT {key} FROM newest WHERE _tm_kind IN ('-U', '-D')"
            found += db.sql(f"({there} EXCEPT SELECT {key}, v FROM mirror) LIMIT 5").fetchall()
            found += db.sql(f"({gone} INTERSECT SELECT {key} FROM mirror) LIMIT 5").fetchall()
    return list(found)


def killed(world: World) -> None:
    """The runner dies at any instant."""
    runner = world.start()
    time.sleep(world.chance.uniform(0.5, 3.0))
    world.kill(runner)


def older_ledger(world: World) -> None:
    """The pipeline's folder is put back to an older copy."""
    runner = world.start()
    copy = world.pipeline.folder / "older"
    shutil.copytree(world.home, copy, symlinks=True)
    time.sleep(3.0)
    world.kill(runner)
    _delete(world.home)
    copy.rename(world.home)


def older_lake(world: World) -> None:
    """The lake is put back to an older copy."""
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


def backed_up(world: World) -> None:
    """A backup is made while it runs, and put back later."""
    runner = world.start()
    time.sleep(1.0)
    made = world.pipeline.command("backup", str(world.pipeline.folder / "backup.zip"))
    assert made.returncode == 0, made.stderr
    refused = world.pipeline.command("restore", str(world.pipeline.folder / "backup.zip"))
    assert refused.returncode == 5, "a runner lives"
    time.sleep(2.0)
    world.kill(runner)
    put_back = world.pipeline.command("restore", str(world.pipeline.folder / "backup.zip"))
    assert put_back.returncode == 0, put_back.stderr
    result = world.run()
    assert result.returncode == 0, world.said


def without_lock(world: World) -> None:
    """The lock's file is deleted: a second runner is turned away while the first lives, and takes over when it hangs."""
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
    assert first.wait(timeout=60) == 5, "the older runner stops"
    world.kill(second)


def copied_folder(world: World) -> None:
    """A copy of the pipeline's folder publishes to the same lake, beside the living runner."""
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
        env={**os.environ, "TIDEMARK_TEST_PASSWORD": PASSWORD},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert copy.returncode in (0, 5, 7), copy.stdout + copy.stderr
    with suppress(subprocess.TimeoutExpired):
        assert runner.wait(timeout=5) == 5, "it may only be overtaken"
    world.gaps = True
    world.kill(runner)


def cleaned(world: World) -> None:
    """Somebody's full VACUUM without retention removes what no version names, again and again."""
    runner = world.start()
    for _ in range(4):
        for name in NAMES:
            for folder in (world.pipeline.mirror(name), world.pipeline.changes(name)):
                with suppress(DeltaError, OSError):
                    DeltaTable(str(folder)).vacuum(
                        retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True
                    )
        time.sleep(0.3)
    world.gaps = True
    world.kill(runner)


def other_writers(world: World) -> None:
    """OPTIMIZE by others comes between."""
    runner = world.start()
    for _ in range(3):
        for name in NAMES:
            with suppress(DeltaError, OSError):
                DeltaTable(str(world.pipeline.mirror(name))).optimize.compact()
        time.sleep(0.3)
    world.kill(runner)


def removed_folder(world: World) -> None:
    """The folder of a table is gone."""
    runner = world.start()
    world.kill(runner)
    _delete(world.pipeline.mirror(world.chance.choice(NAMES)))


def source_away(world: World) -> None:
    """The source is killed, and comes back."""
    runner = world.start()
    world.server.kill()
    time.sleep(world.chance.uniform(1.0, 8.0))
    world.server.restart()
    world.pipeline.wait_for(lambda: world.pipeline.events("source.lag")[-1]["ts"] > _now(), runner, 120)
    world.kill(runner)


def clock_jumps(world: World) -> None:
    """The runner's clock is a day ahead, then goes back two: commands are taken, and the next run goes on."""
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


def disk_fills(world: World) -> None:
    """There is no room for some seconds, and then there is: the runner waits for it."""
    runner = world.start()
    world.disk.fill()
    time.sleep(world.chance.uniform(2.0, 8.0))
    world.disk.free()
    time.sleep(5.0)
    assert runner.poll() is None, world.pipeline.output[-3000:]
    world.kill(runner)


def power_fails(world: World) -> None:
    """What was not synced is lost, by a strict disk or by chance."""
    power = PowerCut(world.pipeline.folder)
    runner = world.start(**power.environment)
    time.sleep(world.chance.uniform(0.5, 4.0))
    power.cut(world.chance.choice([None, world.chance.randrange(1000)]))
    runner.wait(10)
    shutil.rmtree(power.folder)


def _delete(folder: Path) -> None:
    """Spark's workers outlive their runner for a moment, and write."""
    deadline = time.monotonic() + 30
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=time.monotonic() < deadline)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3))


DISASTERS: list[Callable[[World], None]] = [
    older_ledger,
    cleaned,
    older_lake,
    other_writers,
    without_lock,
    killed,
    copied_folder,
    removed_folder,
    backed_up,
    source_away,
    clock_jumps,
    disk_fills,
    power_fails,
]


def chosen(seed: int, flavor: str) -> list[Callable[[World], None]]:
    """The first five seeds of each server have a disaster each; all have what chance gives when there is time.

    A full disk and a power cut have tests of their own, which take less.
    """
    first = DISASTERS[seed + 5 * FLAVORS.index(flavor) :][:1] if seed < 5 else []
    return first + (random.Random(f"{flavor} {seed}").choices(DISASTERS, k=2) if SOAK else [])


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Small]:
    """A disk that can be full, with pipeline and lake on it."""
    with mounted(tmp_path / "disk", _DISK_BYTES) as small:
        yield small


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_disasters_end_equal(
    flavor: str, seed: int, private_server: Callable[..., Server], drivers: Drivers, hosts: Hosts, disk: Small
) -> None:
    """Whatever happens: never a wrong row, or a verdict that names what to do."""
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    for name in NAMES:
        create(server, "d", name, ROWS)
    key = 'chunk_key = { "d.ranked" = "place" }'
    folder = disk.folder / "all"
    folder.mkdir()
    settings: dict[str, Any] = {"chunk_rows": CHUNK_ROWS, "poll": 0.2, "merge": 0.5, "snapshot": key}
    pipeline = Pipeline(server, "d", folder, drivers=drivers, hosts=hosts, **settings)
    pipeline.spec.write_text(pipeline.spec.read_text().replace('path = "lake"', f'path = "{folder}/lake"'))
    world = World(server, "d", pipeline, disk, random.Random(seed))
    try:
        _happen(world, chosen(seed, flavor))
    finally:
        pipeline.kill()


def _happen(world: World, disasters: Sequence[Callable[[World], None]]) -> None:
    for disaster in disasters:
        if disaster is source_away:
            disaster(world)
        else:
            with KeyedWriter(world.server, world.database, list(NAMES), WRITTEN, 100.0) as writer:
                disaster(world)
                writer.stop()
        world.settle()
        world.check()

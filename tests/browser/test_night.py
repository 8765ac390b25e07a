"""The console at three in the morning.

Everything that can break breaks, and the pages tell the truth within three seconds.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from deltalake import DeltaTable
from playwright.sync_api import expect

from engine.pipeline.command_file import send_command
from tests.browser.conftest import OpenPage
from tests.browser.night import SHOWN_S, Night, night_on
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.servers import PASSWORD, Server
from tests.servers.drivers import Driver
from tests.servers.replica import await_executed, executed, replicate, take_over
from tests.support.depth import SOAK, on
from tests.support.pages import ROOT
from tests.tools.demo import PASSWORD_VARIABLE

ServerFactory = Callable[..., Server]
TABLES = ("orders", "audit")
HEALTHY = {
    "Pipelines": {"^running$": "green", "^Lag$": "", "ago$": ""},
    "Live": {"^Running$": "green", "^Keeping up$": "green", "^Safe$": "green"},
}
AWAY = {
    "Pipelines": {"^source unreachable$": "orange", r"Source unreachable for .* · (attempt \d+|no answer yet) · ": ""},
    "Live": {
        "^Source unreachable$": "orange",
        "^Not current$": "orange",
        "^lag up to ": "",
        r"Source unreachable for .* · (attempt \d+|no answer yet) · ": "",
    },
}
UNSAFE = {
    "Live": {"^Settings changed$": "red", "binlog_format is MIXED": ""},
    "Alerts": {"binlog_format is MIXED": ""},
}
UNREADABLE = {
    "Live": {"^1 mirror cannot be read$": "red"},
    "Verify": {"^1 mirror cannot be read$": "red"},
}
STOPPED = {
    "Pipelines": {"^table stopped$": "red", "d.audit": ""},
    "Live": {"^1 table stopped$": "red", "Table stopped since .* d.audit stopped": "red", "^d.audit stopped": ""},
}
FULL = {
    "Pipelines": {"^disk full$": "red", "A disk is full|disk full \\(": ""},
    "Live": {"^Disk full$": "red", "disk full \\(": ""},
}
LOST = {
    "Pipelines": {"^runner lost$": "red", "The heartbeat stopped at": ""},
    "Live": {"^Runner lost$": "red", "The runner has sent no heartbeat since": "", "^Not current$": "gray"},
}


@pytest.fixture
def replica(flavor: str, private_server: ServerFactory) -> tuple[Server, Server]:
    """A source with two small tables, and its replica."""
    options = {"binlog_expire_logs_seconds": 864_000} | ({"log_slave_updates": 1} if flavor == "mariadb" else {})
    first, second = private_server(flavor, **options), private_server(flavor, **options)
    replicate(second, first)
    first.execute("CREATE DATABASE d")
    for name in TABLES:
        first.execute(f"CREATE TABLE d.{name} (id INT PRIMARY KEY, v INT)")
        first.execute(f"INSERT INTO d.{name} VALUES (1, 1), (2, 2)")
    return first, second


@pytest.fixture
def night(replica: tuple[Server, Server], tmp_path: Path, driver: Driver, open_page: OpenPage) -> Iterator[Night]:
    """A pipeline that streams, on a small disk."""
    settings = 'schema_changes = "stop"'
    with night_on(replica[0], tmp_path, driver, open_page, tables=len(TABLES), settings=settings) as night:
        yield night


@on("mysql")
@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_the_night(night: Night, replica: tuple[Server, Server], driver: Driver) -> None:
    """At each instant the pages agree with the truth, and no light is green whose fact is red.

    Five open pages keep a core busy all the time, so half of what can break does so in a soak test only.
    """
    night.shows("healthy", HEALTHY, time.monotonic() + 3)
    kill_the_source(night)
    if SOAK:
        freeze_the_source(night)
        leave_row_format(night)
        lose_a_file(night, driver.environment)
    stop_a_table(night)
    fill_the_disk(night)
    kill_the_runner(night, driver)
    if SOAK:
        conflict(night)
        if night.server.flavor == "mariadb":  # the back-off of the merge takes 13 s, and no server plays a part
            lose_every_race(night)
        fail_over(night, replica[1])
    for name in TABLES:
        equal(night, name)
    assert not night.alerts()
    raised, cleared = (sorted(e["kind"] for e in night.events(f"alert.{kind}")) for kind in ("raised", "cleared"))
    assert raised == cleared
    assert {"source_away", "table_stopped", "disk_full"} <= set(raised)


def photograph(night: Night, name: str) -> None:
    """Save both pages if TIDEMARK_SCREENSHOTS is set."""
    if folder := os.environ.get("TIDEMARK_SCREENSHOTS"):
        for page in night.pages:
            night.pages[page].screenshot(path=Path(folder) / f"night-{night.server.flavor}-{name}-{page}.png")


def kill_the_source(night: Night) -> None:
    """A source that is killed is unreachable; its alert is raised, and cleared when it is back."""
    night.server.kill()
    night.shows("source killed", AWAY, time.monotonic())
    night.wait_for(lambda: "source_away" in night.alerts(), 20)
    expect(night.pages["Live"]).to_have_title(re.compile(r"^\(1\) "), timeout=SHOWN_S * 1000)
    assert not [text for _, text in night.texts("Live") if "unreachable since " in text], "the panel says it already"
    photograph(night, "killed")
    night.server.launch()
    # By an event, because the line with the button is drawn again every second, and is gone once the source is back.
    night.pages["Live"].get_by_role("button", name="Try now").dispatch_event("click")
    night.shows("source back", HEALTHY, time.monotonic())
    night.wait_for(lambda: not night.alerts(), 3)


def freeze_the_source(night: Night) -> None:
    """A source that answers nothing is noticed by a question that stays open for a second."""
    with frozen(night):
        photograph(night, "frozen")
    night.shows("source thawed", HEALTHY, time.monotonic())


@contextmanager
def frozen(night: Night) -> Iterator[None]:
    """The source answers nothing, and the pages say so."""
    assert night.server.process is not None
    night.server.process.send_signal(signal.SIGSTOP)
    try:
        night.shows("source frozen", AWAY, time.monotonic())
        yield
    finally:
        night.server.process.send_signal(signal.SIGCONT)


def leave_row_format(night: Night) -> None:
    """The source logs statements after an outage: it is not safe, until it logs rows again."""
    night.server.execute("SET GLOBAL binlog_format = 'MIXED'")
    with frozen(night):
        pass
    night.rows_logged = False
    since_s = night.wait_for(lambda: "source_settings" in night.alerts())
    night.shows("statements are logged", UNSAFE, since_s)
    photograph(night, "mixed")
    night.server.execute("SET GLOBAL binlog_format = 'ROW'")
    since_s = night.wait_for(lambda: "source_settings" not in night.alerts())
    night.rows_logged = True
    night.shows("rows are logged", HEALTHY, since_s)


def lose_a_file(night: Night, environment: Mapping[str, str]) -> None:
    """A file of a mirror is gone, which a verification finds: no page calls the rows verified. Then it is put back."""
    (file, *_) = DeltaTable(str(night.where.root / "lake" / "d" / "orders")).file_uris()
    kept = Path(file).rename(night.where.root / "kept.parquet")
    verify(night, environment)
    night.readable = False
    night.shows("a file is gone", UNREADABLE, time.monotonic(), 2 * SHOWN_S)
    photograph(night, "file")
    kept.rename(file)
    verify(night, environment)
    night.readable = True
    night.shows("the file is back", HEALTHY, time.monotonic(), 2 * SHOWN_S)
    night.wait_for(lambda: not night.alerts())


def verify(night: Night, environment: Mapping[str, str]) -> None:
    """Verify all tables, beside the runner. The exit code tells only whether rows differ."""
    words = [sys.executable, "-m", "engine", "verify", str(night.where.spec)]
    environment = {**os.environ, **environment, PASSWORD_VARIABLE: PASSWORD}
    subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, check=True)


def stop_a_table(night: Night) -> None:
    """An unsupported change stops a table; a redump brings it back."""
    night.server.execute("ALTER TABLE d.audit ADD COLUMN w INT NOT NULL DEFAULT 7")
    night.shows("table stopped", STOPPED, time.monotonic())
    photograph(night, "stopped")
    redump(night, "d.audit")


def redump(night: Night, table: str) -> None:
    """Bring a stopped table back."""
    states = len(night.events("table.state"))
    send_command(night.where, "redump", arguments={"tables": [table]})
    since_s = night.wait_for(
        lambda: any(e["state"] == "streaming" and e["table"] == table for e in night.events("table.state")[states:])
    )
    night.shows("table streams again", HEALTHY, since_s)
    night.wait_for(lambda: not night.alerts(), 3)


def fill_the_disk(night: Night) -> None:
    """The pipeline waits for room, and says so."""
    night.disk.fill()
    night.server.execute("INSERT INTO d.orders VALUES (3, 3)")
    night.shows("disk full", FULL, time.monotonic())
    photograph(night, "full")
    night.disk.free()
    night.shows("disk has room", HEALTHY, time.monotonic(), 5.0)
    night.wait_for(lambda: not night.alerts(), 3)


def kill_the_runner(night: Night, driver: Driver) -> None:
    """A killed runner is lost; Restart continues."""
    runner = night.runner
    runner.kill()
    night.shows("runner killed", LOST, time.monotonic())
    photograph(night, "lost")
    driver.clear()
    started = len(night.events("run.connected"))
    night.pages["Live"].get_by_role("button", name="Restart").click()
    since_s = night.wait_for(lambda: len(night.events("run.connected")) > started)
    night.shows("runner restarted", HEALTHY, since_s, 5.0)


def conflict(night: Night) -> None:
    """Another writer commits to a mirror: the merge is tried again on top of it, and nothing is wrong."""
    for number in range(3):
        mirror = DeltaTable(str(night.where.root / "lake" / "d" / "orders"))
        version = mirror.version()
        mirror.create_write_transaction([], mode="append", schema=mirror.schema())
        night.server.execute(f"UPDATE d.orders SET v = v + 10 WHERE id = {number + 1}")
        equal(night, "orders")
        assert DeltaTable(str(mirror.table_uri)).version() > version + 1
        assert not list(night.lies())
    night.shows("merge conflicted", HEALTHY, time.monotonic())
    assert not night.alerts()


def lose_every_race(night: Night) -> None:
    """Another writer never pauses: the merge gives up, and the table stops.

    A redump brings it back when the writer is gone.
    """
    log, over = night.where.root / "lake" / "d" / "audit" / "_delta_log", threading.Event()
    commit = log.with_name("commit of another writer")
    commit.write_text('{"commitInfo": {}}\n')

    def write() -> None:
        version = DeltaTable(str(log.parent)).version()
        while not over.wait(0.001):
            version += 1
            with suppress(FileExistsError):
                (log / f"{version:020}.json").hardlink_to(commit)

    def gave_up() -> bool:
        night.server.execute("UPDATE d.audit SET v = v + 1")  # on a busy machine a merge may win its race
        return "d.audit" in night.truth().stopped

    writer = threading.Thread(target=write)
    writer.start()
    try:
        since_s = night.wait_for(gave_up)
        night.shows("merge gave up", STOPPED, since_s)
        expect(night.pages["Live"].get_by_text("Find out who writes there")).to_be_visible()
        photograph(night, "gave-up")
    finally:
        over.set()
        writer.join()
    redump(night, "d.audit")


def fail_over(night: Night, second: Server) -> None:
    """The source dies, and its replica takes over its address."""
    await_executed(second, executed(night.server))
    first, failovers = night.server, len(night.events("source.failover"))
    first.kill()
    night.shows("source killed again", AWAY, time.monotonic())
    take_over(second, first)
    night.server = second
    second.execute("INSERT INTO d.orders VALUES (4, 4)")
    since_s = night.wait_for(lambda: len(night.events("source.failover")) > failovers)
    night.shows("failed over", HEALTHY, since_s, 5.0)
    photograph(night, "failed-over")


def equal(night: Night, name: str) -> None:
    """The mirror has the source's rows soon, also beside other work on the machine."""

    def same() -> bool:
        try:
            assert_equal(source_table(night.server, "d", name), lake_table(night.where.root / "lake" / "d" / name))
        except AssertionError:
            return False
        return True

    night.wait_for(same, 60)

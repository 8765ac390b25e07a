"""A full disk pauses the pipeline, which reports it and continues when there is room.

Nothing is lost, no chunk is parked.
"""

from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import CalledProcessError

from engine.history import History
from engine.history.runs import journalled
from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import read_runner
from engine.pipeline.runner_record import RunnerRecord
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline, Runner
from tests.servers import Server
from tests.support.depth import on
from tests.support.mounts import Small, immutable, mounted
from tests.support.simulation import SimulatedTable, Simulation

MB = 1 << 20


def _create(server: Server, database: str) -> None:
    """Create 4 MB of incompressible rows, in chunks of 200 kB."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT, noise VARBINARY(1000))")
    for first in range(0, 4000, 1000):
        rows = ", ".join(f"({n}, 0, RANDOM_BYTES(1000))" for n in range(first, first + 1000))
        server.execute(f"INSERT INTO {database}.t VALUES {rows}")


@on("mariadb")
def test_a_full_disk_is_waited_for(
    server: Server, database: str, new_pipeline: PipelineFactory, tmp_path: Path
) -> None:
    """First the readers' disk is full during the copy, then the disk of the pipeline's folder during streaming."""
    _create(server, database)
    with ExitStack() as disks:
        mirror = disks.enter_context(mounted(tmp_path / "lake" / database / "t", 16 * MB))
        disks.enter_context(mounted(mirror.folder / "_delta_log", 4 * MB))  # the publisher's commits find room
        home = disks.enter_context(mounted(tmp_path / "shop", 6 * MB))
        pipeline = new_pipeline(server, database, chunk_rows=200, poll=0.2, merge=60.0, snapshot="chunk_attempts = 2")
        mirror.fill(but=100_000)  # less than a chunk
        runner = pipeline.start()
        try:
            _seen_and_over(pipeline, runner, mirror)
            pipeline.wait_for(lambda: _streams(pipeline), runner)
            assert not pipeline.events("chunk.parked")

            home.fill()
            for n in range(20):
                server.execute(f"UPDATE {database}.t SET v = {n} WHERE id % 20 = {n}")
            _seen_and_over(pipeline, runner, home)
            server.execute(f"DELETE FROM {database}.t WHERE id = 7")
            pipeline.finish(runner)
            _check_journal(pipeline)
            assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))
        finally:
            pipeline.kill()


@on("mysql")
def test_a_destination_that_takes_nothing_is_named_and_waited_for(
    server: Server, database: str, new_pipeline: PipelineFactory, tmp_path: Path
) -> None:
    """While it streams, its disk is full, then read-only.

    Each time the disk is named, and the run continues by itself.
    """
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO {database}.t VALUES (1, 0)")
    with mounted(tmp_path / "lake", 16 * MB) as lake:
        pipeline = new_pipeline(server, database, poll=0.2, merge=0.5)
        runner = pipeline.start()
        try:
            pipeline.wait_for(lambda: _streams(pipeline), runner)
            lake.fill()
            server.execute(f"INSERT INTO {database}.t VALUES (2, 0)")
            pipeline.wait_for(lambda: _shown(pipeline).write_outage, runner)
            shown = _shown(pipeline).write_outage
            assert shown is not None
            assert f"; {lake.folder} has 0 B of " in shown.reason
            assert ".py" not in shown.reason, "no file of ours is what did not fit"
            assert str(lake.folder) in shown.hint
            lake.free()
            pipeline.wait_for(lambda: _shown(pipeline).write_outage is None, runner)

            pipeline.wait_for(lambda: _made_read_only(lake), runner)
            server.execute(f"INSERT INTO {database}.t VALUES (3, 0)")
            pipeline.wait_for(lambda: _shown(pipeline).write_outage, runner)
            shown = _shown(pipeline).write_outage
            assert shown is not None
            assert shown.reason.startswith("file system read-only (")
            assert str(lake.folder) in shown.hint
            lake.make_writable()
            pipeline.wait_for(lambda: _shown(pipeline).write_outage is None, runner)
            pipeline.finish(runner)
            assert not [one for one in pipeline.events("error") if "Traceback" in one["message"]]
            assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))
        finally:
            pipeline.kill()


@on("mysql")
def test_a_destination_without_permission_is_named_and_waited_for(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """The folders of the table and of its change log take no files. When they do again, the run continues by itself."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO {database}.t VALUES (1, 0)")
    pipeline = new_pipeline(server, database, poll=0.2, merge=0.5)
    runner = pipeline.start()
    try:
        pipeline.wait_for(lambda: _streams(pipeline), runner)
        folders = [pipeline.folder / "lake" / database / name for name in ("t", "t__changes")]
        for n in range(2, 4):
            with immutable(*folders):
                server.execute(f"INSERT INTO {database}.t VALUES ({n}, 0)")
                pipeline.wait_for(lambda: _shown(pipeline).write_outage, runner)
                pipeline.wait_for(lambda: _attempt(pipeline) > 2, runner)
                shown = _shown(pipeline).write_outage
                assert shown is not None
                assert shown.reason.startswith("no permission to write (")
                assert shown.fault == "forbidden"
                assert shown.hint.startswith("Let the runner's user write to ")
                assert Path(shown.hint.removesuffix(".").rpartition(" ")[2]) in folders
            pipeline.wait_for(lambda: _shown(pipeline).write_outage is None, runner)
        pipeline.finish(runner)
        assert {event["error"] for event in pipeline.events("error")} == {"DiskFullError"}
        assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))
    finally:
        pipeline.kill()


def _attempt(pipeline: Pipeline) -> int:
    outage = _shown(pipeline).write_outage
    return outage.attempt if outage else 0


def _made_read_only(disk: Small) -> bool:
    """Whether the disk is read-only: it can be made so while no file on it is being written."""
    with suppress(CalledProcessError):
        disk.make_read_only()
        return True
    return False


def _streams(pipeline: Pipeline) -> bool:
    return any(event["state"] == "streaming" for event in pipeline.events("table.state"))


def _seen_and_over(pipeline: Pipeline, runner: Runner, disk: Small) -> None:
    """Status, terminal and an alert report the pause and its reason; when the ballast is removed, the pause ends."""
    freed = len(pipeline.events("disk.freed"))
    pipeline.wait_for(lambda: _shown(pipeline).write_outage, runner)
    status = pipeline.status()
    assert status["state"] == "paused"
    assert status["waiting_for"].startswith("disk full (")
    assert f"; {disk.folder} has " in status["disk_full"], "the disk that is full, of several"
    shown = pipeline.command("status").stdout
    assert "continues by itself once there is room" in " ".join(shown.split())
    # The pipeline's own disk may have no room for the journal's line and the file of alerts.
    pipeline.wait_for(lambda: pipeline.output.count("alert: A disk is full: ") == freed + 1, runner)
    pipeline.wait_for(lambda: "paused – disk full (" in pipeline.output, runner)
    disk.free()
    pipeline.wait_for(lambda: len(pipeline.events("disk.freed")) > freed, runner)
    pipeline.wait_for(lambda: _shown(pipeline).state == "running", runner)
    assert _shown(pipeline).write_outage is None


def _shown(pipeline: Pipeline) -> RunnerRecord:
    return read_runner(Directory(pipeline.home)) or RunnerRecord("")


def _check_journal(pipeline: Pipeline) -> None:
    """The journal is complete although its disk was full, and reports each episode once."""
    events = pipeline.events()
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    states = [event["state"] for event in pipeline.events("run.state")]
    assert states == ["running", "paused", "running", "paused", "running", "stopping"]
    alerts = [(event["event"], event["kind"]) for event in pipeline.events("alert.raised", "alert.cleared")]
    assert alerts == [("alert.raised", "disk_full"), ("alert.cleared", "disk_full")] * 2
    assert [event["error"] for event in pipeline.events("error")] == ["DiskFullError"] * 2
    assert not list(pipeline.home.glob(".*")), "something half written was left"
    assert not list((pipeline.home / "ledger").glob(".*"))


def test_the_consoles_index_waits_for_room(tmp_path: Path) -> None:
    """It answers meanwhile, says why it is behind the journals, and catches up."""
    with mounted(tmp_path / "home", 8 * MB) as disk:
        shop = Simulation(tmp_path / "shop", [SimulatedTable("shop.orders", 400_000, 40)]).advance(3)
        index = History(disk.folder / "history.duckdb")
        index.refresh([Directory(tmp_path / "shop")])
        before = journalled(index.cursor(), "shop").lines
        disk.fill()
        for _ in range(5):
            shop.advance(20)
            index.refresh([Directory(tmp_path / "shop")])
        assert "cannot be written" in str(index.behind)
        assert journalled(index.cursor(), "shop").lines >= before
        disk.free()
        index.refresh([Directory(tmp_path / "shop")])
        after = journalled(index.cursor(), "shop")
        assert after.lines > before
        whole = History(None)
        whole.refresh([Directory(tmp_path / "shop")])
        assert journalled(whole.cursor(), "shop") == after
        assert (index.behind, index.in_memory) == (None, None)
        index.close()

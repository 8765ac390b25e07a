"""A whole runner with JVM and readers under the shim: recorded, killed at one instant, and started again."""

import time
from pathlib import Path

from tests.conftest import DatabaseFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import seed_table
from tests.powercut.cut import PowerCut
from tests.servers import Pool


def test_a_runner_is_recorded_and_killed(servers: Pool, new_database: DatabaseFactory, tmp_path: Path) -> None:
    """Every process of it dies; the test's own files stay; the next run ends equal, whatever the disk kept."""
    server = servers.get("mysql")
    database = new_database(server)
    seed_table(server, database, "orders", 2000)
    root = tmp_path / "disk"
    root.mkdir()
    power = PowerCut(root)
    pipeline = Pipeline(server, database, root, chunk_rows=500, environment=power.environment)
    runner = pipeline.start_streaming()
    readers = {event["pid"] for event in pipeline.events("chunk.finished")}
    assert readers
    assert {runner.pid, *readers} <= {process.pid for process in power.running()}
    time.sleep(1.0)
    lost = power.cut()
    assert runner.wait(5) == -9
    assert not power.running()
    assert (root / "shop.toml").read_text()
    assert lost.shortened["output.log"][0] == 0
    pipeline.run("caught-up")
    assert_equal(source_table(server, database, "orders"), pipeline.mirror("orders"))

"""Failover to another server, or to an older state.

Accepted if the history matches, otherwise refused with the reason.
"""

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pymysql
from deltalake import DeltaTable

from tests.live.conftest import PipelineFactory
from tests.live.support.background import Background
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline
from tests.servers import Server
from tests.servers.replica import await_executed, executed, promote, replicate, take_over

ServerFactory = Callable[..., Server]


class Writer(Background):
    """Inserts and updates rows of d.t, one transaction each, wherever `server` is."""

    def __init__(self, server: Server, first: int) -> None:
        super().__init__()
        self.server, self.next = server, first

    def work(self, _number: int) -> None:
        """Write one row after the other."""
        while not self.stopping.wait(0.01):
            try:
                self.server.execute("INSERT INTO d.t VALUES (%s, 0)", (self.next,))
                self.server.execute("UPDATE d.t SET v = v + 1 WHERE id = %s", (self.next // 2,))
                self.next += 1
            except pymysql.Error:  # it is being killed, or still read-only
                time.sleep(0.05)


def _no_change_twice(pipeline: Pipeline) -> None:
    """Every change is in the change log once: by its number, and by transaction, key and kind."""
    log = (
        DeltaTable(pipeline.changes("t")).to_pyarrow_table(columns=["_tm_seq", "_tm_tx", "_tm_kind", "id"]).to_pylist()
    )
    assert all(row["_tm_tx"] for row in log)
    for names in (("_tm_seq",), ("_tm_tx", "_tm_kind", "id")):
        twice = [key for key, n in Counter(tuple(row[name] for name in names) for row in log).items() if n > 1]
        assert not twice, twice[:3]


def test_failover_to_a_promoted_replica(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """The source is killed under writes, its replica promoted and written to.

    The pipeline continues there and ends equal.
    """
    options = {"log_slave_updates": 1} if flavor == "mariadb" else {}
    first, second = private_server(flavor), private_server(flavor, **options)
    replicate(second, first)
    second.execute("FLUSH BINARY LOGS")  # its files are numbered otherwise
    first.execute("CREATE DATABASE d")
    first.execute("CREATE DATABASE elsewhere")
    first.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    first.execute("CREATE TABLE elsewhere.t (id INT PRIMARY KEY AUTO_INCREMENT)")
    for number in range(200):
        first.execute("INSERT INTO d.t VALUES (%s, 0)", (number,))
    with Writer(first, 200) as writer:
        pipeline = new_pipeline(first, "d", chunk_rows=50)
        pipeline.run("snapshot")
        published = pipeline.epochs()[-1]["to"]
        assert published["gtids"]
        assert published["born"]
        assert any(e["changes"] for e in pipeline.events("epoch.committed"))
        time.sleep(1.0)
        first.kill()
        time.sleep(0.5)
        promote(second)
        writer.server = second
        time.sleep(0.5)
        second.execute("FLUSH BINARY LOGS")
        time.sleep(0.5)
    text = pipeline.spec.read_text()
    pipeline.spec.write_text(text.replace(f"port = {first.port}", f"port = {second.port}"))
    check = pipeline.command("check")
    assert check.returncode == 0, check.stdout
    pipeline.run("caught-up")
    (event,) = pipeline.events("source.failover")
    assert event["gtids"] == published["gtids"]
    assert_equal(source_table(second, "d", "t"), pipeline.mirror("t"))
    _no_change_twice(pipeline)
    before = pipeline.epochs()[-1]["to"]
    for _ in range(20):
        second.execute("INSERT INTO elsewhere.t VALUES ()")  # nothing of d: the position advances all the same
    pipeline.run("caught-up")
    after = pipeline.epochs()[-1]["to"]
    assert (after["file"], after["offset"]) > (before["file"], before["offset"])
    assert after["gtids"] != before["gtids"]
    assert len(pipeline.events("source.failover")) == 1


def test_failover_of_a_running_pipeline_whose_address_a_replica_takes_over(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """As behind a proxy or a moved address: another server answers, and the same run continues with it.

    An audit does not take changes of the first server for the second one's, though their files have the same numbers.
    """
    options = {"log_slave_updates": 1} if flavor == "mariadb" else {}
    first, second = private_server(flavor), private_server(flavor, **options)
    replicate(second, first)
    first.execute("CREATE DATABASE d")
    first.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    first.execute("INSERT INTO d.t VALUES (1, 1), (2, 2)")
    for _ in range(3):
        first.execute("FLUSH BINARY LOGS")
    pipeline = new_pipeline(first, "d")
    runner = pipeline.start_streaming()
    first.execute("INSERT INTO d.t VALUES (4, 4)")
    pipeline.wait_for(lambda: any(e["changes"] for e in pipeline.events("epoch.committed")), runner)
    await_executed(second, executed(first))
    take_over(second, first)
    second.execute("INSERT INTO d.t VALUES (3, 3)")
    for _ in range(4):
        second.execute("FLUSH BINARY LOGS")
    second.execute("DELETE FROM d.t WHERE id = 1")
    pipeline.wait_for(lambda: sum(e["changes"] for e in pipeline.events("epoch.committed")) >= 3, runner)
    verified = pipeline.command("verify", "--json")
    pipeline.finish(runner)
    assert [table["verdict"] for table in json.loads(verified.stdout)["tables"]] == ["verified"], verified
    assert len(pipeline.events("source.failover")) == 1
    assert_equal(source_table(second, "d", "t"), pipeline.mirror("t"))
    _no_change_twice(pipeline)
    audit = pipeline.command("audit", "--json")
    assert audit.returncode == 0, audit.stdout + audit.stderr
    assert json.loads(audit.stdout)["images"] == 2


def test_a_server_restored_from_an_older_copy_ends_with_4(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory, tmp_path: Path
) -> None:
    """Without new transactions, and with so many that files, offsets and GTIDs are past the published ones."""
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    server.execute("INSERT INTO d.t VALUES (1, 1)")
    server.stop()
    shutil.copytree(server.data, tmp_path / "copy")
    server.launch()
    for number in range(2, 12):
        server.execute("INSERT INTO d.t VALUES (%s, 1)", (number,))
    pipeline = new_pipeline(server, "d")
    pipeline.run("caught-up")
    server.stop()
    shutil.rmtree(server.data)
    shutil.copytree(tmp_path / "copy", server.data)
    time.sleep(1.1)  # the time in a binlog file's first event has whole seconds
    server.launch()
    result = pipeline.command("run", "--until", "caught-up")
    assert result.returncode == 4, result.stderr
    assert "restored from an older copy" in result.stderr
    for number in range(102, 140):
        server.execute("INSERT INTO d.t VALUES (%s, 2)", (number,))
    result = pipeline.command("run", "--until", "caught-up")
    assert result.returncode == 4, result.stderr
    assert "then written to" in " ".join(result.stderr.split())

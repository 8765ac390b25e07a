"""A run starts Spark's JVM first: what is refused meanwhile ends it, and an archive of classes makes it faster."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.conftest import DatabaseFactory
from tests.live.conftest import PipelineFactory
from tests.live.support.pipeline import ROOT, Pipeline
from tests.servers import Pool, Server
from tests.servers.spark import JAVA_OPTIONS
from tests.support.patience import PATIENCE_S

MARK = "TIDEMARK_TEST_MARK"


def processes_of(folder: Path) -> list[psutil.Process]:
    """The processes whose environment has the folder as their mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(folder):
                found.append(process)
        except psutil.Error:  # it has just ended, or is another user's
            continue
    return found


@pytest.mark.parametrize(
    ("password", "tables", "code", "message"),
    [("wrong", None, 3, "Access denied"), (None, ["nothing.*"], 2, "No table matches")],
)
def test_a_refused_run_leaves_no_spark(
    server: Server,
    new_database: DatabaseFactory,
    tmp_path: Path,
    password: str | None,
    tables: list[str] | None,
    code: int,
    message: str,
) -> None:
    """It prints its error alone: none of the JVM that it ends, of PySpark, or of threads that wait for them."""
    database = new_database(server)
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    environment = {MARK: str(tmp_path)} | ({"TIDEMARK_TEST_PASSWORD": password} if password else {})
    refused = Pipeline(server, database, tmp_path, tables=tables, environment=environment)
    result = refused.command("run")
    assert result.returncode == code, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert "Warning" not in result.stderr
    assert [event["error"] is not None for event in refused.events("run.ended")] == [True]
    psutil.wait_procs(processes_of(tmp_path), PATIENCE_S)
    assert processes_of(tmp_path) == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_run_maps_the_archive_of_classes_and_survives_a_damaged_one(
    servers: Pool, new_database: DatabaseFactory, new_pipeline: PipelineFactory, tmp_path: Path
) -> None:
    """The archive is made by the command that images use. Java is killed when it maps half of it; the run is not."""
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "TIDEMARK_CLASS_ARCHIVE": ""}
    crash = f"-XX:ErrorFile={tmp_path / 'crash.log'}"
    environment |= {"JDK_JAVA_OPTIONS": f"{JAVA_OPTIONS} {crash}", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "engine.spark.class_archive"]
    subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=True, timeout=4 * PATIENCE_S)
    (archive,) = (tmp_path / "cache" / "tidemark" / "spark-classes").glob("*.jsa")
    assert archive.stat().st_mode & 0o777 == 0o600
    server = servers.get("mariadb")  # Spark is the same whatever it reads
    database = new_database(server)
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    pipeline = new_pipeline(server, database, environment=environment, spark='master = "local[2]"')
    runner = pipeline.start_streaming()
    assert str(archive) in {
        part.path
        for process in psutil.Process(runner.pid).children(recursive=True)
        if process.name() == "java"
        for part in process.memory_maps()
    }
    pipeline.stop(runner)
    content = archive.read_bytes()
    half = len(content) // 2
    damaged = archive.with_name(f"{archive.stem.partition('-')[0]}-{half}.jsa")
    damaged.write_bytes(content[:half])  # another file: the first JVM may still map the archive
    damaged.chmod(0o600)
    archive.unlink()
    pipeline.run("caught-up")
    assert not damaged.exists()

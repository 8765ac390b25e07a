"""The Spark session: made from the spec, with the settings that matter, our code shipped to its workers."""

import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from engine import __version__
from engine.errors import SpecError
from engine.settings import Spark

# Each with its reason; sources in FACTS.
_CONF = {
    "spark.python.unix.domain.socket.enabled": "true",  # 40 ms less a task
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",  # Python stacks of crashed workers
    "spark.python.task.killTimeout": "2s",
    "spark.python.worker.reuse": "true",  # readers keep their connections
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    # The JVM only carries tasks and reports to and fro: without its optimising compiler and parallel collector it is up in about
    # half the processor time (measured on two busy cores: 53 and 35 s to warm readers, 74 and 85 s with them).
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


@dataclass(frozen=True)
class Session:
    """A running session. master, ui (address of Spark's own pages), version, slots (tasks at once)."""

    spark: SparkSession
    master: str
    ui: str | None
    version: str
    slots: int

    def describe(self) -> dict[str, Any]:
        """For the journal."""
        return {"master": self.master, "ui": self.ui, "version": self.version, "slots": self.slots}

    def stop(self) -> None:
        """End the session and its workers."""
        self.spark.stop()


def _retrying(master: str) -> str:
    """`local[N]` never runs a failed task again, `local[N,3]` does."""
    if master.startswith("local[") and "," not in master:
        return f"{master[:-1]},3]"
    return "local[1,3]" if master == "local" else master


def open_session(name: str, settings: Spark) -> Session:
    """Start (or join) a session. Raises SpecError for a master that this version does not run on."""
    if not settings.master.startswith("local"):
        raise SpecError(
            f"spark.master = {settings.master!r} is not supported by this version, which runs on local[…].",
            hint='Use spark.master = "local[*]".',
        )
    # Workers are forked from a daemon that takes the driver's environment.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"Tidemark {name}").master(_retrying(settings.master))
    for key, value in {**_CONF, **settings.conf}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    for archive in _archives():
        spark.sparkContext.addPyFile(str(archive))
    context = spark.sparkContext
    return Session(spark, settings.master, context.uiWebUrl, spark.version, int(context.defaultParallelism))


def _archives() -> Iterator[Path]:
    """The engine's own code as an archive for the workers."""
    root = Path(__file__).resolve().parent.parent
    target = Path(tempfile.mkdtemp(prefix="tidemark-code-")) / f"tidemark-engine-{__version__}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            archive.write(path, path.relative_to(root.parent))
    yield target

"""An archive of Spark's classes: with it, a JVM takes half the processor time until Spark is ready.

Java calls this class data sharing. One JVM writes the classes that it has loaded and verified to a file, and later JVMs
with the same classpath map that file. ``python -m tests.servers.classes`` makes it once, and `use` lets the JVMs of
this process's children read it. A JVM that cannot use it (another Java, another classpath) reads the jars as usual.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from engine.spark import class_archive
from tests.servers.server import free_port
from tests.servers.spark import HOST, JAVA_OPTIONS

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
_QUIET = "-Xlog:disable"  # Java's warnings would go to standard output, which Spark's scripts read
_LAUNCHER = "JDK_JAVA_OPTIONS"  # read by each `java`
_CONNECT_CLIENT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).create()
spark.range(0, 4, 1, 2).mapInArrow(lambda batches: batches, "id long").collect()
spark.sql("EXPLAIN SELECT * FROM range(1)").collect()
spark.stop()
"""


def use() -> None:
    """Let the JVMs of this process's children read the archive, if there is one, and compile little.

    They live for seconds.
    """
    archive = f" -XX:SharedArchiveFile={ARCHIVE} {_QUIET}" if ARCHIVE.exists() else ""
    os.environ[_LAUNCHER] = f"{JAVA_OPTIONS}{archive}"
    os.environ[class_archive.VARIABLE] = "off"  # the product's own, which has no classes of Connect servers


def make() -> None:
    """Make the archive: run jobs like those of the tests in a JVM that writes its classes when it ends."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    clean = dict(os.environ)
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": HOST}
    made, port = ARCHIVE.with_suffix(".new"), free_port()
    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -XX:ArchiveClassesAtExit={made} {_QUIET}",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": str(port),
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    spark.sparkContext.parallelize(range(4), 2).map(str).collect()
    spark.range(0, 4, 1, 2).mapInArrow(lambda batches: batches, "id long").collect()
    subprocess.run([sys.executable, "-c", _CONNECT_CLIENT, f"sc://{HOST}:{port}"], check=True, env=clean)
    spark.stop()
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    made.rename(ARCHIVE)


if __name__ == "__main__" and not ARCHIVE.exists():
    print("Archiving Spark's classes", flush=True)
    make()

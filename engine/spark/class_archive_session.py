"""`python -m engine.spark.class_archive_session FILE`: a session whose JVM writes its classes to the file at its end.

It does what the start of a run does, so that those are the classes in the archive (`class_archive.make`).
"""

import os
import sys
from typing import Any


def main(file: str) -> None:
    """Open a session, run jobs of each kind, and wait for the JVM to end."""
    os.environ["TIDEMARK_CLASS_ARCHIVE"] = "off"  # the JVM that writes one cannot use one
    from engine.capture.tasks import WarmUp
    from engine.spark.class_archive import BASE_OPTIONS
    from engine.spark.jobs import run_tasks
    from engine.spark.kinds import open_kind
    from engine.spec.settings import Spark

    options = f"-XX:ArchiveClassesAtExit={file} -Xlog:disable {BASE_OPTIONS}"
    kind = open_kind("classes", Spark(master="local[2]", conf={"spark.driver.extraJavaOptions": options}))
    run_tasks(kind.spark, [WarmUp()] * 2)
    kind.slots()
    kind.ping()
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark ends it without waiting
    kind.stop(lost=False)
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main(sys.argv[1])

"""The settings of a session whose driver is a JVM of this process.

Imports no PySpark: the JVM starts before that is loaded (`driver_process`).
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from engine.base import redaction
from engine.spec.settings import Spark

# Each with its reason.
_CONF = {
    "spark.python.unix.domain.socket.enabled": "true",  # saves 40 ms per task
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",  # Python stacks of crashed workers
    "spark.python.task.killTimeout": "2s",
    "spark.python.worker.reuse": "true",  # readers keep their connections
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    # The JVM only moves tasks and reports. Without its optimising compiler and parallel collector it starts in about
    # half the CPU time (measured on two busy cores: 53 and 35 s until readers were warm, 74 and 85 s with them).
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
_LOCAL_CONF = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
_CLUSTER_CONF = {
    "spark.task.maxFailures": "8",  # executors lost one after the other are not the task's fault
}
# Workers that run this process's own Python use its compiled code in place, and are forked from a process that has
# imported it.
_CODE = str(Path(__file__).resolve().parents[2])
_PATH = "spark.executorEnv.PYTHONPATH"
_OWN_PYTHON_CONF = {"spark.python.daemon.module": "engine.spark.daemon"}
_REDACTION = "spark.redaction.regex"
PYTHON = "spark.pyspark.python"
"""Spark's setting for the workers' interpreter. Only spark-submit reads it, so we read it ourselves."""


def interpreter(settings: Spark) -> str:
    """The Python of the workers."""
    usual = sys.executable if is_local(settings.master) else "python3"
    return settings.conf.get(PYTHON) or os.environ.get("PYSPARK_PYTHON") or usual


def driver_configuration(settings: Spark, python: str) -> dict[str, str]:
    """All settings of a session. python: the workers' interpreter."""
    return redacting(configuration(settings, own_python=is_local(settings.master) and python == sys.executable))


def configuration(settings: Spark, *, own_python: bool) -> dict[str, str]:
    """The settings of a session with our own driver: our settings, overridden by the spec's. Pure."""
    conf = {**_CONF, **(_LOCAL_CONF if is_local(settings.master) else _CLUSTER_CONF)}
    if not own_python:
        return {**conf, **settings.conf}
    path = os.pathsep.join(filter(None, (_CODE, settings.conf.get(_PATH))))
    return {**conf, **_OWN_PYTHON_CONF, **settings.conf, _PATH: path}


def redacting(conf: Mapping[str, str]) -> dict[str, str]:
    """Add settings with which Spark's web UI and logs hide what we hide.

    They add to what the settings hide already.
    """
    ours = f"{redaction.HIDDEN}|{redaction.USERINFO}"
    own = conf.get(_REDACTION)
    return {**conf, _REDACTION: f"(?:{own})|(?i:{ours.removeprefix('(?i)')})" if own else ours}


def retrying(master: str) -> str:
    """The master with retries.

    `local[N]` never retries a failed task, `local[N,3]` does; other masters retry anyway.
    """
    if master.startswith("local[") and "," not in master:
        return f"{master[:-1]},3]"
    return "local[1,3]" if master == "local" else master


def is_local(master: str) -> bool:
    """Whether driver and workers run only on this machine."""
    return master.startswith("local")


def remedy(master: str) -> str:
    """How to set another interpreter for the workers, for a hint."""
    if master.startswith("sc://"):
        return "start the Connect server with PYSPARK_PYTHON set to an interpreter that has them"
    return f'name an interpreter that has them in the spec: [spark.conf] "{PYTHON}" = "/path/to/python"'

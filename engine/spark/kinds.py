"""The two kinds of session, and all that differs between them: a driver of our own, or a Connect server's.

Classic: the driver is a JVM of this process, whatever the master (`local[…]`, `spark://`, `yarn`, `k8s://`). Connect (`sc://`): the
driver is elsewhere; there is no SparkContext, and a job has no description but tags.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from pyspark import SparkContext
from pyspark.sql import SparkSession

from engine import redaction
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
}
_LOCAL_CONF = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
_CLUSTER_CONF = {
    "spark.task.maxFailures": "8",  # executors that are lost one after the other are not the task's fault
}
# Where this process's own Python reads, the code is run where it lies, compiled, by readers that are forked from a process that has
# loaded it.
_CODE = str(Path(__file__).resolve().parents[2])
_PATH = "spark.executorEnv.PYTHONPATH"
_OWN_PYTHON_CONF = {"spark.python.daemon.module": "engine.spark.daemon"}
_REDACTION = "spark.redaction.regex"
PYTHON = "spark.pyspark.python"
"""Spark's own name for the workers' interpreter; spark-submit alone reads it, so we do."""


class Kind(Protocol):
    """What a session of either kind does in its own way."""

    spark: SparkSession
    ui: str | None
    """The address of Spark's own pages, where it is known."""
    own_python: bool
    """Whether the workers surely run this process's interpreter and code, which lack nothing."""

    def ship(self, archive: Path) -> None:
        """Send an archive of Python code to all workers, also to those that come later."""

    def slots(self) -> int:
        """How many tasks Spark would run at once now, by its own account; 0: none yet."""

    def described(self, description: str) -> AbstractContextManager[None]:
        """A context in which this thread's jobs are described so."""

    def stop(self, *, lost: bool) -> None:
        """End the session; lost: nobody answers there any more."""


def open_kind(name: str, settings: Spark) -> Kind:
    """Start or join the session that the spec asks for. Raises what Spark raises."""
    return _Connect(settings) if settings.master.startswith("sc://") else _Classic(name, settings)


class _Classic:
    """A session whose driver this process started."""

    def __init__(self, name: str, settings: Spark) -> None:
        local = is_local(settings.master)
        python = (
            settings.conf.get(PYTHON) or os.environ.get("PYSPARK_PYTHON") or (sys.executable if local else "python3")
        )
        os.environ["PYSPARK_PYTHON"] = python
        if local:
            # Workers are forked from a daemon that takes the driver's environment.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        self.own_python = local and python == sys.executable
        conf = redacting(configuration(settings, own_python=self.own_python))
        _start_driver({key: value for key, value in conf.items() if not redaction.holds_secret(key, value)})
        builder = SparkSession.builder.appName(f"Tidemark {name}").master(retrying(settings.master))
        for key, value in conf.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("WARN")
        self.ui = self.spark.sparkContext.uiWebUrl

    def ship(self, archive: Path) -> None:
        self.spark.sparkContext.addPyFile(str(archive))

    def slots(self) -> int:
        # What barrier stages ask: cores of the registered executors by cores a task. `defaultParallelism` would be 2 at the
        # least, and what `spark.default.parallelism` says.
        context: Any = self.spark.sparkContext
        scala = context._jsc.sc()  # noqa: SLF001 - Python has no other way to ask
        return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))

    @contextmanager
    def described(self, description: str) -> Iterator[None]:
        self.spark.sparkContext.setJobDescription(description)
        yield

    def stop(self, *, lost: bool) -> None:
        try:
            self.spark.stop()
        except Exception:
            if not lost:
                raise
        finally:
            if lost:
                _forget_driver()


def configuration(settings: Spark, *, own_python: bool) -> dict[str, str]:
    """What a session of a driver of our own is configured with: what we need, and over it the spec's own settings. Pure."""
    conf = {**_CONF, **(_LOCAL_CONF if is_local(settings.master) else _CLUSTER_CONF)}
    if not own_python:
        return {**conf, **settings.conf}
    path = os.pathsep.join(filter(None, (_CODE, settings.conf.get(_PATH))))
    return {**conf, **_OWN_PYTHON_CONF, **settings.conf, _PATH: path}


def _forget_driver() -> None:
    """Let the next session start a driver of its own: PySpark keeps the connection to one for as long as the process lives."""
    context: Any = SparkContext
    if context._gateway is not None:  # noqa: SLF001 - PySpark has no call for a driver that died
        with suppress(Exception):
            context._gateway.shutdown()  # noqa: SLF001
        if (process := getattr(context._gateway, "proc", None)) is not None:  # noqa: SLF001
            process.kill()
            process.wait()
    context._gateway = context._jvm = context._active_spark_context = None  # noqa: SLF001
    session: Any = SparkSession
    session._instantiatedSession = session._activeSession = None  # noqa: SLF001
    os.environ.pop("PYSPARK_GATEWAY_PORT", None)  # it was given one that is gone
    os.environ.pop("PYSPARK_GATEWAY_SECRET", None)


def redacting(conf: Mapping[str, str]) -> dict[str, str]:
    """Settings with which Spark's own pages and logs hide what we hide, beside what the settings themselves name."""
    ours = f"{redaction.HIDDEN}|{redaction.USERINFO}"
    own = conf.get(_REDACTION)
    return {**conf, _REDACTION: f"(?:{own})|(?i:{ours.removeprefix('(?i)')})" if own else ours}


def _start_driver(conf: Mapping[str, str]) -> None:
    """Start the JVM, whose command line, for every user of this machine to read, holds all that pyspark knows at that moment.

    So secrets are no part of it: they go to the running JVM through its socket, with the session.
    """
    from pyspark import SparkConf, SparkContext

    plain = SparkConf(loadDefaults=False)
    for key, value in conf.items():
        plain.set(key, value)
    SparkContext._ensure_initialized(conf=plain)  # noqa: SLF001 - pyspark starts it so, and has no public way


class _Connect:
    """A session on a Connect server."""

    ui: str | None = None
    own_python = False

    def __init__(self, settings: Spark) -> None:
        from pyspark.sql.connect.client.retries import DefaultPolicy

        self.spark = SparkSession.builder.remote(settings.master).create()
        client: Any = self.spark.client
        # About half a minute: a server that is gone for longer has forgotten the session. By default it would be ten minutes.
        patience = DefaultPolicy(max_retries=7, initial_backoff=500, backoff_multiplier=2.0, max_backoff=10_000)
        client.set_retry_policies([patience])
        for key, value in settings.conf.items():
            self._configure(key, value)

    def _configure(self, key: str, value: str) -> None:
        from pyspark.errors import PySparkException

        try:
            self.spark.conf.set(key, value)
        except PySparkException as error:
            if not re.search("CANNOT_MODIFY_(CONFIG|STATIC_CONFIG)", str(error)):
                raise
            raise SpecError(
                f"spark.conf.{key!r} cannot be set through a Connect server.",
                detail="It is a setting of the server's own session, which runs already; nothing was started.",
                hint="Set it where the server is started (--conf), and remove it from the spec.",
            ) from None

    def ship(self, archive: Path) -> None:
        self.spark.addArtifacts(str(archive), pyfile=True)

    def slots(self) -> int:
        # The only account that a client can get, and no job: into how many parts Spark would cut a range, which is the cores of
        # all executors, or 2 where those are fewer.
        plan = self.spark.sql("EXPLAIN SELECT * FROM range(1)").collect()[0][0]
        found = re.search(r"splits=(\d+)", plan)
        cores = int(found[1]) if found else 1
        return max(1, cores // int(self.spark.conf.get("spark.task.cpus", "1") or 1))

    @contextmanager
    def described(self, description: str) -> Iterator[None]:
        tag = description.replace(",", ";")  # which separates tags
        self.spark.addTag(tag)
        try:
            yield
        finally:
            self.spark.removeTag(tag)

    def stop(self, *, lost: bool) -> None:
        session: Any = self.spark
        session.release_session_on_close = not lost
        session.stop()


def retrying(master: str) -> str:
    """`local[N]` never runs a failed task again, `local[N,3]` does; other masters retry anyway."""
    if master.startswith("local[") and "," not in master:
        return f"{master[:-1]},3]"
    return "local[1,3]" if master == "local" else master


def is_local(master: str) -> bool:
    """Whether driver and workers are processes of this machine alone."""
    return master.startswith("local")


def remedy(master: str) -> str:
    """Where another interpreter for the workers is named."""
    if master.startswith("sc://"):
        return "start the Connect server with PYSPARK_PYTHON set to an interpreter that has them"
    return f'name an interpreter that has them in the spec: [spark.conf] "{PYTHON}" = "/path/to/python"'

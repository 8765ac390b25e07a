"""The two kinds of session and all their differences: a driver of our own, or a Connect server's.

Classic: the driver is a JVM of this process, whatever the master (`local[…]`, `spark://`, `yarn`, `k8s://`). Connect
(`sc://`): the driver is elsewhere; there is no SparkContext, and jobs have tags instead of descriptions.
"""

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from pyspark import SparkContext
from pyspark.sql import SparkSession

from engine.base.errors import SpecError
from engine.spark.configuration import driver_configuration, interpreter, is_local, retrying
from engine.spark.driver_process import EarlyDriver, connect
from engine.spec.settings import Spark

_TRIES_TO_OPEN = 3
"""Retries of a Connect call over 4 s: whoever opens the session says that it failed, and tries again."""
_TRIES_WHILE_OPEN = 5
"""Retries of a Connect call over 16 s: a server that restarts has forgotten the session, and a new one costs little."""


class SessionKind(Protocol):
    """The operations that differ between the two kinds of session."""

    spark: SparkSession
    ui: str | None
    """The address of Spark's web UI, if known."""
    own_python: bool
    """Whether the workers certainly run this process's interpreter and code, so that they lack nothing."""
    driver_pid: int | None
    """The process of the driver, if it runs on this host."""

    def ship(self, archive: Path) -> None:
        """Send an archive of Python code to all workers, including those that join later."""

    def ping(self) -> None:
        """Ask the driver something trivial; blocks until it answers."""

    def slots(self) -> int:
        """How many tasks Spark says it would run at once now; 0: none yet."""

    def described(self, description: str) -> AbstractContextManager[None]:
        """A context in which this thread's jobs have this description."""

    def stop(self, *, lost: bool) -> None:
        """End the session. lost: nobody answers there any more."""


def open_kind(name: str, settings: Spark, driver: EarlyDriver | None = None) -> SessionKind:
    """Start or join the session of the spec. driver: may be starting already. Raises what Spark raises."""
    return _Connect(settings) if settings.master.startswith("sc://") else _Classic(name, settings, driver)


class _Classic:
    """A session whose driver was started by this process."""

    def __init__(self, name: str, settings: Spark, driver: EarlyDriver | None) -> None:
        _silence_py4j()
        python = interpreter(settings)
        conf = driver_configuration(settings, python)
        self.own_python = is_local(settings.master) and python == sys.executable
        connect(settings, driver)
        builder = SparkSession.builder.appName(f"Tidemark {name}").master(retrying(settings.master))
        for key, value in conf.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("WARN")
        _silence_lost_driver(self.spark.sparkContext)
        self.ui = self.spark.sparkContext.uiWebUrl
        jvm: Any = self.spark.sparkContext._jvm  # noqa: SLF001 - Python has no other way to ask
        self._java = jvm.java.lang
        self.driver_pid: int | None = int(self._java.ProcessHandle.current().pid())

    def ship(self, archive: Path) -> None:
        self.spark.sparkContext.addPyFile(str(archive))

    def slots(self) -> int:
        # As barrier stages count: cores of the registered executors divided by cores per task. `defaultParallelism`
        # would be at least 2, and whatever `spark.default.parallelism` says.
        context: Any = self.spark.sparkContext
        scala = context._jsc.sc()  # noqa: SLF001 - Python has no other way to ask
        return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))

    def ping(self) -> None:
        self._java.System.nanoTime()

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


def _silence_py4j() -> None:
    """Log no tracebacks of a connection to a driver that died: the next job has the error, and the run reports it."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_py4j)  # it logs some of them without a name


def _silence_lost_driver(context: SparkContext) -> None:
    """Nor does the server to which the driver sends accumulators print them."""
    server: Any = context._accumulatorServer  # noqa: SLF001 - Python has no other way
    print_error = server.handle_error

    def handle_error(request: object, address: object) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            print_error(request, address)

    server.handle_error = handle_error


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def _forget_driver() -> None:
    """Let the next session start a new driver: PySpark keeps the connection to one while the process lives."""
    context: Any = SparkContext
    if context._gateway is not None:  # noqa: SLF001 - PySpark has no call for a driver that died
        with suppress(Exception):
            context._gateway.shutdown()  # noqa: SLF001
        if (process := getattr(context._gateway, "proc", None)) is not None:  # noqa: SLF001
            process.kill()
            process.wait()
    context._gateway = None  # noqa: SLF001
    context._jvm = None  # noqa: SLF001
    context._active_spark_context = None  # noqa: SLF001
    session: Any = SparkSession
    session._instantiatedSession = None  # noqa: SLF001
    session._activeSession = None  # noqa: SLF001
    os.environ.pop("PYSPARK_GATEWAY_PORT", None)  # it refers to the dead driver
    os.environ.pop("PYSPARK_GATEWAY_SECRET", None)


class _Connect:
    """A session on a Connect server."""

    ui: str | None = None
    own_python = False
    driver_pid: int | None = None

    def __init__(self, settings: Spark) -> None:
        self.spark = SparkSession.builder.remote(settings.master).create()
        try:
            self._retry(_TRIES_TO_OPEN)
            for key, value in settings.conf.items():
                self._configure(key, value)
            _ = self.spark.version  # the server answers
        except BaseException:
            self.stop(lost=True)
            raise
        self._retry(_TRIES_WHILE_OPEN)

    def _retry(self, tries: int) -> None:
        """Retry each call so many times while the server cannot be reached. The default would be ten minutes."""
        from pyspark.sql.connect.client.retries import DefaultPolicy

        client: Any = self.spark.client
        client.set_retry_policies([DefaultPolicy(max_retries=tries, initial_backoff=500, backoff_multiplier=2.0)])

    def _configure(self, key: str, value: str) -> None:
        from pyspark.errors import PySparkException

        try:
            self.spark.conf.set(key, value)
        except PySparkException as error:
            if not re.search("CANNOT_MODIFY_(CONFIG|STATIC_CONFIG)", str(error)):
                raise
            raise SpecError(
                f"spark.conf.{key!r} cannot be set through a Connect server.",
                detail="It is a setting of the server's own session, which is already running. Nothing was started.",
                hint="Set it where the server is started (--conf), and remove it from the spec.",
            ) from None

    def ship(self, archive: Path) -> None:
        self.spark.addArtifacts(str(archive), pyfile=True)

    def ping(self) -> None:
        _ = self.spark.version

    def slots(self) -> int:
        # The only number that a client can get without a job: the number of splits of a range, which is the cores of
        # all executors, but at least 2.
        plan = self.spark.sql("EXPLAIN SELECT * FROM range(1)").collect()[0][0]
        match = re.search(r"splits=(\d+)", plan)
        cores = int(match[1]) if match else 1
        return max(1, cores // int(self.spark.conf.get("spark.task.cpus", "1") or 1))

    @contextmanager
    def described(self, description: str) -> Iterator[None]:
        tag = description.replace(",", ";")  # commas separate tags
        self.spark.addTag(tag)
        try:
            yield
        finally:
            self.spark.removeTag(tag)

    def stop(self, *, lost: bool) -> None:
        session: Any = self.spark
        session.release_session_on_close = not lost
        session.stop()

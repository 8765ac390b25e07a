"""The JVM of a driver, which a run starts before it has loaded PySpark, checked its source or opened its state.

PySpark starts the JVM when it opens a session, and waits for it. Here the process starts first: it needs the spec and
no import. It can be killed at any time before the session is open, so what a run refuses meanwhile is refused at once.
`connect` gives the process to PySpark, which then opens the session as usual.

Its command line, which every user of this machine can read, contains no secret: those are sent to the running JVM
through its socket, with the session.

The JVM maps an archive of Spark's classes, if there is one (`class_archive`). If it ends before it answers, PySpark
starts another one, without the archive.
"""

import importlib.util
import os
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from engine.base import redaction
from engine.base.errors import SparkLostError
from engine.spark.class_archive import archive_options, forget_archive, make_in_background
from engine.spark.configuration import driver_configuration, interpreter, is_local
from engine.spec.settings import Spark

_LOOK_S = 0.02
_PATIENCE_S = 2.0
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_GATEWAY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
"""What names a JVM that somebody else has started, such as `spark-submit`."""


class DriverProcess:
    """One JVM that starts."""

    def __init__(self, settings: Spark, home: Path) -> None:
        """Raises OSError if it cannot be started."""
        python = _prepare_environment(settings)
        conf = driver_configuration(settings, python)
        options = archive_options(home)
        self.home = home
        self.uses_archive = bool(options)
        if options:
            conf[JAVA_OPTIONS] = f"{options} {conf[JAVA_OPTIONS]}"
        words = [word for pair in _plain(conf).items() for word in ("--conf", "=".join(pair))]
        submit = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        self._folder = Path(tempfile.mkdtemp(prefix="tidemark-driver-"))
        self._answer = self._folder / "gateway"
        self._killed = threading.Event()
        environment = {
            **os.environ,
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._answer),
        }
        try:
            self.process = subprocess.Popen(
                [str(home / "bin" / "spark-submit"), *words, *submit],
                stdin=subprocess.PIPE,  # the JVM ends when this is closed
                env=environment,
                preexec_fn=_ignore_interrupts,  # noqa: PLW1509 - as PySpark does, and before there are threads
            )
        except OSError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def gateway(self) -> Any:
        """PySpark's connection to it; blocks until it answers. None if it has ended without an answer.

        Raises SparkLostError if it was killed.
        """
        try:
            while not self._answer.exists() and self.process.poll() is None and not self._killed.is_set():
                time.sleep(_LOOK_S)
            if self._killed.is_set():
                raise SparkLostError("Spark was ended while it started.")
            if not self._answer.exists():
                return None
            port, length = struct.unpack_from("!ii", content := self._answer.read_bytes())
            return self._connected(port, content[8 : 8 + length].decode())
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _connected(self, port: int, secret: str) -> Any:
        from pyspark.java_gateway import launch_gateway

        os.environ.update(zip(_GATEWAY, (str(port), secret), strict=True))
        try:
            gateway: Any = cast("Any", launch_gateway)()
        finally:  # other processes of the runner must not use this JVM
            for name in _GATEWAY:
                os.environ.pop(name, None)
        gateway.proc = self.process
        return gateway

    def kill(self) -> None:
        """End it, with whatever it does. Harmless when repeated."""
        self._killed.set()
        self.process.terminate()  # so it deletes its folders
        try:
            self.process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdin:
            with suppress(OSError):
                self.process.stdin.close()


class EarlyDriver:
    """A JVM that starts early, for the first session alone."""

    def __init__(self, process: DriverProcess) -> None:
        self._process: DriverProcess | None = process
        self._begun: DriverProcess = process

    def take(self) -> DriverProcess | None:
        """The process, once."""
        process, self._process = self._process, None
        return process

    def kill(self) -> None:
        """End it at once; a session that uses it is lost."""
        self._begun.kill()

    def end(self) -> None:
        """End it if no session has asked for it."""
        if (process := self.take()) is not None:
            process.kill()


def start_early(settings: Spark, *, standby: bool = False) -> EarlyDriver | None:
    """Start the driver's JVM, if a session of these settings needs one that is not there yet.

    standby: whether the session may be needed only in days: then a driver of a cluster does not wait for that.
    """
    if settings.master.startswith("sc://") or (standby and not is_local(settings.master)) or _is_elsewhere():
        return None
    home = spark_home()
    if home is None:
        return None
    try:
        return EarlyDriver(DriverProcess(settings, home))
    except OSError:  # PySpark says why, when the session is opened
        return None


def connect(settings: Spark, driver: EarlyDriver | None) -> None:
    """Give PySpark a JVM: the early one, or one that starts now. Raises what PySpark raises."""
    from pyspark import SparkConf, SparkContext

    contexts: Any = SparkContext
    python = _prepare_environment(settings)
    process = driver.take() if driver is not None else None
    if process is None and (later := start_early(settings)) is not None:
        process = later.take()
    if process is not None and contexts._gateway is None:  # noqa: SLF001 - it has no public name
        gateway = process.gateway()
        if gateway is not None:
            contexts._ensure_initialized(gateway=gateway)  # noqa: SLF001 - nor has this
            if not process.uses_archive:
                make_in_background(process.home)
            return
        if process.uses_archive:
            forget_archive(process.home)
    plain = SparkConf(loadDefaults=False)
    for key, value in _plain(driver_configuration(settings, python)).items():
        plain.set(key, value)
    contexts._ensure_initialized(conf=plain)  # noqa: SLF001


def _plain(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings without secrets."""
    return {key: value for key, value in conf.items() if not redaction.holds_secret(key, value)}


def _is_elsewhere() -> bool:
    """Whether there is a JVM already: one that the environment names, or that of an earlier session here."""
    context: Any = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return _GATEWAY[0] in os.environ or getattr(context, "_gateway", None) is not None


def spark_home() -> Path | None:
    """Where Spark is, as PySpark finds it; None if only PySpark finds it, or on Windows, which has other scripts."""
    if os.name == "nt":
        return None
    if "SPARK_HOME" in os.environ:
        home = Path(os.environ["SPARK_HOME"])
    else:
        module = importlib.util.find_spec("pyspark")
        if module is None or module.origin is None:
            return None
        home = Path(module.origin).parent
    return home if (home / "bin" / "spark-submit").is_file() and (home / "jars").is_dir() else None


def _prepare_environment(settings: Spark) -> str:
    """Set what a driver and its workers inherit. Returns the workers' interpreter."""
    python = interpreter(settings)
    os.environ["PYSPARK_PYTHON"] = python
    if is_local(settings.master):
        # Workers are forked from a daemon that inherits the driver's environment.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return python


def _ignore_interrupts() -> None:
    """Ctrl-C is for the run, which ends Spark when it has finished what is in progress."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

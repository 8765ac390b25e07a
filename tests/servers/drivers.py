"""JVMs for the drivers of local sessions, kept from one runner to the next.

A runner whose environment names a gateway makes its SparkContext there instead of starting a JVM: the same classic
session by the same code, without the twelve seconds of processor time that a JVM takes to read Spark's classes. The
context is the runner's own, and ends with it; what a killed runner leaves is stopped before the JVM is lent again.
"""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.protocol import Py4JError

from tests.servers.server import ServerFailedError
from tests.servers.spark import HOME, HOST, JAVA_OPTIONS
from tests.support.patience import PATIENCE_S

_USES = 40
"""A JVM is replaced after this many runners: each leaves a few megabytes."""


class Driver:
    """One JVM; `environment` is what makes a runner use it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="tidemark-driver-"))
        info_file, self.uses = self._folder / "gateway", 0
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        environment |= {
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_CONNECT_MODE": "0",
            "PYSPARK_PYTHON": sys.executable,
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info_file),
        }
        settings = ("spark.driver.memory=1g", f"spark.driver.extraJavaOptions={JAVA_OPTIONS}")
        self._log = self._folder / "driver.log"
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL", "--", str(HOME / "bin/spark-submit")),
                    *(word for setting in settings for word in ("--conf", setting)),
                    "pyspark-shell",
                ],
                stdin=subprocess.PIPE,  # it ends when this is closed
                stdout=out,
                stderr=out,
                env=environment,
                start_new_session=True,
            )
        self.environment = self._gateway(info_file)

    def _gateway(self, info_file: Path) -> dict[str, str]:
        deadline = time.monotonic() + PATIENCE_S
        while not info_file.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                log = self._log.read_text(errors="replace")[-3000:]
                self.close()
                raise ServerFailedError(f"Spark's driver does not answer:\n{log}")
            time.sleep(0.05)
        port, length = struct.unpack_from("!ii", content := info_file.read_bytes())
        return {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": content[8 : 8 + length].decode()}

    def clear(self) -> bool:
        """Stop the context that a killed runner left; returns whether the JVM can be used again."""
        port, secret = self.environment["PYSPARK_GATEWAY_PORT"], self.environment["PYSPARK_GATEWAY_SECRET"]
        if self.uses >= _USES or self._process.poll() is not None:
            return False
        gateway = ClientServer(
            java_parameters=JavaParameters(port=int(port), auth_token=secret),
            python_parameters=PythonParameters(port=0, eager_load=False),
        )
        try:
            contexts = gateway.jvm.java.lang.Class.forName("org.apache.spark.SparkContext$")
            context: Any = contexts.getField("MODULE$").get(None).getActive()
            if context.isDefined():
                context.get().stop()
        except Py4JError:
            return False
        finally:
            gateway.close()
        return True

    def close(self) -> None:
        """Kill the JVM and its Python workers."""
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        self._process.kill()
        self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class Drivers:
    """All JVMs of a test run: `lend` one to a runner, give it `back` when the runner has ended."""

    def __init__(self) -> None:
        self._idle: list[Driver] = []
        self._all: list[Driver] = []

    def lend(self) -> Driver:
        """A JVM that no runner uses."""
        if not self._idle:
            self._all.append(driver := Driver())
            self._idle.append(driver)
        driver = self._idle.pop()
        driver.uses += 1
        return driver

    def back(self, driver: Driver) -> None:
        """Return a JVM whose runner has ended in any way."""
        if driver.clear():
            self._idle.append(driver)
        else:
            self._all.remove(driver)
            driver.close()

    def close(self) -> None:
        """Close all JVMs."""
        for driver in self._all:
            driver.close()
        self._all, self._idle = [], []

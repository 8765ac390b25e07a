"""Private Spark clusters on this machine: a standalone Master with Workers, and Connect servers, from pip's pyspark.

Each process is started by ``spark-class`` on free ports of 127.0.0.1, with its files in a folder of its own, and ends
with `close`; a killed test run takes them along (``setpriv --pdeathsig``; executors follow their Worker, Python workers
their executor).
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil
import pyspark

from tests.servers.apart import apart_from
from tests.servers.server import ServerFailedError, free_port
from tests.support.patience import PATIENCE_S

HOME = Path(pyspark.__file__).parent
HOST = "127.0.0.1"
FOLDER_PREFIX = "tidemark-spark-"
# They start in half the time so, and have little to do.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True)
class Elsewhere:
    """Another host: a process that sees some folders empty, and has other credentials of AWS."""

    hidden: Sequence[Path] = ()
    credentials: Mapping[str, str] = field(default_factory=dict)


class Daemon:
    """One process of Spark, a session leader. `name` also names its log; python: what its Python workers run.

    elsewhere: the host that it is on, if not this one.
    """

    def __init__(
        self, folder: Path, name: str, *command: str, python: str = sys.executable, elsewhere: Elsewhere | None = None
    ) -> None:
        self.name, self.log = name, folder / f"{name}.log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        environment |= {
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
            "PYSPARK_PYTHON": python,
        }
        apart = list[str]()
        if elsewhere is not None:
            apart = apart_from(elsewhere.hidden)
            environment = {name: value for name, value in environment.items() if not name.startswith("AWS_")}
            environment |= elsewhere.credentials
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [*apart, "setpriv", "--pdeathsig", "KILL", "--", str(HOME / "bin/spark-class"), *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )

    def wait_for(self, port: int) -> None:
        """Wait until it listens there. Raises ServerFailedError with the end of its log when it does not."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection((HOST, port), 1.0):
                return
            time.sleep(0.1)
        tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
        self.close()
        raise ServerFailedError(f"the {self.name} of Spark does not answer:\n{tail}")

    @property
    def descendants(self) -> list[psutil.Process]:
        """Its executors and Python workers."""
        return list(psutil.Process(self.process.pid).children(recursive=True))

    def close(self) -> None:
        """Kill it and what it started; harmless when repeated."""
        with suppress(psutil.Error):
            for process in [*self.descendants, psutil.Process(self.process.pid)]:
                with suppress(psutil.Error):
                    process.kill()
        self.process.wait()


def _runs(process: psutil.Process, word: str) -> bool:
    try:
        return any(word in part for part in process.cmdline())
    except psutil.Error:  # it has just ended
        return False


class Cluster:
    """A standalone cluster; `master` is its ``spark://`` address.

    Workers have one core each and come by `add_worker`. elsewhere: the workers' host, as of `Daemon`.
    """

    def __init__(self, workers: int = 2, elsewhere: Elsewhere | None = None) -> None:
        self._elsewhere = elsewhere
        self.folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
        self.workers: list[Daemon] = []
        port = free_port()
        self.master = f"spark://{HOST}:{port}"
        place = ("--host", HOST, "--port", str(port), "--webui-port", "0")
        self._master = Daemon(self.folder, "master", "org.apache.spark.deploy.master.Master", *place)
        try:
            self._master.wait_for(port)
            for _ in range(workers):
                self.add_worker()
        except BaseException:
            self.close()
            raise

    def add_worker(self) -> Daemon:
        """One Worker more; it registers by itself."""
        name, port = f"worker-{len(self.workers)}", free_port()
        place = ("--host", HOST, "--port", str(port), "--webui-port", "0", "--work-dir", str(self.folder / name))
        size = ("--cores", "1", "--memory", "1g")
        worker = Daemon(
            self.folder,
            name,
            "org.apache.spark.deploy.worker.Worker",
            *place,
            *size,
            self.master,
            elsewhere=self._elsewhere,
        )
        self.workers.append(worker)
        worker.wait_for(port)
        return worker

    @property
    def executors(self) -> list[psutil.Process]:
        """The executors' processes."""
        return [p for worker in self.workers for p in worker.descendants if _runs(p, "CoarseGrainedExecutorBackend")]

    def close(self) -> None:
        """End everything and remove the folder."""
        for daemon in (*self.workers, self._master):
            daemon.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ConnectServer:
    """A Spark Connect server with two local slots: `master` is its ``sc://`` address. elsewhere: as of `Daemon`."""

    def __init__(self, python: str = sys.executable, elsewhere: Elsewhere | None = None) -> None:
        self._elsewhere = elsewhere
        self.folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
        self.port, self._python = free_port(), python
        self.master = f"sc://{HOST}:{self.port}"
        self.start()

    def start(self) -> None:
        """Start the process, again after `kill`: on the same port, and it knows no session."""
        settings = {
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.host": HOST,
            "spark.driver.extraJavaOptions": JAVA_OPTIONS,
            "spark.ui.enabled": "false",
        }
        command = ["org.apache.spark.deploy.SparkSubmit", "--master", "local[2]"]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        command += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        self.daemon = Daemon(
            self.folder, "connect", *command, "spark-internal", python=self._python, elsewhere=self._elsewhere
        )
        self.daemon.wait_for(self.port)

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        self.daemon.process.send_signal(signal.SIGKILL)
        self.daemon.close()

    def close(self) -> None:
        """End it and remove the folder."""
        self.daemon.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

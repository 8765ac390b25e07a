"""Where a pipeline's readers run, and how a test kills one of them.

They run locally, on a standalone cluster or through Spark Connect.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

from tests.live.support.background import Background
from tests.live.support.pipeline import Pipeline
from tests.servers.spark import Cluster, ConnectServer, Daemon
from tests.support.patience import PATIENCE_S

SESSIONS = ("local", "standalone", "connect")
READERS = 2
"""The number of readers in every session here."""


@dataclass(frozen=True)
class Session:
    """settings: the lines of the spec's [spark].

    victim: maps a reader's pid to the process to kill; None: nothing is killed.
    """

    settings: str
    victim: Callable[[int], psutil.Process] | None = None

    @contextmanager
    def losing_one(self, pipeline: Pipeline) -> Iterator[None]:
        """Kill a worker that has read a chunk during its next task; fails if no task was hit by the end."""
        if self.victim is None:
            yield
            return
        with _Loss(pipeline, self.victim) as loss:
            yield
            deadline = time.monotonic() + PATIENCE_S
            while not loss.hit and time.monotonic() < deadline:  # on a busy machine the copy takes longer than the load
                time.sleep(0.1)
            assert loss.hit, "no task was lost"


class _Loss(Background):
    """Kills workers until one was hit during a task, then checks that the task is tried again."""

    def __init__(self, pipeline: Pipeline, victim: Callable[[int], psutil.Process]) -> None:
        super().__init__()
        self._pipeline, self._victim, self.hit = pipeline, victim, False

    def work(self, number: int) -> None:
        while not self.stopping.is_set() and not self.hit:
            busy = next(filter(_works, self._readers()), None)
            if busy is None or not self._frozen_in_a_task(busy):
                time.sleep(0.02)
                continue
            self._victim(busy).kill()
            deadline = time.monotonic() + 4.0
            while not self.hit and not self.stopping.is_set() and time.monotonic() < deadline:
                self.hit = self._tried_again()
                time.sleep(0.1)

    def _readers(self) -> set[int]:
        """The pids of the readers, when no task has just ended.

        Then as many chunks are being read as there are readers.
        """
        under_way: set[int] = set()
        for event in self._pipeline.events("chunk.assigned", "chunk.finished", "chunk.failed"):
            if event["event"] == "chunk.assigned":
                under_way |= set(event["chunks"])
            else:
                under_way -= set(event["chunks"]) if event["event"] == "chunk.failed" else {event["chunk"]}
        pids = {event["pid"] for event in self._pipeline.events("chunk.finished")}
        return pids if len(under_way) >= READERS else set()

    def _frozen_in_a_task(self, pid: int) -> bool:
        """Suspend a reader, so that its task cannot end before the kill.

        False, and resumed, if its task had just ended.
        """
        with suppress(psutil.NoSuchProcess):
            reader = psutil.Process(pid)
            reader.suspend()
            time.sleep(0.3)  # the runner journals a task that has ended
            if self._readers():
                return True
            reader.resume()
        return False

    def _tried_again(self) -> bool:
        """Whether Spark's warning or, without one, Tidemark's journal shows that the task was retried."""
        failures = self._pipeline.events("chunk.failed", "error")
        return "ExecutorLostFailure" in self._pipeline.output or any(
            "lost its worker" in e["message"] for e in failures
        )


def _works(pid: int) -> bool:
    """Whether the process is alive and busy."""
    try:
        process = psutil.Process(pid)
        before = process.cpu_times()
        time.sleep(0.05)
        return bool(process.cpu_times().user > before.user)
    except psutil.NoSuchProcess:
        return False


def spark_settings(master: str, python: str = sys.executable) -> str:
    """The [spark] settings for a master on this machine.

    `python` is the interpreter of a standalone cluster's workers.
    """
    lines = f'master = "{master}"\n'
    if master.startswith("spark://"):
        lines += f'[spark.conf]\n"spark.driver.host" = "127.0.0.1"\n"spark.pyspark.python" = "{python}"\n'
    return lines


@contextmanager
def session_of(kind: str) -> Iterator[Session]:
    """Each of `SESSIONS`; clusters and servers end with the block."""
    if kind == "local":
        yield Session(spark_settings("local[2]"))
    elif kind == "standalone":
        with Cluster() as cluster:
            yield Session(spark_settings(cluster.master), lambda pid: _executor(cluster, pid))
    else:
        with ConnectServer() as connect:
            yield Session(spark_settings(connect.master), lambda pid: _reader(connect.daemon, pid))


def _reader(daemon: Daemon, pid: int) -> psutil.Process:
    """The Python worker that the report names, a child of the daemon."""
    (process,) = [p for p in daemon.descendants if p.pid == pid]
    return process


def _executor(cluster: Cluster, pid: int) -> psutil.Process:
    """The executor of that Python worker."""
    (executor,) = [e for e in cluster.executors if pid in {p.pid for p in e.children(recursive=True)}]
    return executor

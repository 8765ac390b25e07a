"""Where a pipeline's readers run: this machine, a standalone cluster, a Connect server; and how one of them is lost."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from tests.live.support.background import Background
from tests.live.support.pipeline import Pipeline
from tests.servers.spark import Cluster, ConnectServer, Daemon

SESSIONS = ("local", "standalone", "connect")
READERS = 2
"""Of every session here."""


@dataclass(frozen=True)
class Session:
    """`settings`: the lines of the spec's [spark]. victim: the process to kill for a reader's pid; None: none is killed."""

    settings: str
    victim: Callable[[int], psutil.Process] | None = None

    @contextmanager
    def losing_one(self, pipeline: Pipeline) -> Iterator[None]:
        """Kill a worker that has read a chunk, in the midst of its next task; fails when none was hit by the end."""
        if self.victim is None:
            yield
            return
        with _Loss(pipeline, self.victim) as loss:
            yield
            assert loss.hit, "no task was lost"


class _Loss(Background):
    """Kills until one was hit in the midst of a task, which is then seen to be tried again."""

    def __init__(self, pipeline: Pipeline, victim: Callable[[int], psutil.Process]) -> None:
        super().__init__()
        self._pipeline, self._victim, self.hit = pipeline, victim, False

    def work(self, number: int) -> None:
        while not self.stopping.is_set() and not self.hit:
            busy = next(filter(_works, self._readers()), None)
            if busy is None:
                time.sleep(0.02)
                continue
            self._victim(busy).kill()
            deadline = time.monotonic() + 4.0
            while not self.hit and not self.stopping.is_set() and time.monotonic() < deadline:
                self.hit = self._tried_again()
                time.sleep(0.1)

    def _readers(self) -> set[int]:
        """Their pids, while as many chunks are under way as there are readers: then none has just ended its task."""
        under_way: set[int] = set()
        for event in self._pipeline.events("chunk.assigned", "chunk.finished", "chunk.failed"):
            if event["event"] == "chunk.assigned":
                under_way |= set(event["chunks"])
            else:
                under_way -= set(event["chunks"]) if event["event"] == "chunk.failed" else {event["chunk"]}
        pids = {event["pid"] for event in self._pipeline.events("chunk.finished")}
        return pids if len(under_way) >= READERS else set()

    def _tried_again(self) -> bool:
        """By Spark, which warns of it, or by Tidemark where Spark does not."""
        failures = self._pipeline.events("chunk.failed", "error")
        return "ExecutorLostFailure" in self._pipeline.output or any(
            "lost its worker" in e["message"] for e in failures
        )


def _works(pid: int) -> bool:
    """Whether the process lives and computes."""
    try:
        process = psutil.Process(pid)
        before = process.cpu_times()
        time.sleep(0.05)
        return bool(process.cpu_times().user > before.user)
    except psutil.NoSuchProcess:
        return False


def spark_settings(master: str, python: str = sys.executable) -> str:
    """The lines for a master on this machine; `python` is what the workers of a standalone cluster run."""
    lines = f'master = "{master}"\n'
    if master.startswith("spark://"):
        lines += f'[spark.conf]\n"spark.driver.host" = "127.0.0.1"\n"spark.pyspark.python" = "{python}"\n'
    return lines


@contextmanager
def session_of(kind: str) -> Iterator[Session]:
    """Each of `SESSIONS`; cluster and server end with the block."""
    if kind == "local":
        yield Session(spark_settings("local[2]"))
    elif kind == "standalone":
        with Cluster() as cluster:
            yield Session(spark_settings(cluster.master), lambda pid: _executor(cluster, pid))
    else:
        with ConnectServer() as connect:
            yield Session(spark_settings(connect.master), lambda pid: _reader(connect.daemon, pid))


def _reader(daemon: Daemon, pid: int) -> psutil.Process:
    """The Python worker itself, which must be what the report says: a process below the daemon."""
    (process,) = [p for p in daemon.descendants if p.pid == pid]
    return process


def _executor(cluster: Cluster, pid: int) -> psutil.Process:
    """The executor whose Python worker that is."""
    (executor,) = [e for e in cluster.executors if pid in {p.pid for p in e.children(recursive=True)}]
    return executor

"""Where a pipeline's readers run: this machine, a standalone cluster, a Connect server; and how one of them is lost."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from tests.live.background import Background
from tests.live.pipeline import Pipeline
from tests.servers.spark import Cluster, ConnectServer, Daemon

SESSIONS = ("local", "standalone", "connect")


@dataclass(frozen=True)
class Session:
    """`settings`: the lines of the spec's [spark]. victim: the process to kill for a reader's pid; None: none is killed."""

    settings: str
    victim: Callable[[int], psutil.Process] | None = None

    @contextmanager
    def losing_one(self, pipeline: Pipeline) -> Iterator[None]:
        """Kill a worker after the first chunk that it has read; fails when none was killed by the end of the block."""
        if self.victim is None:
            yield
            return
        with _Loss(pipeline, self.victim) as loss:
            yield
            assert loss.killed, "no chunk was read"


class _Loss(Background):
    def __init__(self, pipeline: Pipeline, victim: Callable[[int], psutil.Process]) -> None:
        super().__init__()
        self._pipeline, self._victim, self.killed = pipeline, victim, False

    def work(self, number: int) -> None:
        while not self.stopping.is_set():
            read = self._pipeline.events("chunk.finished")
            if read:
                self._victim(read[-1]["pid"]).kill()
                self.killed = True
                return
            time.sleep(0.05)


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

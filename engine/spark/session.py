"""The Spark session: opens it from the spec, ships our code, checks its workers and counts its slots."""

import os
import secrets
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from engine import __version__
from engine.base import processes
from engine.base.errors import SparkLostError, TidemarkError, TransientError
from engine.base.redaction import redact
from engine.capture.reports import ReaderReport
from engine.capture.tasks import Task, WarmUp
from engine.journal.event_fields import SparkFacts
from engine.spark.configuration import is_local, remedy
from engine.spark.driver_process import EarlyDriver
from engine.spark.failures import explained
from engine.spark.jobs import run_tasks
from engine.spark.kinds import SessionKind, open_kind
from engine.spark.store_access import require_access
from engine.spark.workers import ask, hosts, require, versions
from engine.spec.settings import Spec
from engine.store.folder import Folder
from engine.store.operations import OPERATIONS

_FIRST_TASK_S = 180.0
"""Seconds after which a cluster that has run no task of ours counts as having no room for us."""
_LOOK_S = 5.0
"""Seconds between counts of the slots. Counting also keeps a Connect session alive, which its server ends after an idle
hour."""
_TRIES = 4

T = TypeVar("T")


class Session:
    """A running session, created by `open_session`. master, ui (address of Spark's web UI, if known), version."""

    def __init__(self, kind: SessionKind, master: str) -> None:
        self._kind = kind
        self.master = master
        self.ui = kind.ui
        self._code = tempfile.TemporaryDirectory(prefix="tidemark-code-")
        self._claimed = 0
        self._overstated = 0
        self._most: int | None = None
        self._lost = False
        self._interrupted = False
        self._closing = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="slots", daemon=True)
        self.version: str = kind.spark.version

    @property
    def slots(self) -> int:
        """How many tasks run at once: Spark's current number, minus its excess at the start."""
        slots = max(1, self._claimed - self._overstated)
        return slots if self._most is None else min(slots, self._most)

    def limit_tasks(self, most: int | None) -> None:
        """Let at most so many tasks of a job run at once; None: all that there are slots for."""
        self._most = most

    def run(self, tasks: Sequence[Task], description: str) -> list[ReaderReport]:
        """Run the tasks as one job and return all their reports; blocks. Thread-safe.

        Raises TransientError if Spark lost a task's worker on all attempts, or `interrupt` ended it; PreflightError if
        a worker lacks something; SparkLostError if the session has ended; and otherwise whatever Spark raises.
        """
        try:
            if not self._interrupted:
                described = self._kind.described(description)
                with _explained(self.master, self._hosts), described, OPERATIONS.under_way():
                    most = self._most or len(tasks)
                    if len(tasks) <= most:
                        return run_tasks(self._kind.spark, tasks)
                    parts = [tasks[first : first + most] for first in range(0, len(tasks), most)]
                    return [report for part in parts for report in run_tasks(self._kind.spark, part)]
        except SparkLostError:
            self._lost = True
            raise
        except Exception:
            if not self._interrupted:
                raise
        raise TransientError("The run is ending, so this read was interrupted.", detail="Nothing of it was published.")

    @property
    def driver_pid(self) -> int | None:
        """The process of the driver, if it runs on this host."""
        return self._kind.driver_pid

    def require_driver(self) -> None:
        """Raises SparkLostError if the driver's process, which is on this host, has ended. Asks nobody."""
        pid = self.driver_pid
        if pid is not None and processes.is_gone(pid):
            self._lost = True
            raise SparkLostError(
                f"Spark's process {pid} has ended.",
                detail="Committed data is complete; the rest is read again.",
                hint="Find out what ended it: the system's log names a process that had no memory.",
            )

    def ping(self) -> None:
        """Ask Spark something trivial; blocks until it answers. Thread-safe. Raises whatever Spark raises."""
        self._kind.ping()

    def interrupt(self) -> None:
        """End all jobs, and let no new ones begin. Thread-safe."""
        self._interrupted = True
        with suppress(Exception):  # a lost session has no jobs
            self._kind.spark.interruptAll()

    def facts(self) -> SparkFacts:
        """The session, for the journal."""
        return SparkFacts(self.master, self.ui, self.version, self.slots)

    def prepare(self, folder: Path | None, store: Folder | None = None) -> None:
        """Ship our code, check the workers, start a reader in each slot and count them.

        folder: the destination's; None if it is in a bucket. store: that bucket, tried where workers are not on this
        host. Raises PreflightError with what the workers lack.
        """
        if self._kind.own_python:
            self._claimed = self._kind.slots()
            self.run([WarmUp()] * self.slots, "starting the readers")
        else:
            self._kind.ship(_archive(Path(self._code.name)))
            with _explained(self.master, self._hosts):
                answers = _in_time(lambda: self._ask(folder), self.master)
            require(answers, versions(), folder, remedy(self.master))
            self._count(store)
        if not is_local(self.master):
            self._watcher.start()

    def _ask(self, folder: Path | None) -> list[dict[str, Any]]:
        if folder is None:
            return ask(self._kind.spark, self._enough, Path(os.devnull))
        folder.mkdir(parents=True, exist_ok=True)
        marker = folder / f".tidemark-{secrets.token_hex(8)}"
        marker.touch()
        try:
            return ask(self._kind.spark, self._enough, marker)
        finally:
            marker.unlink()

    @property
    def _enough(self) -> int:
        """Enough tasks to reach every worker: Spark fills all slots before it gives one a second task."""
        return 2 * max(2, self._kind.slots())

    def _hosts(self) -> list[str]:
        with suppress(Exception):  # the error being explained matters more
            return hosts(self._kind.spark, self._enough)
        return []

    def _count(self, store: Folder | None) -> None:
        """Fill all slots and count the readers; repeat while executors register."""
        for _ in range(_TRIES):
            claimed = max(1, self._kind.slots())
            reports = self.run([WarmUp(store)] * (2 * claimed), "starting the readers")
            require_access(reports, store)
            self._claimed = self._kind.slots()
            readers = {report.reader for report in reports}
            # There may be more readers than slots: a slot may begin its next task before Spark has its last worker
            # back.
            self._overstated = max(0, claimed - len(readers))
            if self._claimed <= claimed:
                return

    def _watch(self) -> None:
        while not self._closing.wait(_LOOK_S):
            with suppress(Exception):  # the next job will report it
                self._claimed = self._kind.slots()

    def stop(self) -> None:
        """End the session and its workers."""
        self._closing.set()
        if self._watcher.is_alive():
            self._watcher.join(1.0)
        self._kind.stop(lost=self._lost)
        self._code.cleanup()


def open_session(spec: Spec, driver: EarlyDriver | None = None) -> Session:
    """Start or join the session of the spec, ready to run tasks. driver: the JVM for the first one.

    Raises PreflightError if its workers lack what readers need, SparkLostError if nobody answers there.
    """
    master = spec.spark.master
    with _explained(master):
        session = Session(open_kind(spec.name, spec.spark, driver), master)
        try:
            session.prepare(spec.sink.local_path, spec.sink.quick_folder if spec.sink.is_bucket else None)
        except BaseException:
            session.stop()
            raise
        return session


@contextmanager
def _explained(master: str, hosts: Callable[[], Sequence[str]] = tuple) -> Iterator[None]:
    """Convert known failures of Spark to errors of ours."""
    try:
        yield
    except TidemarkError:
        raise
    except ImportError as error:  # of the client, such as a package that Connect needs
        raise TidemarkError(
            f"The runner lacks a Python package that spark.master = {master!r} needs: {error}",
            detail="Nothing was started.",
            hint="Install the packages of requirements.txt for the runner.",
        ) from error
    except Exception as error:
        ours = explained(f"{type(error).__name__}: {error}", master, remedy(master), hosts)
        if ours is None:
            raise
        if type(ours) is TidemarkError:  # unknown: its message is only the end of the trace
            sys.stderr.write(redact(f"{type(error).__name__}: {error}\n"))
        raise ours from error


def _in_time(first: Callable[[], T], master: str) -> T:
    """The result of the first job. Raises SparkLostError if it does not run; stopping the session then ends it."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="first")
    try:
        return pool.submit(first).result(_FIRST_TASK_S)
    except TimeoutError:
        raise SparkLostError(
            f"Spark at {master} has run no task within {_FIRST_TASK_S:.0f} s.",
            detail="No executor registered, or none has a free core or enough memory. Nothing was read.",
            hint="Look at Spark's web UI: are workers registered, with free cores and enough memory for "
            "spark.executor.memory (spark.cores.max limits what other applications take)? Can they reach this host "
            "(spark.driver.host)?",
        ) from None
    finally:
        pool.shutdown(wait=False)


def _archive(folder: Path) -> Path:
    """Pack the engine's own code into an archive for the workers."""
    root = Path(__file__).resolve().parent.parent
    target = folder / f"tidemark-engine-{__version__}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            archive.write(path, path.relative_to(root.parent))
    return target

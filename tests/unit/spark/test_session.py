"""A session with a fake kind: what workers are asked, how slots are counted, and what failures cause."""

import json
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import PreflightError, SparkLostError, TidemarkError
from engine.capture.reports import ReaderProcess, ReaderReport
from engine.capture.tasks import Task
from engine.journal.event_fields import SparkFacts
from engine.spark import kinds
from engine.spark import session as sessions
from engine.spark.session import Session
from engine.spark.workers import answer


class Fake:
    """A kind that reports `reported` slots and has `real` ones."""

    version = "4.3.0"
    ui: str | None = None
    driver_pid: int | None = None

    def __init__(self, reported: int = 2, real: int = 2, *, own_python: bool = False) -> None:
        self.reported, self.real, self.own_python = reported, real, own_python
        self.spark: Any = self
        self.archives: list[Path] = []
        self.stopped: list[bool] = []
        self.failure: Exception | None = None
        self.jobs: list[int] = []
        self.join: list[int] = []

    def ship(self, archive: Path) -> None:
        assert archive.exists()
        self.archives.append(archive)

    def ping(self) -> None:
        """It answers at once."""

    def slots(self) -> int:
        return self.reported

    def described(self, description: str) -> AbstractContextManager[None]:
        return nullcontext()

    def stop(self, *, lost: bool) -> None:
        self.stopped.append(lost)

    def run_tasks(self, _: Any, tasks: Sequence[Task]) -> list[ReaderReport]:
        if self.failure:
            raise self.failure
        self.jobs.append(len(tasks))
        if self.join:  # an executor registers meanwhile
            self.reported = self.real = self.join.pop(0)
        return [ReaderReport(reader=ReaderProcess("h", n % self.real)) for n in range(len(tasks))]

    def ask(self, _: Any, tasks: int, marker: Path) -> list[dict[str, Any]]:
        return [json.loads(answer(str(marker)))] * tasks


@contextmanager
def opened(
    kind: Fake, monkeypatch: pytest.MonkeyPatch, folder: Path, master: str = "spark://m:7077"
) -> Iterator[Session]:
    """A session of that kind that is ready and polls often."""
    monkeypatch.setattr(sessions, "run_tasks", kind.run_tasks)
    monkeypatch.setattr(sessions, "ask", kind.ask)
    monkeypatch.setattr(sessions, "hosts", lambda *_: ["h"])
    monkeypatch.setattr(sessions, "_LOOK_S", 0.01)
    session = Session(kind, master)
    try:
        session.prepare(folder / "lake")
        yield session
    finally:
        session.stop()


def test_a_local_session_is_not_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its workers use this interpreter and code.

    One job starts them, no code is sent, the destination is not tested.
    """
    kind = Fake(own_python=True)
    with opened(kind, monkeypatch, tmp_path, "local[2]") as session:
        assert (session.slots, kind.jobs) == (2, [2])
    assert not (tmp_path / "lake").exists()
    assert kind.archives == []
    assert kind.stopped == [False]


def test_slots_are_those_that_really_run_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The start corrects Spark's number, which is tracked from then on."""
    kind = Fake(reported=2, real=1)
    with opened(kind, monkeypatch, tmp_path) as session:
        assert session.slots == 1
        kind.reported = 5
        deadline = time.monotonic() + 5
        while session.slots != 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert session.slots == 4
        assert session.facts() == SparkFacts("spark://m:7077", None, "4.3.0", 4)
    assert list((tmp_path / "lake").iterdir()) == []  # the file that workers looked for is gone
    assert [archive.exists() for archive in kind.archives] == [False]  # our code was sent, and is gone too


def test_executors_that_register_late_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The count is repeated as long as more of them appear."""
    kind = Fake(reported=1, real=1)
    kind.join = [2, 4]
    with opened(kind, monkeypatch, tmp_path) as session:
        assert session.slots == 4
        assert kind.jobs == [2, 4, 8]


def test_workers_that_lack_something_end_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By their answers, or by Spark's refusal to run another version of Python."""
    kind = Fake()
    answer = {"host": "h", "pid": 1, "python": "p", "found": {}, "sees": True}
    kind.ask = lambda *_: [answer]  # type: ignore[method-assign]
    with pytest.raises(PreflightError, match="pymysql on h"), opened(kind, monkeypatch, tmp_path):
        pass

    def refuse(*_: Any) -> list[dict[str, Any]]:
        text = "Python in worker has different version: 3.12 than that in driver: 3.11, PySpark"
        raise RuntimeError(text)

    monkeypatch.setattr(kind, "ask", refuse)
    with pytest.raises(PreflightError, match=r"workers on h run Python 3\.12"), opened(kind, monkeypatch, tmp_path):
        pass
    assert list((tmp_path / "lake").iterdir()) == []


def test_a_cluster_without_room_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A job that never starts is not waited for indefinitely."""
    kind = Fake()

    def never(*_: object) -> list[dict[str, Any]]:
        time.sleep(0.5)
        return []

    monkeypatch.setattr(kind, "ask", never)
    monkeypatch.setattr(sessions, "_FIRST_TASK_S", 0.05)
    with pytest.raises(SparkLostError, match="has run no task"), opened(kind, monkeypatch, tmp_path):
        pass


def test_a_lost_session_is_not_ended_politely(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It would not answer. Unknown failures stay unchanged, and packages missing here are not the workers'."""
    kind = Fake()
    with opened(kind, monkeypatch, tmp_path) as session:
        kind.failure = ZeroDivisionError("a fault of our own")
        with pytest.raises(ZeroDivisionError):
            session.run([], "")
        kind.failure = ImportError("No module named 'grpc'")
        with pytest.raises(TidemarkError, match="The runner lacks a Python package"):
            session.run([], "")
        kind.failure = RuntimeError("StatusCode.UNAVAILABLE")
        with pytest.raises(SparkLostError, match="spark://m:7077 cannot be reached"):
            session.run([], "")
    assert kind.stopped == [True]


def test_errors_of_a_lost_driver_are_not_printed_whoever_logs_them() -> None:
    """Py4J logs some of them as the root logger; those of others stay."""

    def record(path: str) -> logging.LogRecord:
        return logging.LogRecord("root", logging.ERROR, path, 1, "Exception while sending command.", None, None)

    assert not kinds._is_not_of_py4j(record("/venv/lib/py4j/java_gateway.py"))
    assert kinds._is_not_of_py4j(record("/venv/lib/pyspark/sql.py"))

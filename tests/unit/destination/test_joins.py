"""A further sink that joins gets the rows of before, whatever interrupts that."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from engine.base.errors import DestinationError
from engine.base.store_errors import StoreAwayError
from engine.destination import further_sink, read_back, sink_opening
from engine.destination.database.table import DatabaseTable
from engine.destination.destination_protocol import CHUNKS
from engine.destination.parquet.table import ParquetTable
from engine.destination.writer import writes
from engine.destination.writer.table import WriterTable
from engine.spec.sink_settings import Sink
from tests.support import recording_writer
from tests.support.no_spark import without_spark
from tests.support.recording_writer import replayed_rows
from tests.unit.destination.sink_run import Gate, Run, files, first_alone, insert, story_with_u
from tests.unit.destination.support import World, mirror, wait_for

TABLES = {"python": WriterTable, "parquet": ParquetTable, "duckdb": DatabaseTable}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The next attempt comes soon."""
    monkeypatch.setattr(further_sink, "_RETRY_S", 0.05)
    monkeypatch.setattr(further_sink, "_AGAIN_S", 0.2)
    without_spark(monkeypatch)
    monkeypatch.setenv(recording_writer.FILE, str(tmp_path / "written.jsonl"))


@pytest.fixture(params=list(TABLES))
def kind(request: pytest.FixtureRequest) -> str:
    """`sink.type`."""
    chosen: str = request.param
    return chosen


def _sink(folder: Path, kind: str) -> Sink:
    own: dict[str, dict[str, Any]] = {
        "python": {"writer": {"function": "tests.support.recording_writer.write"}},
        "duckdb": {"database": {"file": folder / "reports.duckdb"}},
        "parquet": {},
    }
    return Sink.model_validate({"type": kind, "name": "files", "path": folder / "files", **own[kind]})


def _rows(folder: Path, kind: str) -> list[tuple[Any, ...]]:
    """The table, by the sink."""
    if kind == "parquet":
        return files(folder)
    if kind == "python":
        lines = [
            line for line in (folder / "written.jsonl").read_text().splitlines() if json.loads(line)["table"] == "d.t"
        ]
        (folder / "of_t.jsonl").write_text("\n".join(lines))
        return sorted((one["id"], one["v"]) for one in replayed_rows(folder / "of_t.jsonl").values())
    with duckdb.connect(str(folder / "reports.duckdb"), read_only=True) as connection:
        return connection.execute('SELECT id, v FROM d."t" ORDER BY id').fetchall()


def _failing(monkeypatch: pytest.MonkeyPatch, kind: str, error: Exception) -> list[int]:
    """The first rows of the table's copy fail once. Returns a list that then has an item."""
    of_kind: Any = TABLES[kind]
    append, failed = of_kind.append, list[int]()

    def once(self: Any, kind: str, epoch: int, files: Any) -> Any:
        if kind == CHUNKS and self.table.name == "t" and not failed:
            failed.append(epoch)
            raise error
        return append(self, kind, epoch, files)

    monkeypatch.setattr(of_kind, "append", once)
    return failed


@pytest.mark.parametrize(
    "error",
    [
        DestinationError("a row is refused"),
        StoreAwayError("the connection is lost"),
        OSError(5, "Input/output error"),
        writes.WriterError("the function has failed"),
    ],
)
def test_an_error_between_the_beginning_of_the_copy_and_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, error: Exception
) -> None:
    """The rows come with the next attempt, whichever tables were published meanwhile."""
    story_with_u(world := World(tmp_path))
    first_alone(tmp_path, world)
    failed = _failing(monkeypatch, kind, error)
    run = Run(tmp_path, world, sink=_sink(tmp_path, kind))
    assert wait_for(lambda: failed)
    insert(run, world, 8)
    assert wait_for(lambda: run.further.error is None and run.further.through == run.state.epoch)
    insert(run, world, 9)
    run.end(drains=True)
    assert _rows(tmp_path, kind) == mirror(tmp_path)
    assert run.further.error is None


@pytest.mark.parametrize("restarts", [1, 3])
def test_runs_that_end_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, restarts: int) -> None:
    """Each run ends while the sink joins. The ledger says which tables have their rows."""
    story_with_u(world := World(tmp_path))
    first_alone(tmp_path, world)
    for number in range(restarts):
        with monkeypatch.context() as patch:
            _interrupted(patch, tmp_path, world, kind, 20 + number)
    run = Run(tmp_path, world, sink=_sink(tmp_path, kind))
    assert wait_for(lambda: run.further.through == run.state.epoch)
    insert(run, world, 9)
    run.end(drains=True)
    assert _rows(tmp_path, kind) == mirror(tmp_path)
    insert(again := Run(tmp_path, world, sink=_sink(tmp_path, kind)), world, 10, 11)
    again.end(drains=True)
    assert again.state.sinks["files"].copied == {"d.t", "d.u"}
    assert _rows(tmp_path, kind) == mirror(tmp_path)


def _interrupted(patch: pytest.MonkeyPatch, folder: Path, world: World, kind: str, key: int) -> None:
    """A run that ends after the first error."""
    failed = _failing(patch, kind, StoreAwayError("the connection is lost"))
    patch.setattr(further_sink, "_RETRY_S", 60.0)
    run = Run(folder, world, sink=_sink(folder, kind))
    assert wait_for(lambda: failed and run.further.error)
    insert(run, world, key)
    run.end(drains=False)


def test_a_copy_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Once the ledger knows of it, no run reads the tables back again."""
    story_with_u(world := World(tmp_path))
    first_alone(tmp_path, world)
    run = Run(tmp_path, world, sink=_sink(tmp_path, kind))
    assert wait_for(lambda: run.further.through == run.state.epoch)
    insert(run, world, 8, 9)
    run.end(drains=True)
    insert(run := Run(tmp_path, world, sink=_sink(tmp_path, kind)), world, 10)
    run.end(drains=True)
    calls = list[object]()
    monkeypatch.setattr(sink_opening, "read_back", _noting(calls, read_back.read_back))
    insert(run := Run(tmp_path, world, sink=_sink(tmp_path, kind)), world, 11)
    run.end(drains=True)
    assert not calls
    assert _rows(tmp_path, kind) == mirror(tmp_path)


def _noting(calls: list[object], function: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*arguments: Any) -> Any:
        calls.append(arguments)
        return function(*arguments)

    return noted


def test_a_pause_holds_a_sink_that_joins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Nothing is written to it until it is resumed."""
    gate, paused = Gate(), [False]
    monkeypatch.setattr(sink_opening, "read_back", gate.before(read_back.read_back))
    of_kind: Any = TABLES[kind]
    calls = list[object]()
    monkeypatch.setattr(of_kind, "begin_copy", _noting(calls, of_kind.begin_copy))
    story_with_u(world := World(tmp_path))
    first_alone(tmp_path, world)
    run = Run(tmp_path, world, sink=_sink(tmp_path, kind), is_paused=lambda: paused[0])
    assert gate.entered.wait(30)
    paused[0] = True
    gate.open.set()
    insert(run, world, 30, 31)
    assert wait_for(lambda: run.further.as_dict()["state"] == "paused" and not run.further.pace.must_try())
    gate.entered.clear()
    assert not gate.entered.wait(1.0)
    assert not calls
    assert run.further.error is None
    paused[0] = False
    assert wait_for(lambda: run.further.through == run.state.epoch)
    run.end(drains=True)
    assert calls
    assert _rows(tmp_path, kind) == mirror(tmp_path)

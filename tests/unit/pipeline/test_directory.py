"""The directory of a pipeline and its journal: complete files, and lines that keep to the protocol."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.base import clock, processes
from engine.base.durable import overwrite, write_atomically
from engine.journal import Entry, Journal, entry_from
from engine.journal.events import ErrorReported, RunState, fields_of
from engine.pipeline.command_file import VERBS, send_command
from engine.pipeline.directory import Directory, directory_of, new_run
from engine.pipeline.frozen_runner import FrozenRunner
from engine.pipeline.runner_file import HEARTBEAT_STALE_S, find_runner, read_runner
from engine.pipeline.runner_record import RunnerRecord

AT = "2026-11-27T03:40:00.000000Z"

ROOT = Path(__file__).parents[3]
HERE = (
    "import json, sys; from engine.base import processes; print(json.dumps(processes.here()), "
    "flush=True); sys.stdin.read()"
)


def test_a_spec_called_pipeline_lives_in_its_directory() -> None:
    """Any other spec has its directory beside it, under the pipeline's name."""
    assert directory_of(Path("/p/shop/pipeline.toml"), "shop").root == Path("/p/shop")
    assert directory_of(Path("/p/shop.toml"), "shop").root == Path("/p/shop")
    assert directory_of(Path("/p/other.toml"), "shop").journal("r1") == Path("/p/shop/journal/r1.jsonl")


def test_a_file_is_replaced_all_at_once(tmp_path: Path) -> None:
    """A reader never sees half a file, and no temporary file is left."""
    path, seen, stop = tmp_path / "runner.json", set(), threading.Event()
    texts = {letter * 5000 for letter in "ab"}
    write_atomically(path, "a" * 5000)

    def read() -> None:
        while not stop.is_set():
            seen.add(path.read_text(encoding="utf-8"))

    reader = threading.Thread(target=read)
    reader.start()
    for n in range(100):
        write_atomically(path, "ab"[n % 2] * 5000)
    stop.set()
    reader.join()
    assert seen <= texts
    assert os.listdir(tmp_path) == ["runner.json"]  # noqa: PTH208 - hidden files too


def test_a_command_is_one_whole_file(tmp_path: Path) -> None:
    """The file name has the command's id; the file says who sent it and why."""
    directory = Directory(tmp_path / "shop")
    ids = [send_command(directory, verb, reason="because", arguments={"n": 1}) for verb in VERBS]
    assert len(set(ids)) == len(VERBS)
    for identity, verb in zip(ids, VERBS, strict=True):
        command = json.loads((directory.inbox / f"{identity}.json").read_text(encoding="utf-8"))
        assert (command["id"], command["verb"], command["reason"], command["arguments"]) == (
            identity,
            verb,
            "because",
            {"n": 1},
        )
        assert command["actor"]


def is_alive(record: RunnerRecord | None) -> bool:
    """Whether there is a runner, and it is alive."""
    return record is not None and record.alive


@pytest.mark.parametrize(
    ("state", "age_s", "alive"),
    [("running", 0, True), ("running", 30, False), ("ended", 0, False), ("paused", 5, True)],
)
def test_a_runner_is_alive_while_its_heart_beats(tmp_path: Path, state: str, age_s: int, alive: bool) -> None:
    """And has not reported its end. Without a file there was no runner."""
    directory = Directory(tmp_path)
    assert read_runner(directory) is None
    beat = clock.utc_text(clock.utc_now() - timedelta(seconds=age_s))
    write_atomically(directory.runner, json.dumps({"state": state, "heartbeat": beat}))
    record = read_runner(directory)
    assert record is not None
    assert record.alive is alive
    assert abs((record.heartbeat_age_s or 0) - age_s) < 2


def test_an_event_has_all_its_fields_and_no_other(tmp_path: Path) -> None:
    """The journal is a protocol: unknown events are not read back, missing fields are null."""
    journal = Journal(tmp_path / "journal" / "r.jsonl", "r")
    journal.write(RunState(state="running"))
    journal.write(ErrorReported(error="E", message="Größe\n", attempt=1))
    journal.close()
    first, second = [
        json.loads(line) for line in (tmp_path / "journal" / "r.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert list(first) == ["run", "seq", "ts", "event", *fields_of("run.state")]
    assert (first["run"], first["seq"], first["state"], first["reason"]) == ("r", 1, "running", None)
    assert (second["seq"], second["message"], second["hint"]) == (2, "Größe\n", None)
    assert clock.utc_text(clock.parse_utc(first["ts"])) == first["ts"]
    assert entry_from(first) == Entry("r", 1, first["ts"], RunState(state="running"))
    del first["state"]
    read = entry_from({**first, "phase": 1})
    assert read is not None
    assert read.event.to_json() == {"state": None, "reason": None}
    assert entry_from({**first, "event": "no.such.event"}) is None


def test_threads_do_not_mix_their_lines(tmp_path: Path) -> None:
    """Lines are complete, and their numbers have no gap."""
    journal = Journal(tmp_path / "r.jsonl", "r")
    threads = [
        threading.Thread(
            target=lambda: [journal.write(RunState(state="running", reason="x" * 3000)) for _ in range(50)]
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    lines = (tmp_path / "r.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, 201))


def _written(directory: Directory, **fields: Any) -> None:
    record = {"run": "r", "state": "running", "pid": os.getpid(), "heartbeat": clock.utc_text(), "beat": 1, **fields}
    write_atomically(directory.runner, json.dumps(record))


@pytest.mark.parametrize("hours", [-2, 0, 2])
def test_a_process_of_this_machine_is_alive_by_itself(tmp_path: Path, hours: int) -> None:
    """The clock does not matter: no change of time makes the process dead, or alive once it is killed."""
    directory = Directory(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", HERE], stdout=subprocess.PIPE, stdin=subprocess.PIPE, cwd=ROOT)
    assert child.stdout
    process = json.loads(child.stdout.readline())
    heartbeat = clock.utc_text(clock.utc_now() + timedelta(hours=hours))
    _written(directory, pid=child.pid, process=process, heartbeat=heartbeat)
    found = read_runner(directory)
    assert found is not None
    assert found.alive
    assert (found.heartbeat_age_s or 0) < 5
    child.kill()
    deadline = time.monotonic() + 5
    while processes.lives(child.pid, process) and time.monotonic() < deadline:
        time.sleep(0.01)  # it is a zombie from here on
    found = read_runner(directory)
    assert found is not None
    assert not found.alive
    child.communicate()
    assert processes.lives(os.getpid(), process) is False, "a pid that was given again is another process"


def test_a_process_that_lives_without_a_heartbeat_is_frozen(tmp_path: Path) -> None:
    """After ten seconds, later for a state in a bucket; whoever looks first. It is alive all the while."""
    directory = Directory(tmp_path)
    with subprocess.Popen(["sleep", "600"]) as child:
        now = processes.of(child.pid)

        def look(age_s: float, **more: object) -> tuple[bool, FrozenRunner | None]:
            process = {**now, "monotonic_s": now["monotonic_s"] - age_s}
            _written(directory, pid=child.pid, host="h", process=process, heartbeat=AT, **more)
            found = read_runner(directory)
            assert found is not None
            assert found.responds == (found.alive and found.frozen is None)
            return found.alive, found.frozen

        try:
            assert look(0) == (True, None)
            assert look(HEARTBEAT_STALE_S - 1) == (True, None)
            assert look(HEARTBEAT_STALE_S) == (True, FrozenRunner(child.pid, "h", AT, stopped=False))
            assert look(HEARTBEAT_STALE_S, renewed_every_s=5) == (True, None)
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
            assert look(HEARTBEAT_STALE_S) == (True, FrozenRunner(child.pid, "h", AT, stopped=True))
            assert look(0) == (True, None)
            assert look(99, state="ended") == (False, None)
        finally:
            child.kill()
    assert look(HEARTBEAT_STALE_S) == (False, None), "it is gone"


def test_a_runner_elsewhere_is_alive_while_its_heart_beats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clock may differ by hours; two observations of the heartbeat decide."""
    directory, elsewhere = Directory(tmp_path), {**processes.here(), "boot": "another"}
    heartbeat = clock.utc_text(clock.utc_now() + timedelta(hours=3))
    _written(directory, process=elsewhere, heartbeat=heartbeat)
    assert is_alive(read_runner(directory)) is False
    monkeypatch.setattr(clock, "sleep", lambda _: _written(directory, process=elsewhere, heartbeat=heartbeat, beat=3))
    assert is_alive(find_runner(directory)) is True
    assert is_alive(read_runner(directory)) is True
    monkeypatch.setattr(clock, "monotonic_s", lambda: time.monotonic() + HEARTBEAT_STALE_S)
    assert is_alive(read_runner(directory)) is False, "it beat no more"


def test_a_runner_elsewhere_that_is_gone_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second observation sees the same heartbeat."""
    directory, elsewhere = Directory(tmp_path), {**processes.here(), "boot": "another"}
    _written(directory, process=elsewhere, heartbeat=clock.utc_text(clock.utc_now() - timedelta(minutes=5)))
    monkeypatch.setattr(clock, "sleep", lambda _: None)
    assert is_alive(find_runner(directory)) is False


def test_runs_sort_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the clock is set back between them; their journals and lines sort likewise."""
    directory, real, runs, times = Directory(tmp_path), clock.utc_now, [], []
    for hours in (0, -1, -5, 1):
        monkeypatch.setattr(clock, "utc_now", lambda hours=hours: real() + timedelta(hours=hours))
        runs.append(new_run(directory))
        journal = Journal(directory.journal(runs[-1]), runs[-1])
        times += [journal.write(RunState(state="running")).ts for _ in range(2)]
        journal.close()
    assert runs == sorted(runs)
    assert times == sorted(times)


def test_what_overwrites_stays_whole(tmp_path: Path) -> None:
    """A shorter text is padded with blanks; a text longer than the file is refused."""
    path = tmp_path / "runner.json"
    write_atomically(path, json.dumps({"a": "x" * 100}))
    overwrite(path, json.dumps({"a": 1}))
    assert json.loads(path.read_text()) == {"a": 1}
    with pytest.raises(OSError, match="No space"):
        overwrite(path, json.dumps({"a": "x" * 100_000}))
    assert json.loads(path.read_text()) == {"a": 1}

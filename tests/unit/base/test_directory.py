"""A pipeline's directory and its journal: files that are whole, and lines that keep to the protocol."""

import json
import os
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from engine import clock
from engine.directory import VERBS, Directory, directory_of, read_runner, send_command, write_atomically
from engine.events import EVENTS, Journal


def test_a_spec_called_pipeline_lives_in_its_directory() -> None:
    """Any other has the directory beside itself, under the pipeline's name."""
    assert directory_of(Path("/p/shop/pipeline.toml"), "shop").root == Path("/p/shop")
    assert directory_of(Path("/p/shop.toml"), "shop").root == Path("/p/shop")
    assert directory_of(Path("/p/other.toml"), "shop").journal("r1") == Path("/p/shop/journal/r1.jsonl")


def test_a_file_is_replaced_all_at_once(tmp_path: Path) -> None:
    """A reader never sees half of it, and nothing else is left."""
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
    """With its id in its name, who sent it and why."""
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


@pytest.mark.parametrize(
    ("state", "age_s", "alive"),
    [("running", 0, True), ("running", 30, False), ("ended", 0, False), ("paused", 5, True)],
)
def test_a_runner_is_alive_while_its_heart_beats(tmp_path: Path, state: str, age_s: int, alive: bool) -> None:
    """And has not said that it ended; nobody was there when there is no file."""
    directory = Directory(tmp_path)
    assert read_runner(directory) is None
    beat = clock.utc_text(clock.utc_now() - timedelta(seconds=age_s))
    write_atomically(directory.runner, json.dumps({"state": state, "heartbeat": beat}))
    record = read_runner(directory)
    assert record is not None
    assert record["alive"] is alive
    assert abs(record["heartbeat_age_s"] - age_s) < 2


def test_an_event_has_all_its_fields_and_no_other(tmp_path: Path) -> None:
    """The journal is a protocol: unknown names are refused, missing ones are null."""
    journal = Journal(tmp_path / "journal" / "r.jsonl", "r")
    journal.write("run.state", state="running")
    for event, fields in (("run.state", {"phase": 1}), ("no.such.event", {})):
        with pytest.raises(ValueError, match="not in EVENTS"):
            journal.write(event, **fields)
    journal.write("error", message="Größe\n", attempt=1)
    journal.close()
    first, second = [
        json.loads(line) for line in (tmp_path / "journal" / "r.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert list(first) == ["run", "seq", "ts", "event", *EVENTS["run.state"]]
    assert (first["run"], first["seq"], first["state"], first["reason"]) == ("r", 1, "running", None)
    assert (second["seq"], second["message"], second["hint"]) == (2, "Größe\n", None)
    assert clock.utc_text(clock.parse_utc(first["ts"])) == first["ts"]


def test_threads_do_not_mix_their_lines(tmp_path: Path) -> None:
    """Whole lines, numbered without a gap."""
    journal = Journal(tmp_path / "r.jsonl", "r")
    threads = [
        threading.Thread(target=lambda: [journal.write("run.state", reason="x" * 3000) for _ in range(50)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    lines = (tmp_path / "r.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, 201))

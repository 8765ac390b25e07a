"""A journal of several parts: every reader finds every line, whatever is compressed or deleted meanwhile."""

import gzip
import json
import os
import time
from pathlib import Path

import pytest

from engine.history import History
from engine.history.runs import journalled
from engine.journal import Journal, expiry, journal, parts
from engine.journal.events import LagMeasured, RunState
from engine.journal.parts import newest_lines, parts_in, runs_in
from engine.pipeline.directory import Directory, new_run
from engine.status.status import last_event, recent_events
from tests.support.entries import event

DAY_S = 86_400.0


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part holds few lines, and every part is worth to be compressed."""
    monkeypatch.setattr(journal, "PART_BYTES", 400)
    monkeypatch.setattr(expiry, "_WORTH_BYTES", 0)
    monkeypatch.setattr(expiry, "_RECENT_S", -1.0)


def written(directory: Directory, run: str, lines: int) -> Journal:
    """A journal of so many lines."""
    its = Journal(directory.journal(run), run)
    for number in range(lines):
        its.write(RunState(state="running", reason=f"line {number}"))
    return its


def sequences(folder: Path, run: str) -> list[int]:
    """The numbers of a run's lines, in the order of the parts."""
    found = []
    for part in parts_in(folder, run):
        with part.open() as file:
            found += [json.loads(line)["seq"] for line in file]
    return found


def names(folder: Path) -> list[str]:
    """The files of all parts."""
    return [part.path.name for part in parts_in(folder)]


@pytest.mark.usefixtures("small_parts")
def test_a_run_continues_in_a_new_part(tmp_path: Path) -> None:
    """The first part has the run's name alone; the others are named after their first line."""
    directory = Directory(tmp_path / "shop")
    its = written(directory, "r1", 10)
    found = parts_in(directory.journals)
    assert len(found) > 2
    assert found[0].path == its.path
    assert [part.closed for part in found] == [True] * (len(found) - 1) + [False]
    for part in found:
        with part.open() as file:
            assert json.loads(file.readline())["seq"] == (part.first or 1)
    assert sequences(directory.journals, "r1") == list(range(1, 11))
    its.close()


def test_a_part_is_closed_after_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise retention could not delete the old lines of a quiet pipeline. An empty part is not closed."""
    directory = Directory(tmp_path / "shop")
    its = written(directory, "r1", 0)
    monkeypatch.setattr(its, "_close_s", 0.0)
    its.write(RunState(state="running"))
    assert len(parts_in(directory.journals)) == 1
    its.write(RunState(state="paused"))
    its.write(RunState(state="running"))
    assert [part.first for part in parts_in(directory.journals)] == [0, 2]


@pytest.mark.usefixtures("small_parts")
def test_a_part_that_cannot_be_created_costs_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run continues in the part that it has."""
    directory = Directory(tmp_path / "shop")
    its = written(directory, "r1", 1)

    def refused(path: Path) -> None:
        raise PermissionError(path)

    monkeypatch.setattr(journal, "LineFile", refused)
    for _ in range(5):
        its.write(RunState(state="running", reason="x" * 100))
    assert sequences(directory.journals, "r1") == list(range(1, 7))


@pytest.mark.usefixtures("small_parts")
def test_closed_parts_are_compressed_and_read_as_before(tmp_path: Path) -> None:
    """All but the newest two of the current run; other runs wholly. One a call, until nothing is left."""
    directory = Directory(tmp_path / "shop")
    written(directory, "r1", 3)
    written(directory, "r2", 20)
    before = newest_lines(directory.journals, 10_000)
    calls = 0
    while expiry.expire_and_compress(directory.journals, "r2", None):
        calls += 1
    found = parts_in(directory.journals)
    assert [part.compressed for part in found] == [True] * (len(found) - 2) + [False] * 2
    assert calls == len(found) - 2
    assert sequences(directory.journals, "r1") == [1, 2, 3]
    assert sequences(directory.journals, "r2") == list(range(1, 21))
    assert newest_lines(directory.journals, 10_000) == before
    assert newest_lines(directory.journals, 10_000, "r1")
    assert [path for path in directory.journals.iterdir() if "compressing" in path.name] == []


@pytest.mark.usefixtures("small_parts")
def test_parts_of_the_last_day_stay_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs read them too, such as after a restart."""
    monkeypatch.setattr(expiry, "_RECENT_S", 86_400.0)
    directory = Directory(tmp_path / "shop")
    written(directory, "r1", 10)
    written(directory, "r2", 1)
    assert not expiry.expire_and_compress(directory.journals, "r2", DAY_S)
    first = parts_in(directory.journals)[0].path
    os.utime(first, (0, time.time() - DAY_S - 60))
    assert expiry.expire_and_compress(directory.journals, "r2", None)
    assert not first.exists()


@pytest.mark.usefixtures("small_parts")
def test_a_crash_between_compressing_and_deleting_leaves_one_part(tmp_path: Path) -> None:
    """Both files are there: the part is listed once, and the plain file is deleted later."""
    directory = Directory(tmp_path / "shop")
    its = written(directory, "r1", 10)
    parts.compressed(its.path).write_bytes(gzip.compress(its.path.read_bytes()))
    assert sequences(directory.journals, "r1") == list(range(1, 11))
    while expiry.expire_and_compress(directory.journals, "r1", None):
        pass
    assert not its.path.exists()
    assert sequences(directory.journals, "r1") == list(range(1, 11))


@pytest.mark.usefixtures("small_parts")
def test_a_part_that_is_compressed_after_it_was_listed_is_read(tmp_path: Path) -> None:
    """A reader lists first and opens later."""
    directory = Directory(tmp_path / "shop")
    written(directory, "r1", 10)
    listed = parts_in(directory.journals)
    while expiry.expire_and_compress(directory.journals, "r1", None):
        pass
    with listed[0].open() as file:
        assert json.loads(file.readline())["seq"] == 1


@pytest.mark.usefixtures("small_parts")
def test_retention_deletes_old_parts_but_not_what_a_run_began_with(tmp_path: Path) -> None:
    """Old runs vanish. Of the current run, the first part and the last one stay, whatever their age."""
    directory = Directory(tmp_path / "shop")
    written(directory, "r1", 10)
    written(directory, "r2", 20)
    for part in parts_in(directory.journals):
        os.utime(part.path, (0, time.time() - 2 * DAY_S))
    expiry.expire_and_compress(directory.journals, "r2", 3 * DAY_S)
    assert runs_in(directory.journals) == ["r1", "r2"]
    last = parts_in(directory.journals)[-1]
    expiry.expire_and_compress(directory.journals, "r2", DAY_S)
    assert [(part.run, part.first) for part in parts_in(directory.journals)] == [("r2", 0), ("r2", last.first)]


@pytest.mark.usefixtures("small_parts")
def test_the_index_holds_what_the_parts_hold(tmp_path: Path) -> None:
    """Parts are read once, also if they are compressed half read; the rows of deleted parts go."""
    directory = Directory(tmp_path / "shop")
    its = written(directory, "r1", 7)
    index = History(None)

    def seqs() -> list[int]:
        index.refresh([directory])
        return [row[0] for row in index.cursor().execute("SELECT seq FROM event ORDER BY seq").fetchall()]

    assert seqs() == list(range(1, 8))
    for number in range(14):
        its.write(RunState(state="running", reason=f"more {number}"))
    while expiry.expire_and_compress(directory.journals, "r1", None):
        pass
    assert seqs() == list(range(1, 22))
    assert index.refresh([directory]).lines == 0
    assert journalled(index.cursor(), "shop").lines == 21
    second, third = parts_in(directory.journals)[1:3]
    second.path.unlink()
    assert seqs() == [n for n in range(1, 22) if not second.first <= n < third.first]
    assert journalled(index.cursor(), "shop").lines == len(seqs())


@pytest.mark.usefixtures("small_parts")
def test_a_part_that_goes_while_others_come_takes_no_other_rows(tmp_path: Path) -> None:
    """The console was closed for longer than the retention."""
    directory = Directory(tmp_path / "shop")
    its = written(directory, "r1", 6)
    index, rebuilt = History(None), History(None)
    index.refresh([directory])
    for number in range(12):
        its.write(RunState(state="running", reason=f"more {number}"))
    parts_in(directory.journals)[1].path.unlink()
    for one in (index, rebuilt):
        one.refresh([directory])
    lines = [one.cursor().execute("SELECT seq FROM event ORDER BY seq").fetchall() for one in (index, rebuilt)]
    assert lines[0] == lines[1]
    assert lines[0][-1] == (18,)


@pytest.mark.usefixtures("small_parts")
def test_the_index_keeps_its_rows_when_no_journal_is_there(tmp_path: Path) -> None:
    """The disk may be away; history is not forgotten for that."""
    directory = Directory(tmp_path / "shop")
    written(directory, "r1", 5)
    index = History(None)
    index.refresh([directory])
    directory.journals.rename(tmp_path / "away")
    index.refresh([directory])
    assert journalled(index.cursor(), "shop").lines == 5


@pytest.mark.usefixtures("small_parts")
def test_the_newest_events_are_found_across_parts(tmp_path: Path) -> None:
    """A part that has just begun holds nothing yet."""
    directory = Directory(tmp_path / "shop")
    its = Journal(directory.journal("r1"), "r1")
    its.write(event("source.lag", lag_s=1.0))
    its.write(RunState(state="running", reason="x" * 400))
    assert len(parts_in(directory.journals)) == 2
    found = last_event(directory, LagMeasured)
    assert found is not None
    assert found[1].lag_s == 1.0
    assert len(recent_events(directory, RunState, "")) == 1
    assert recent_events(directory, RunState, "9999") == []


def test_a_new_run_sorts_after_the_parts_of_earlier_ones(tmp_path: Path) -> None:
    """The names of parts are not taken for runs."""
    directory = Directory(tmp_path / "shop")
    directory.journals.mkdir(parents=True)
    (directory.journals / "20990101T000000-abcdef.000000000007.jsonl.gz").touch()
    assert runs_in(directory.journals) == ["20990101T000000-abcdef"]
    assert new_run(directory) > "20990101T000000-abcdef"

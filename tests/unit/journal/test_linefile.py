"""Lines on a disk that is really full.

No line is torn, none is lost while memory suffices, and no caller is blocked.
"""

import json
from pathlib import Path

import pytest

from engine.journal import Entry, Journal, linefile
from engine.journal.events import RunState
from engine.journal.linefile import LineFile
from tests.support.mounts import Small


@pytest.fixture
def journal(small: Small) -> Journal:
    """A journal on a small disk."""
    return Journal(small.folder / "r.jsonl", "r")


def _lines(path: Path) -> list[str]:
    text = path.read_text()
    assert text.endswith("\n"), "half a line is left"
    return text.splitlines()


def test_a_full_disk_costs_no_line_and_no_caller(journal: Journal, small: Small) -> None:
    """Lines without room are kept and written in order when there is room; the file never ends within a line."""
    reason = "x" * 1500
    journal.write(RunState(state="running", reason=reason))
    small.fill()
    for _ in range(40):
        journal.write(RunState(state="running", reason=reason))
        _lines(journal.path)
    assert "journal" in journal.failures
    whole = len(_lines(journal.path))
    assert whole < 41
    small.free()
    assert journal.flush()
    assert not journal.failures
    seen = [json.loads(line)["seq"] for line in _lines(journal.path)]
    assert seen == list(range(1, 42))


def test_what_memory_does_not_hold_is_counted_and_said(
    journal: Journal, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest lines are dropped; the journal reports their number as soon as it can."""
    monkeypatch.setattr(linefile, "MOST_LINES", 10)
    small.fill()
    for _ in range(60):
        journal.write(RunState(state="running", reason="x" * 1500))
    small.free()
    journal.write(RunState(state="paused", reason=""))
    journal.flush()
    events = [json.loads(line) for line in _lines(journal.path)]
    errors = [event for event in events if event["event"] == "error"]
    assert [event["error"] for event in errors] == ["JournalError"]
    lost = 61 - sum(event["event"] == "run.state" for event in events)
    assert lost > 0
    assert f"{lost} events were lost" in errors[0]["message"]


def test_a_torn_line_is_ended_before_the_next(tmp_path: Path) -> None:
    """An earlier process left half a line: the next line starts on a line of its own."""
    path = tmp_path / "f"
    path.write_text('{"whole": 1}\n{"half')
    file = LineFile(path)
    file.append('{"next": 2}')
    file.close()
    assert path.read_text().splitlines() == ['{"whole": 1}', '{"half', '{"next": 2}']


def test_who_listens_does_not_end_who_writes(tmp_path: Path) -> None:
    """A listener's error is kept by its name until the listener works again."""
    journal, heard = Journal(tmp_path / "r.jsonl", "r"), []

    def listener(entry: Entry) -> None:
        if entry.seq == 1:
            raise BrokenPipeError
        heard.append(entry.seq)

    journal.listeners.append(listener)
    journal.write(RunState(state="running"))
    assert [type(error) for error in journal.failures.values()] == [BrokenPipeError]
    journal.write(RunState(state="running"))
    assert (heard, journal.failures) == ([2], {})

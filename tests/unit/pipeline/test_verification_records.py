"""The files of verification, as earlier versions wrote them."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.journal.verification_summary import Summary, Unreadable
from engine.pipeline import formats
from engine.pipeline.directory import Directory
from engine.pipeline.verification_records import Details, Difference, ForeignChanges, MirrorLogs, PartState
from engine.pipeline.verifications import (
    read_details,
    read_mirror_logs,
    read_summaries,
    save,
    save_mirror_logs,
)

SUMMARY: dict[str, Any] = {
    "verdict": "diverged",
    "why": "",
    "at": "2026-11-25T09:30:17.000000Z",
    "last": "2026-11-25T10:30:17.000000Z",
    "position": "mysql-bin.000003:4",
    "version": 7,
    "level": "rows",
    "rows": 14,
    "differences": 1,
    "by_kind": {"missing": 1},
    "parts": 2,
    "compared": 2,
    "generation": 1,
    "seconds": 0.25,
}
UNREADABLE = {"at": "2026-11-25T10:30:17.000000Z", "why": "a file is gone", "hint": "Resnapshot it.", "chunks": [1]}
PLANNED: dict[str, Any] = {"chunk": 1, "lower": "10", "upper": None, "at": "", "rows": 0, "differences": 0}
PLANNED |= {"position": None, "version": None}
COMPARED = {**PLANNED, "chunk": 0, "lower": None, "upper": "10", "at": SUMMARY["at"], "rows": 9, "version": 7}
ROW = {"kind": "missing", "key": ["4"], "columns": [], "cause": "", "source": {"id": 4}, "mirror": None, "chunk": 0}
DIFFERENCE = Difference("missing", ("4",), source={"id": 4}, chunk=0)
FILES: dict[str, dict[str, Any]] = {
    "summary.json": {"tables": {"d.t": SUMMARY, "d.u": {**SUMMARY, "unreadable": UNREADABLE}}},
    "tables/d.t.json": {
        "table": "d.t",
        "complete": True,
        "parts": [{**COMPARED, "level": "counts"}, PLANNED],
        "differences": [ROW],
    },
    "mirrors.json": {"versions": {"d.t": 9}, "foreign": {"d.t": {"commits": 2, "version": 9}}},
}


@pytest.fixture
def before(tmp_path: Path) -> Directory:
    """A pipeline whose verifications were saved when these records were dictionaries."""
    directory = Directory(tmp_path)
    (directory.verifications / "tables").mkdir(parents=True)
    for name, record in FILES.items():
        (directory.verifications / name).write_text(json.dumps(formats.stamped("verification", record)))
    return directory


def test_files_of_earlier_versions_are_read(before: Directory) -> None:
    """A part that was not compared yet had no level."""
    found = read_summaries(before)
    assert found["d.t"] == Summary(**SUMMARY)
    assert found["d.u"].unreadable == Unreadable(**UNREADABLE)  # type: ignore[arg-type]
    details = read_details(before, "d.t")
    assert details == Details("d.t", True, (PartState(**COMPARED, level="counts"), PartState(**PLANNED)), (DIFFERENCE,))
    assert read_mirror_logs(before) == MirrorLogs({"d.t": 9}, {"d.t": ForeignChanges(2, 9)})


def test_what_is_saved_is_what_earlier_versions_saved(before: Directory, tmp_path: Path) -> None:
    """They read it too, and so do scripts: `unreadable` is only there if it says something."""
    again = Directory(tmp_path / "again")
    save(again, read_summaries(before), [read_details(before, "d.t")])
    save_mirror_logs(again, read_mirror_logs(before))
    written = {name: json.loads((again.verifications / name).read_text()) for name in FILES}
    for part in written["tables/d.t.json"]["parts"]:
        part.setdefault("level", "rows")
    expected = json.loads(json.dumps({name: formats.stamped("verification", one) for name, one in FILES.items()}))
    expected["tables/d.t.json"]["parts"][1]["level"] = "rows"
    assert written == expected


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", ["", "[]", '{"tables": [], "parts": 3}', '{"tables": {"d.t": 4}, "foreign": []}'])
def test_a_damaged_file_says_nothing(before: Directory, name: str, content: str) -> None:
    """The tables count as not compared."""
    (before.verifications / name).write_text(content)
    assert read_summaries(before) == {} or name != "summary.json"
    assert read_details(before, "d.t") == Details("d.t") or "tables" not in name
    assert read_mirror_logs(before) == MirrorLogs() or name != "mirrors.json"

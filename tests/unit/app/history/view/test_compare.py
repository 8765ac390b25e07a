"""Runs side by side."""

import json

from app.history.view import compare
from app.history.view.past import PastRun
from tests.unit.app.support import NOW, ago, read

FIRST = PastRun("p", "r1", ago(100), 50.0, "done", "", 2000, 100.0, 2, 5, 0)
SECOND = PastRun("p", "r2", ago(40), 20.0, "done", "", 0, None, 0, 7, 1)
READS = {"r1": [read(90, 80, 1000, chunk=0), read(80, 75, 1000, chunk=1, reader="r2")], "r2": []}


def test_measures_are_by_run() -> None:
    """A value that a run does not have is unknown, not 0."""
    rows = {row[""]: (row["r1"], row["r2"]) for row in compare.measures([FIRST, SECOND], READS)}
    assert rows["Rows a second"] == ("100", "—")
    assert rows["Readers"] == ("2", "0")
    assert rows["Seconds a chunk, most"] == ("10 s", "—")
    assert rows["Rows a chunk, median"] == ("1k", "—")
    assert rows["Errors"] == ("0", "1")


def test_runs_are_compared_with_the_earliest() -> None:
    """In per cent; equal measures are folded; a value that one of them lacks has no difference."""
    faster = PastRun("p", "r2", ago(40), 20.0, "done", "", 3000, 150.0, 2, 0, 0)
    rows = compare.measures([faster, FIRST], {**READS, "r2": []})
    by_name = {row[""]: (row["r2"], row["r1"]) for row in rows}
    assert by_name["Rows a second"] == ("150 (+50%)", "100")
    assert by_name["Duration"] == ("20 s (-60%)", "50 s")
    assert by_name["Chunks"] == ("2", "2")
    assert by_name["Changes"] == ("0 (-100%)", "5")
    shown, same = compare.folded(rows)
    assert "Outcome" in same
    assert "Errors" in same
    assert "Outcome" not in {row[""] for row in shown}
    assert compare.folded(compare.measures([FIRST], READS))[1] == []


def test_only_settings_that_differ_are_shown() -> None:
    """Nested settings have their full names; one that a spec does not have is `not set`."""
    one = {"name": "p", "snapshot": {"chunk_rows": 1}, "tables": ["a"], "conf": {}}
    other = {"name": "p", "snapshot": {"chunk_rows": 2}, "tables": ["a"], "conf": {"x": "1"}}
    found = compare.differences([FIRST, SECOND], [json.dumps(one), json.dumps(other)])
    assert found == [
        {"Setting": "conf", "r1": "{}", "r2": "not set"},
        {"Setting": "conf.x", "r1": "not set", "r2": '"1"'},
        {"Setting": "snapshot.chunk_rows", "r1": "1", "r2": "2"},
    ]
    assert compare.differences([FIRST, SECOND], [json.dumps(one), json.dumps(one)]) == []
    assert compare.differences([FIRST, SECOND], [None, None]) == []


def test_throughput_is_over_the_seconds_of_each_run() -> None:
    """A run that read nothing has no curve."""
    (trace,) = compare.figure([FIRST, SECOND], READS)["data"]
    assert (trace["name"], trace["x"][0] > 0, trace["x"][-1] <= 16) == ("r1", True, True)
    width = trace["x"][1] - trace["x"][0]
    assert abs(sum(trace["y"]) * width - 2000) < 1


def test_names_of_runs_are_unique() -> None:
    """With the pipeline if there are several."""
    other = PastRun("q", "r1", NOW, 1.0, "done", "", 0, None, 0, 0, 0)
    assert compare.names([FIRST, SECOND]) == ["r1", "r2"]
    assert compare.names([FIRST, other]) == ["p r1", "q r1"]

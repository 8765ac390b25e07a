"""The life of one row."""

from typing import Any

from app.view.row_life import markdown, steps
from tests.unit.app.support import NOW

COLUMNS = ("id", "status", "note")


def entry(kind: str, status: str | None, note: object = None, **more: Any) -> dict[str, Any]:
    """An entry of the change log, or the mirror's row."""
    return {"_tm_kind": kind, "id": 7, "status": status, "note": note, **more}


def test_each_change_is_a_difference() -> None:
    """From the snapshot over updates and deletes to the mirror's row; NULL is not the text NULL's absence."""
    rows = [
        entry("-U", "new", _tm_ts=NOW, _tm_position="b.1:4", _tm_tx="u:1"),
        entry("+U", "paid", b"\x01", _tm_ts=NOW, _tm_position="b.1:4", _tm_tx="u:1"),
        entry("-D", "paid", b"\x01", _tm_ts=NOW, _tm_position="b.1:9"),
        entry("+I", "again", _tm_redump="cmd"),
        entry("mirror", "again"),
    ]
    found = steps(rows, COLUMNS)
    assert found is not None
    assert [step.title for step in found] == [
        "Copied by the snapshot", "Updated", "Deleted", "Inserted by a redump", "Now in the mirror",
    ]  # fmt: skip
    assert found[0].values == (("id", None, "7"), ("status", None, "new"), ("note", None, "NULL"))
    assert found[1].values == (("status", "new", "paid"), ("note", "NULL", "0x01"))
    assert found[1].place == "b.1:4 · u:1"
    assert found[2].values == (("id", "7", None), ("status", "paid", None), ("note", "0x01", None))
    assert found[3].values[1] == ("status", None, "again")


def test_a_row_that_is_gone_or_never_changed() -> None:
    """A deleted row is not in the mirror; one without changes is only there."""
    gone = steps([entry("+I", "new"), entry("-D", "new")], COLUMNS) or []
    assert [step.title for step in gone] == ["Inserted", "Deleted", "Not in the mirror now"]
    quiet = steps([entry("mirror", "new")], COLUMNS) or []
    assert [step.title for step in quiet] == ["Now in the mirror"]
    assert steps([], COLUMNS) == []
    assert steps([entry("+I", "new")], COLUMNS, more=True) is None, "the row may be in the mirror"


def test_values_are_escaped_and_cut() -> None:
    """Names and values come from the source."""
    (step, _) = steps([entry("+I", "*bold*", "x" * 100)], COLUMNS) or []
    shown = markdown(step)
    assert "\\*bold\\*" in shown
    assert "x" * 60 + "…" in shown.replace("\\", "")
    assert "x" * 61 not in shown

"""The life of one row."""

from dataclasses import replace
from typing import Any

from app.explore.view.row_life import asked_by, markdown, steps, summary
from engine.history.chunk_queries import RowRead
from engine.history.redumps import Redumped
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
        "There before the copy", "Updated", "Deleted", "Inserted by a redump", "Now in the mirror",
    ]  # fmt: skip
    assert found[0].values == (("id", None, "7"), ("status", None, "new"), ("note", None, "NULL"))
    assert found[1].values == (("status", "new", "paid"), ("note", "NULL", "0x01"))
    assert found[1].place == "b.1:4 · u:1"
    assert found[2].values == (("id", "7", None), ("status", "paid", None), ("note", "0x01", None))
    assert found[3].values[1] == ("status", None, "again")


def test_a_redump_inserts_only_what_was_not_there() -> None:
    """It writes every row that it reads as an insert.

    Without an earlier change, the log does not say whether it was there.
    """
    first = [entry("+I", "new", _tm_redump="cmd"), entry("mirror", "new")]
    later = [entry("+I", "old"), entry("+I", "new", _tm_redump="cmd"), entry("mirror", "new")]
    for rows, titles in ((first, []), (later, ["Inserted"])):
        found = steps(rows, COLUMNS)
        assert found is not None
        assert [step.title for step in found] == [*titles, "Read again by a redump", "Now in the mirror"]
        assert ("status", "old" if titles else None, "new") in found[-2].values


def test_a_row_that_is_gone_or_never_changed() -> None:
    """A deleted row is not in the mirror; one without changes is only there."""
    gone = steps([entry("+I", "new"), entry("-D", "new")], COLUMNS) or []
    assert [step.title for step in gone] == ["Inserted", "Deleted", "Not in the mirror now"]
    quiet = steps([entry("mirror", "new")], COLUMNS) or []
    assert [step.title for step in quiet] == ["There before the copy", "Now in the mirror"]
    assert steps([], COLUMNS) == []
    assert steps([entry("+I", "new")], COLUMNS, more=True) is None, "the row may be in the mirror"


def test_values_are_escaped_and_cut() -> None:
    """Names and values come from the source."""
    (step, _) = steps([entry("+I", "*bold*", "x" * 100)], COLUMNS) or []
    shown = markdown(step)
    assert "\\*bold\\*" in shown
    assert "x" * 60 + "…" in shown.replace("\\", "")
    assert "x" * 61 not in shown


def test_a_life_says_how_it_began_and_ended() -> None:
    """The first image, or the chunk that had the row; the deletion; who asked for a redump, and why."""
    read = RowRead(7, NOW, "b.1:2")
    copied = steps([entry("mirror", "new")], COLUMNS, read=read) or []
    assert summary(copied) == "There before the copy, read in chunk 7. It is in the mirror now."
    assert "chunk 7" in markdown(copied[0])
    kept = steps([entry("mirror", "new")], COLUMNS, read=read, expires=True) or []
    assert summary(kept) == "Existed before the oldest change that is kept. It is in the mirror now."
    one = Redumped("c1", NOW, "1 key of d.t", "ada", "wrong totals", "done", None, 1, 1, 0, 0, 1.5)
    rows = [entry("+I", "a", _tm_ts=NOW), entry("-D", "a", _tm_redump="c1"), entry("+I", "b", _tm_redump="c1")]
    life = steps(rows, COLUMNS, redumps={"c1": asked_by(one)}) or []
    assert [step.note for step in life] == ["", *["redump by ada: wrong totals"] * 2, ""]
    assert summary(life) == "Inserted at 2026-01-31 15:30:17 UTC. It is not in the mirror now."
    gone = [entry("+I", "a", _tm_ts=NOW), entry("-D", "a", _tm_ts=NOW)]
    ended = "Inserted at 2026-01-31 15:30:17 UTC. Deleted at 2026-01-31 15:30:17 UTC."
    assert summary(steps(gone, COLUMNS) or []) == ended
    unmerged = steps([*gone, entry("mirror", "a")], COLUMNS) or []
    assert summary(unmerged) == f"{ended} The mirror still has it, until the next merge."
    assert asked_by(replace(one, actor=None, reason=None)) == "redump"

"""The lists that outlive a run: what somebody has damaged is left out, the rest is read."""

from dataclasses import asdict
from pathlib import Path

from engine.pipeline.directory import Directory
from engine.pipeline.saved_lists import ParkedRead, list_text, read_parked

PARKED = ParkedRead("d.t", 3, [None, ["9"]], None, "9", "DecodeError", "no", "Do.", 8, "2026-01-01T00:00:00.000000Z")


def test_parked_chunks_are_read_as_they_were_saved(tmp_path: Path) -> None:
    """Without a file there are none."""
    where = Directory(tmp_path)
    assert read_parked(where) == ()
    where.parked.write_text(list_text("parked", [asdict(PARKED)]))
    assert read_parked(where) == (PARKED,)
    assert PARKED.describe() == "d.t chunk 3 […, 9)"


def test_a_damaged_parked_chunk_is_left_out(tmp_path: Path) -> None:
    """One that is no object, and one that lacks a field; a field of a later version does no harm."""
    where = Directory(tmp_path)
    lacking = {name: value for name, value in asdict(PARKED).items() if name != "limits"}
    later = {**asdict(PARKED), "chunk": 4, "weather": "fine"}
    records: list[object] = [7, lacking, later]
    where.parked.write_text(list_text("parked", records))  # type: ignore[arg-type]
    assert [parked.chunk for parked in read_parked(where)] == [4]

"""Watermark windows on one axis of bytes."""

from app.live.view.binlog import axis, chunk_of, figure, note, place, rows
from engine.history.chunk_queries import Window


def test_a_position_is_a_file_and_an_offset() -> None:
    """Anything else is not drawn."""
    assert place("mysql-bin.000003:4") == ("mysql-bin.000003", 4)
    assert place("0-1-100") is None
    assert place("") is None


def test_files_are_in_order() -> None:
    """Also from 999999 to 1000000."""
    assert axis([("b.000001", 500), ("b.000002", 70), ("b.000001", 900)]) == {"b.000001": 0, "b.000002": 900}
    assert list(axis([("b.1000000", 1), ("b.999999", 1)])) == ["b.999999", "b.1000000"]


def test_a_window_over_two_files_is_in_order() -> None:
    """A rotation between the watermarks does not reverse a window."""
    found = figure([Window("d.t", 3, "b.000001:800", "b.000002:50", 150, 2)])
    bars = found["data"][0]
    assert (bars["base"], bars["x"], bars["text"]) == ([800], [50], ["2 changes"])
    assert found["layout"]["xaxis"]["ticktext"] == ["b.000001", "b.000002"]
    assert figure([Window("d.t", 3, "?", "?", 0, 0)])["data"][0]["y"] == []


def test_each_window_has_a_row() -> None:
    """A chunk that was read twice has two, so their labels do not overlap."""
    found = figure(
        [Window("d.t", 0, "b.000001:8", "b.000001:50", 42, 2), Window("d.t", 0, "b.000001:9", "b.000001:9", 0, 0)]
    )
    assert found["data"][0]["y"] == [0, 1]
    assert found["layout"]["yaxis"]["ticktext"] == ["d.t 0", "d.t 0"]


def test_a_click_on_a_bar_names_its_chunk() -> None:
    """A click beside the bars names none."""
    (bars,) = figure([Window("d.t", 3, "b.000001:8", "b.000001:50", 42, 2)])["data"]
    assert chunk_of({"customdata": bars["customdata"][0]}) == ("d.t", 3)
    assert chunk_of({}) is None


def test_the_windows_are_a_table_too() -> None:
    """With those whose positions cannot be drawn."""
    (wide, unknown) = rows(
        [Window("d.t", 3, "b.000001:8", "b.000002:50", None, 2), Window("d.t", 4, "?", "?", 0, 1200)]
    )
    assert list(wide.values()) == ["d.t", 3, "b.000001:8", "b.000002:50", "over several files", "2"]
    assert (unknown["Chunk"], unknown["Gap"], unknown["Changes"]) == (4, "0 B", "1.2k")


def test_the_note_says_whether_windows_are_left_out() -> None:
    """The widest are shown, of all tables or of one."""
    assert note(20, 20, None) == "The 20 widest windows. A click on a bar opens its chunk."
    assert note(3, 20, "d.t") == "All 3 windows of d.t, widest first. A click on a bar opens its chunk."

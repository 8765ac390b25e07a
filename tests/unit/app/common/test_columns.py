"""Columns of data frames."""

from app.common.columns import fitted, fitting, height


def test_rows_fit_their_longest_sentence() -> None:
    """A single line has the default height; Streamlit wraps text only in higher rows."""
    assert height([]) is None
    assert height(["about 9 rows fit one chunk of 100", ""]) is None
    three = "walked, by tenant, id: the distribution factor 12345.6 is outside 0.05–1000, 16384 rows a chunk"
    assert height(["", three]) == 66
    assert height([f"{three} {three}", three]) == 106


def test_a_column_of_figures_fits_its_longest_text() -> None:
    """A figure that is cut at its left is another figure. The heading counts too, and an empty table has one."""
    rows = [{"Heartbeat": "9 s ago"}, {"Heartbeat": "1 h 42 min ago"}]
    assert fitting(["1 h 42 min ago"]) == 140
    assert {name: config.get("width") for name, config in fitted(rows, "Heartbeat").items()} == {"Heartbeat": 140}
    assert fitted([], "Heartbeat")["Heartbeat"].get("width") == fitting(["Heartbeat"]) == 100

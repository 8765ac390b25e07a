"""Columns of data frames."""

from app.parts.columns import height


def test_rows_fit_their_longest_sentence() -> None:
    """A single line has the default height; Streamlit wraps text only in higher rows."""
    assert height([]) is None
    assert height(["about 9 rows fit one chunk of 100", ""]) is None
    three = "walked, by tenant, id: the distribution factor 12345.6 is outside 0.05–1000, 16384 rows a chunk"
    assert height(["", three]) == 66
    assert height([f"{three} {three}", three]) == 106

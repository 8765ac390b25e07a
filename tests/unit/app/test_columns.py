"""Columns of tables."""

from app.parts.columns import height


def test_rows_are_as_high_as_their_longest_sentence() -> None:
    """One line is as high as Streamlit makes it; more are wrapped, which it does in high rows only."""
    assert height([]) is None
    assert height(["about 9 rows fit one chunk of 100", ""]) is None
    three = "walked, by tenant, id: the distribution factor 12345.6 is outside 0.05–1000, 16384 rows a chunk"
    assert height(["", three]) == 66
    assert height([f"{three} {three}", three]) == 106

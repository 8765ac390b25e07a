"""What a data frame shows of an answer in Explore."""

from datetime import UTC, datetime, time

import pyarrow as pa

from app.explore.view.queries import KnownTable, columns_note, exact, floats


def test_no_digit_is_left_out() -> None:
    """Times are text, in their own time zone, and doubles are named; other columns stay as they are."""
    at = datetime(2026, 1, 2, 3, 4, 5, 613727, tzinfo=UTC)
    rows = pa.table(
        {
            "id": pa.array([1, 2]),
            "local": pa.array([at.replace(tzinfo=None), None], pa.timestamp("us")),
            "utc": pa.array([at, None], pa.timestamp("us", "UTC")),
            "time": pa.array([time(1, 2, 3, 5), None], pa.time64("us")),
            "score": pa.array([-118880.96582076408, None]),
        }
    )
    found = exact(rows)
    assert found.column_names == rows.column_names
    assert found.to_pylist()[0] == {
        "id": 1,
        "local": "2026-01-02 03:04:05.613727",
        "utc": "2026-01-02 03:04:05.613727Z",
        "time": "01:02:03.000005",
        "score": -118880.96582076408,
    }
    assert set(found.to_pylist()[1].values()) == {2, None}
    assert floats(found) == ["score"]


def test_hundreds_of_columns_are_a_number() -> None:
    """They would push the editor off the screen."""
    few = KnownTable("d.t", "d.t", "d.t__changes", ("id",), ("id", "v"))
    assert columns_note(few) == "Key: id. Columns: id, v"
    many = KnownTable("d.t", "d.t", "d.t__changes", (), tuple(f"c{n}" for n in range(300)))
    assert columns_note(many) == "Key: none. Columns: 300, below"

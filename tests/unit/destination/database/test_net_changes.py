"""What changes leave of each key."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from engine.destination.database.net_changes import net_changes

CHANGES = st.lists(st.tuples(st.sampled_from(["a", "A", "b"]), st.integers(0, 2), st.booleans()), max_size=30)


@given(CHANGES)
def test_the_last_image_of_a_key_counts(changes: list[tuple[str, int, bool]]) -> None:
    """As if each had been applied: upserts, and deletions of keys that are there or not."""
    rows = list[dict[str, Any]]()
    expected, touched = dict[tuple[str, int], int](), set[tuple[str, int]]()
    for number, (text, key, is_gone) in enumerate(changes):
        rows.append({"k": text, "n": key, "v": number, "_tm_kind": "-D" if is_gone else "+U"})
        touched.add((text, key))
        if is_gone:
            expected.pop((text, key), None)
        else:
            expected[text, key] = number
    names = {"k": pa.string(), "n": pa.int64(), "v": pa.int64(), "_tm_kind": pa.string()}
    left, gone = net_changes(pa.Table.from_pylist(rows, schema=pa.schema(names)), ("k", "n"))
    assert {(row["k"], row["n"]): row["v"] for row in left.to_pylist()} == expected
    assert left.num_rows == len(expected)
    assert {(row["k"], row["n"]) for row in gone.to_pylist()} == touched - set(expected)

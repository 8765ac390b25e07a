"""Change logs: the text columns of a change do not depend on the changes beside it."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from engine.capture.binlog.row_changes import FACTS, RowChanges, log_table

SOURCES = ["", "uuid:", "uuid:tag:"]
CHANGES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(4, 6), st.integers(0, 9), st.integers(0, 2), st.integers(0, 2)).flatmap(
        lambda change: st.integers(1, 5).map(lambda times: [change] * times)
    ),
    max_size=8,
).map(lambda parts: [change for part in parts for change in part])


@given(CHANGES)
def test_a_change_log_says_the_same_of_each_change_alone(changes: list[tuple[int, int, int, int, int]]) -> None:
    """For long ranges with equal positions and transactions, for short ranges, and for none."""
    kind, offset, ts, source, number = (np.array([c[n] for c in changes], np.int64) for n in range(5))
    columns = [kind.astype(np.int8), np.full(len(changes), 7), offset, ts, source, number]
    facts = pa.table([pa.array(column) for column in columns], schema=FACTS)
    rows = pa.table({"id": pa.array(range(len(changes)), pa.int64())})
    log = log_table(RowChanges(rows, facts, SOURCES), kind.astype(np.int8), "bin.000007", 40)
    assert log["_tm_position"].to_pylist() == [f"bin.000007:{c[1]}" for c in changes]
    assert log["_tm_tx"].to_pylist() == [f"{SOURCES[c[3]]}{c[4]}" if c[4] else None for c in changes]
    assert log["_tm_seq"].to_pylist() == [40 + n for n in range(len(changes))]


@given(CHANGES, st.data())
def test_taking_all_in_their_order_gives_what_is_there(changes: list[tuple[int, ...]], data: st.DataObject) -> None:
    """Any other order and any part give those rows."""
    rows = pa.table({"id": pa.array(range(len(changes)), pa.int64())})
    facts = pa.table([pa.array([0] * len(changes), field.type) for field in FACTS], schema=FACTS)
    chosen = data.draw(st.permutations(range(len(changes))))[: data.draw(st.integers(0, len(changes)))]
    for slots in (chosen, list(range(len(changes)))):
        taken = RowChanges(rows, facts).take(np.array(slots, np.int64))
        assert taken.rows["id"].to_pylist() == slots
        assert len(taken.facts) == len(slots)

"""A journal line becomes rows of the index, or nothing, but never an error."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.history.index_schema import TABLES
from engine.history.journal_rows import place_of, rows_of
from engine.history.journal_slices import SliceLine
from engine.journal.events import EVENTS, fields_of

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(sorted(EVENTS)), st.data())
def test_any_value_in_any_field_fits_the_tables(event: str, data: st.DataObject) -> None:
    """Other versions of the engine may write other types: values that do not fit become NULL."""
    body = {name: data.draw(ANYTHING) for name in fields_of(event)}
    line = SliceLine("r", 1, datetime(2026, 1, 31, tzinfo=UTC), event, body, "{}")
    for table, row in rows_of("p", line):
        pa.Table.from_pylist([row], schema=TABLES[table])
        assert set(row) <= set(TABLES[table].names), table


@pytest.mark.parametrize("text", [None, "", "mysql-bin.000001", "0-1-100", "a.b:c", "mysql-bin.000001:x", 3, "b.²:4"])
def test_what_is_no_position_has_no_place(text: object) -> None:
    """No order is better than a wrong one."""
    assert place_of(text) is None


def test_places_order_positions() -> None:
    """By file number, then by offset, even when the number gets another digit."""
    texts = ["b.000001:4", "b.000001:5000000000", "b.000002:4", "b.999999:4", "b.1000000:4"]
    places = [place_of(text) for text in texts]
    assert None not in places
    assert places == sorted(places, key=lambda place: place or 0)


def test_every_event_that_has_a_table_of_its_own_is_in_the_protocol() -> None:
    """Every mapper is for an event that the engine writes."""
    from engine.history.journal_rows import _MAPPERS

    assert set(_MAPPERS) <= set(EVENTS)

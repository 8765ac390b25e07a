"""The round trip of a spec through TOML."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.common.view.draft import Draft
from app.common.view.template import toml
from engine.spec import settings
from tests.unit.app.support import draft

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LEAVES = (
    TEXTS | st.integers(-(2**60), 2**60) | st.booleans() | st.floats(allow_nan=False) | st.lists(TEXTS, max_size=30)
)
VALUES = st.dictionaries(
    TEXTS, st.recursive(LEAVES, lambda below: st.dictionaries(TEXTS, below, max_size=4)), max_size=5
)


@given(VALUES)
def test_any_spec_survives_the_round_trip_through_toml(values: dict[str, Any]) -> None:
    """Including quotes, control characters, dots in keys, empty sections and long lists."""
    assert tomllib.loads(toml(values)) == values


WRITTEN = """\
# The shop, asked for by Ada
name = "shop"  # as in the ticket
throttle.readers = 4  # dotted

[source]  # the replica
# never the primary
host = "127.0.0.1"
tables = [
  "shop.*",  # all
  "!shop.audit",  # but this
]

# Small chunks: the rows are wide
[snapshot]
chunk_rows = 5000
chunk_key = { "shop.log" = "at" }  # inline

[snapshot.tables."shop.orders"]  # the largest
chunk_rows = 6000

[sink]
path = "lake"

[snapshot.tables."shop.late"]  # after another section
chunk_rows = 7000
# the end
"""


def test_comments_stay_with_their_values() -> None:
    """An edit changes only its own value; a value that is removed takes its comment along."""
    written = Draft("0123abcd", tomllib.loads(WRITTEN), written=WRITTEN)
    assert toml(written.spec, WRITTEN) == WRITTEN
    edited = written.put("source", "host", value="db").put("source", "tables", value=["shop.*", "crm.*"])
    edited = edited.put("snapshot", "chunk_rows", value=None).put("alerts", "lag_s", value=9)
    assert toml(edited.spec, edited.written) == (
        WRITTEN.replace('"127.0.0.1"', '"db"')
        .replace('"!shop.audit",  # but this', '"crm.*",')
        .replace("chunk_rows = 5000\n", "")
        + "\n[alerts]\nlag_s = 9\n"
    )


@given(VALUES, VALUES)
def test_the_text_never_changes_a_value(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Whatever the text was, the result has the draft's values, including the types of numbers."""
    assert json.dumps(tomllib.loads(toml(after, toml(before))), sort_keys=True) == json.dumps(after, sort_keys=True)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("throttle",), None),
        (("throttle", "max_rows_per_s"), 9),
        (("source", "tables"), ["!shop.audit", "shop.*"]),
        (("snapshot", "tables", "shop.new", "key"), "id"),
        (("snapshot", "tables", "shop.late", "chunk_rows"), 8),
        (("snapshot", "tables", "shop.orders"), None),
        (("snapshot", "chunk_key", "shop.new"), "id"),
        (("snapshot", "chunk_key"), None),
        (("snapshot",), None),
    ],
)
def test_any_edit_of_a_text_is_read_back(path: tuple[str, ...], value: Any) -> None:
    """Dotted keys, inline tables and late sections are edited like all others, and the first comment stays."""
    edited = Draft("0123abcd", tomllib.loads(WRITTEN)).put(*path, value=value)
    text = toml(edited.spec, WRITTEN)
    assert tomllib.loads(text) == edited.spec
    assert text.startswith("# The shop, asked for by Ada\n")


def test_the_steps_produce_a_valid_spec() -> None:
    """The file that the command line takes, including rules for tables with dots in their names."""
    made = draft().put("snapshot", "tables", "shop.orders", "chunk_rows", value=5000)
    made = made.put("tables", "shop.orders", "exclude", value=["note"])
    spec = settings.parse(toml(made.spec), Path("pipeline.toml"))
    assert spec.snapshot.rules("shop", "orders").chunk_rows == 5000
    assert spec.projection_rules("shop", "orders").exclude == ("note",)

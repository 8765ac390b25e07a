"""A table as of a time, compared with a model: any changes, any merge lag, any time."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.decode.schema import Column, Table
from engine.explore.queries import as_of_sql

TABLE = Table("d", "t", (Column("id", "int"), Column("v", "int")), ("id",))
BEGIN = datetime(2026, 1, 31, tzinfo=UTC)
Rows = dict[int, int]
LOG = pa.schema(
    [
        ("id", pa.int32()),
        ("v", pa.int32()),
        ("_tm_kind", pa.string()),
        ("_tm_ts", pa.timestamp("us", "UTC")),
        ("_tm_seq", pa.int64()),
        ("_tm_redump", pa.string()),
    ]
)
MIRROR = pa.schema([("id", pa.int32()), ("v", pa.int32()), ("_tm_seq", pa.int64())])


@dataclass
class Source:
    """A table, its change log, and its rows after each change: (seconds, rows)."""

    rows: Rows
    whole_seconds: bool
    log: list[tuple[int, int, str, float, str | None]] = field(default_factory=list)
    were: list[tuple[float, Rows]] = field(default_factory=list)
    held: Rows = field(default_factory=dict)
    """The mirror, if all is merged."""
    now_s: float = 0.0

    def log_change(self, key: int, value: int, kind: str, redump: str | None = None) -> None:
        """Append an image to the change log."""
        self.log.append((key, value, kind, float(int(self.now_s)) if self.whole_seconds else self.now_s, redump))
        self.held = mirror(self.held, self.log[-1:])

    def change(self, what: str, key: int, other: int, value: int) -> None:
        """An application inserts, updates, deletes or moves a row; or an operator redumps everything."""
        if what == "redump":
            for ghost in sorted(self.held.keys() - self.rows.keys()):
                self.log_change(ghost, self.held[ghost], "-D", "c")
            for known, held in self.rows.items():
                self.log_change(known, held, "+I", "c")
            return
        if key not in self.rows:
            self.rows[key] = value
            self.log_change(key, value, "+I")
        elif what == "delete":
            self.log_change(key, self.rows.pop(key), "-D")
        else:
            aim = other if what == "move" and other not in self.rows else key
            self.log_change(key, self.rows.pop(key), "-U")
            self.rows[aim] = value
            self.log_change(aim, value, "+U")
        self.were.append((self.log[-1][3], dict(self.rows)))


def mirror(begun: Rows, log: list[tuple[int, int, str, float, str | None]]) -> Rows:
    """The mirror after the merges."""
    rows = dict(begun)
    for key, value, kind, _, _ in log:
        rows.pop(key, None)
        if kind in ("+I", "+U"):
            rows[key] = value
    return rows


def shown(source: Source, held: Rows, at_s: float, merged: int) -> Rows:
    """The answer of the query. held: the mirror; merged: the recorded merges."""
    names = [
        {
            "id": k,
            "v": v,
            "_tm_kind": kind,
            "_tm_ts": BEGIN + timedelta(seconds=s),
            "_tm_seq": n,
            "_tm_redump": redump,
        }
        for n, (k, v, kind, s, redump) in enumerate(source.log, 1)
    ]
    log = pa.Table.from_pylist(names, LOG)
    kept = pa.Table.from_pylist([{"id": k, "v": v, "_tm_seq": None} for k, v in held.items()], MIRROR)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'; SET threads = 1; CREATE SCHEMA d")
        for name, rows in (("t", kept), ("t__changes", log)):
            connection.register(f"_{name}", rows)
            connection.execute(f"CREATE VIEW d.{name} AS SELECT * FROM _{name}")
        found = connection.sql(as_of_sql(TABLE, BEGIN + timedelta(seconds=at_s), merged)).fetchall()
    assert len({key for key, _ in found}) == len(found), "a key is there twice"
    return dict(found)


KEYS, VALUES = st.integers(0, 4), st.integers(0, 99)
KINDS = st.sampled_from(["insert", "update", "update", "delete", "move", "redump"])
CHANGES = st.lists(st.tuples(KINDS, KEYS, KEYS, VALUES, st.sampled_from([0.0, 0.25, 0.5, 1.0, 4000.0])), max_size=25)


@given(
    begun=st.dictionaries(KEYS, VALUES),
    wrong=st.dictionaries(KEYS, VALUES),
    changes=CHANGES,
    whole_seconds=st.booleans(),
    merged=st.floats(0, 1),
    known=st.floats(0, 1),
    at=st.floats(0, 1),
)
@example({}, {}, [("insert", 1, 1, 1, 4000.0)] * 3, False, 0.0, 0.0, 0.5)
def test_a_table_is_what_it_was(
    begun: Rows,
    wrong: Rows,
    changes: list[tuple[str, int, int, int, float]],
    whole_seconds: bool,
    merged: float,
    known: float,
    at: float,
) -> None:
    """However far merges lag behind, whichever earlier merge is taken for the last, and with redumps."""
    repaired = any(what == "redump" for what, *_ in changes)
    first = wrong if repaired else begun
    source = Source(dict(begun), whole_seconds, held=first)
    for what, key, other, value, later_s in changes:
        source.now_s += later_s
        source.change(what, key, other, value)
    through = round(merged * len(source.log))
    at_s = at * (source.now_s + 1)
    held = mirror(first, source.log[:through])
    expected = dict(begun)
    for ts_s, rows in source.were:
        expected = rows if ts_s <= at_s else expected
    assert shown(source, held, at_s, round(known * through)) == expected


def test_a_lag_of_days_needs_no_hour() -> None:
    """A row was changed two days before the requested time, and its merge is still pending."""
    source = Source({1: 10}, whole_seconds=False)
    source.now_s = 1.0
    source.change("update", 1, 1, 11)
    assert shown(source, {1: 10}, 2 * 86400.0, 0) == {1: 11}


@pytest.mark.parametrize("merged", [0, 2])
def test_a_row_that_came_later_was_not_there(merged: int) -> None:
    """An insert, and the new key of an update, merged or not."""
    source = Source({1: 10}, whole_seconds=False)
    source.now_s = 5.0
    source.change("move", 1, 2, 10)
    assert shown(source, mirror({1: 10}, source.log[:merged]), 4.0, merged) == {1: 10}
    assert shown(source, mirror({1: 10}, source.log[:merged]), 5.0, merged) == {2: 10}

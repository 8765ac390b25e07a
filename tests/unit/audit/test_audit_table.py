"""One table of an audit: batches of images against a change log, whatever their sizes."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from engine.audit import audit_table
from engine.audit.audit_range import AuditedRange
from engine.audit.audit_source import EventRows, Frames
from engine.audit.audit_table import AuditedTable
from engine.capture.position_order import pack
from engine.decode.schema import Column, Table
from engine.destination.delta.read import change_log
from engine.destination.delta.read.change_log import ChangeLog
from engine.source.positions import Position
from engine.store.local_folder import LocalFolder

TABLE = Table("d", "t", (Column("id", "int"), Column("v", "int")), ("id",))
START, END = Position("b.000001", 100), Position("b.000001", 9_000)
EVENTS = [(100 + 10 * n, n // 4, [n * 3 + k for k in range(1 + n % 3)]) for n in range(1, 200)]
"""Of the binlog: position, transaction and keys inserted."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_table, "_BATCH_IMAGES", 7)
    monkeypatch.setattr(audit_table, "_LOOKAHEAD", 3)
    monkeypatch.setattr(change_log, "BATCH_ROWS", 5)


class NoTexts:
    """There are none."""

    def texts(self, charset: str, values: Sequence[bytes]) -> Mapping[bytes, str]:
        return {}


Event = tuple[int, int, Sequence[int]]


def published(lake: Path, events: Sequence[Event], *, redumped: int = 0) -> None:
    """A change log with these inserts."""
    rows = [(position, key) for position, _, keys in events for key in keys]
    count = len(rows)
    columns = {
        "id": pa.array([key for _, key in rows], pa.int32()),
        "v": pa.array([key * 2 for _, key in rows], pa.int32()),
        "_tm_kind": ["+I"] * count,
        "_tm_ts": pa.array([datetime.fromtimestamp(5, UTC)] * count, pa.timestamp("us", "UTC")),
        "_tm_position": [f"b.000001:{position}" for position, _ in rows],
        "_tm_seq": pa.array(range(1, count + 1), pa.int64()),
        "_tm_tx": pa.array([None] * count, pa.string()),
        "_tm_redump": pa.array(["c"] * redumped + [None] * (count - redumped), pa.string()),
    }
    write_deltalake(str(lake / "d" / "t__changes"), pa.table(columns))


def audited(lake: Path, events: Sequence[Event], frames: Frames | None = None, seq: int = 1) -> AuditedTable:
    """The table after an audit of this binlog. seq: of its first change."""
    frames = frames or Frames({("d", "t")}, {1: "b.000001"}, "b.000001")
    log = ChangeLog(LocalFolder(lake / "d" / "t__changes"))
    one = AuditedTable(AuditedRange(TABLE, TABLE.columns, START, END, seq), log, NoTexts(), frames)
    for position, transaction, keys in events:
        rows: list[Mapping[str, Any]] = [{"values": {"id": key, "v": key * 2}, "none_sources": {}} for key in keys]
        one.feed(EventRows(("d", "t"), pack(1, position), ("+I",), rows, 5, None, transaction + 1))
        one.compare()
    one.compare(pack(*END.order))
    return one


def test_all_images_are_compared(tmp_path: Path) -> None:
    """Whatever the batches."""
    published(tmp_path, EVENTS)
    found = audited(tmp_path, EVENTS).result({})
    assert (found.images, found.transactions, found.differences) == (sum(len(keys) for _, _, keys in EVENTS), 50, 0)


@pytest.mark.parametrize("n", [0, 1, 50, 197, 198])
def test_a_missing_and_an_extra_event(tmp_path: Path, n: int) -> None:
    """Each of its images is one difference."""
    fewer = [*EVENTS[:n], *EVENTS[n + 1 :]]
    published(tmp_path, fewer)
    missing = audited(tmp_path, EVENTS)
    assert missing.result({}).kinds == {"missing": len(EVENTS[n][2])}
    assert {found.position for found in missing.listed} == {f"b.000001:{EVENTS[n][0]}"}
    other = tmp_path / "other"
    published(other, EVENTS)
    assert audited(other, fewer).result({}).kinds == {"extra": len(EVENTS[n][2])}


def test_changes_where_nothing_was_decoded(tmp_path: Path) -> None:
    """Of events that the package cannot decode, images are counted; of the others, they are extra."""
    published(tmp_path, EVENTS)
    frames = Frames({("d", "t")}, {1: "b.000001"}, "b.000001")
    frames.opaque[("d", "t")] = {pack(1, position): "compressed" for position, _, _ in EVENTS[:100]}
    frames.anywhere = {pack(1, position): "prepared" for position, _, _ in EVENTS[100:199]}
    found = audited(tmp_path, [], frames).result({})
    images = [sum(len(keys) for _, _, keys in part) for part in (EVENTS[:100], EVENTS[100:])]
    assert (found.differences, found.not_compared) == (0, {"compressed": images[0], "prepared": images[1]})


def test_only_the_range_is_compared(tmp_path: Path) -> None:
    """Changes before it and after it are neither missing nor extra. Redumped rows are counted."""
    first = EVENTS[0]
    published(tmp_path, [(50, 0, [1_000, 1_001]), first, *EVENTS[1:], (9_001, 0, [1_002])], redumped=2 + len(first[2]))
    found = audited(tmp_path, [(50, 0, [77]), *EVENTS[1:], (9_001, 0, [78])]).result({})
    assert (found.differences, found.redumped) == (0, len(first[2]))


LATER = [(9_001 + n, 1_000 + n, [5_000 + n]) for n in range(500)]


def test_the_log_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some changes beyond the range are read, because a change that comes too late may follow: it is found."""
    late = [*EVENTS[:-1], *LATER[:2], EVENTS[-1], *LATER[2:]]
    published(tmp_path, late)
    read, places, values = ChangeLog._stream, list[int](), list[int]()

    def counted(log: ChangeLog, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        for part in read(log, name, columns):
            if "id" not in columns and "_tm_redump" in columns:
                places.append(part.num_rows)
            elif "id" in columns:
                values.append(part.num_rows)
            yield part

    monkeypatch.setattr(ChangeLog, "_stream", counted)
    assert audited(tmp_path, EVENTS).result({}).differences == 0
    inside = sum(len(keys) for _, _, keys in EVENTS)
    assert inside < sum(places) < inside + 2 * max(places)
    assert sum(values) < inside + 2 * max(values)
    places.clear()
    assert audited(tmp_path, EVENTS, seq=0).result({}).differences == 0
    assert sum(places) == inside + len(LATER), "it may be a log of two servers"


def test_changes_of_another_server(tmp_path: Path) -> None:
    """Their positions may lie in the range, or after it: neither are they extra, nor does the log end with them."""
    other = [(9_500 + n, n, [n]) for n in range(30)] + [(500, 40, [40])]
    published(tmp_path, [*other, *EVENTS])
    assert audited(tmp_path, EVENTS, seq=len(other) + 1).result({}).differences == 0


def test_a_table_that_cannot_be_decoded(tmp_path: Path) -> None:
    """It has a reason instead of differences."""
    published(tmp_path, EVENTS)
    frames = Frames({("d", "t")}, {1: "b.000001"}, "b.000001", undecoded={("d", "t"): "it has a VECTOR"})
    assert audited(tmp_path, [], frames).result({}).excluded == "it has a VECTOR"
    unsure = audited(tmp_path, EVENTS[:5])
    assert unsure.result({("d", "t"): "rolled back"}).excluded == "rolled back"
    assert not unsure.listed

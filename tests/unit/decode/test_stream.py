"""Events, their headers and their positions, as a dump sends them."""

import random
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import SourceLostError
from engine.decode.binlog_events import Kind, read_headers, read_rotate, read_table_map, refuse_unknown
from engine.decode.query_event import read_query
from engine.decode.schema import Column, Table
from engine.decode.stream import EventBatch, StreamPosition
from tests.unit.support.wire import Binlog, laid_out, table_map

TABLE = Table("shop", "orders", (Column("id", "int"),), ("id",))


def runs_of(payloads: list[bytes], position: StreamPosition, cuts: list[int] | None = None) -> list[EventBatch]:
    """The event batches of a stream that comes in blocks."""
    edges = sorted({0, len(payloads), *(cuts or [])})
    return [run for a, b in pairwise(edges) for run in position.runs(*laid_out(payloads[a:b]))]


@given(st.booleans(), st.lists(st.integers(0, 12), max_size=4), st.integers(0, 5))
def test_each_event_knows_the_position_behind_it(checksum: bool, cuts: list[int], more: int) -> None:
    """However the stream is split, with and without checksums, across the end of a file."""
    first = Binlog("bin.000009", checksum=checksum)
    ends = [first.query("BEGIN") for _ in range(more)] + [first.rotate("bin.000010")]
    second = Binlog("bin.000010", checksum=checksum)
    ends += [second.commit(), second.commit()]
    position = StreamPosition("bin.000009", 4)
    runs = runs_of(first.payloads + second.payloads, position, cuts)
    real = [(run.file, int(o)) for run in runs for o, e in zip(run.offset, run.headers.end_position, strict=True) if e]
    expected = [("bin.000009", o) for o in ends[:-2]] + [("bin.000010", o) for o in ends[-2:]]
    assert [pair for pair in real if pair in expected] == expected
    assert (position.file, position.offset) == ("bin.000010", second.position)
    for run in runs:
        assert all(run.headers.end >= run.headers.body)


def test_offsets_beyond_four_gigabytes_count_on() -> None:
    """End positions have 32 bits; ours have more."""
    log = Binlog("bin.000001")
    log.position = 2**32 - 60
    ends = [log.commit() for _ in range(5)]
    position = StreamPosition("bin.000001", 2**32 - 60)
    runs = runs_of(log.payloads[2:], position)
    assert [int(o) for run in runs for o in run.offset] == ends
    assert ends[-1] > 2**32


def test_a_position_that_goes_back_is_refused() -> None:
    """It resembles a 32-bit overflow, but no server skips that much."""
    log = Binlog()
    log.commit()
    log.position -= 40
    log.commit()
    with pytest.raises(SourceLostError, match="do not follow"):
        runs_of(log.payloads, StreamPosition(log.file, 4))


def test_events_that_a_server_leaves_out_leave_a_gap() -> None:
    """MariaDB does not send annotations: the next position is still right."""
    log = Binlog()
    log.position += 500
    end = log.commit()
    position = StreamPosition(log.file, 4)
    runs_of(log.payloads, position)
    assert position.offset == end


@pytest.mark.parametrize("kind", [26, 20, 43, 99])
def test_an_event_that_is_not_decoded_is_refused_by_name(kind: int) -> None:
    """It may contain rows, so the position stays in front of it; events marked ignorable may be skipped."""
    log = Binlog()
    log.add(kind, b"payload")
    with pytest.raises(SourceLostError, match=Kind(kind).name if kind in list(Kind) else f"type {kind}"):
        refuse_unknown(read_headers(*laid_out(log.payloads)))
    log = Binlog()
    log.add(kind, b"payload", flags=0x80)
    refuse_unknown(read_headers(*laid_out(log.payloads)))


def test_statements_table_maps_and_rotations_are_read() -> None:
    """The event bodies that are parsed in Python."""
    log = Binlog(checksum=False)
    log.query("UPDATE `ü` SET a = 1", database="shop")
    log.add(19, table_map(TABLE, 0x0102030405))
    log.rotate("bin.000002")
    bodies = [payload[20:] for payload in log.payloads[2:]]
    assert (read_query(bodies[0]).database, read_query(bodies[0]).statement) == ("shop", "UPDATE `ü` SET a = 1")
    mapped = read_table_map(bodies[1], mariadb=False)
    assert (mapped.table_id, mapped.database, mapped.table, mapped.names) == (0x0102030405, "shop", "orders", ("id",))
    assert read_rotate(bodies[2]) == ("bin.000002", 4)
    assert np.array_equal(read_headers(*laid_out(log.payloads)).kind, [4, 15, 2, 19, 4])


@given(st.integers(0, 2**32))
def test_damaged_bodies_are_refused_or_read(seed: int) -> None:
    """Truncated and changed bytes of table maps and statements give an error of ours or a value."""
    rng = random.Random(seed)
    facts: list[dict[str, Any]] = [
        {"type": "decimal", "precision": 9, "scale": 1},
        {"type": "enum", "labels": ("a", "bc"), "charset": "utf8mb4"},
    ]
    facts += [{"type": "varchar", "charset": "latin1"}, {"type": "set", "labels": ("x",), "charset": "latin1"}]
    columns = tuple(Column(f"c{n}", **fact) for n, fact in enumerate(facts))
    log = Binlog(checksum=False)
    log.query("UPDATE t SET a = 1")
    for body, read in (
        (table_map(Table("d", "t", columns, ()), 1), partial(read_table_map, mariadb=rng.random() < 0.5)),
        (log.payloads[2][20:], read_query),
    ):
        changed = bytearray(body[: rng.randrange(len(body) + 1)] if rng.random() < 0.5 else body)
        for _ in range(rng.randrange(3) if changed else 0):
            changed[rng.randrange(len(changed))] = rng.choice([0, 0xFC, 0xFE, 0xFF, rng.randrange(256)])
        with suppress(SourceLostError):
            read(bytes(changed))


@given(st.integers(0, 2**32))
def test_a_damaged_stream_is_refused_or_read(seed: int) -> None:
    """Headers too: sizes, positions and types of any value."""
    rng = random.Random(seed)
    log = Binlog()
    for _ in range(6):
        log.query("BEGIN")
    payloads = [bytearray(p) for p in log.payloads]
    victim = rng.choice(payloads)
    victim[rng.randrange(len(victim))] = rng.randrange(256)
    if rng.random() < 0.3:
        del victim[rng.randrange(len(victim)) :]
    with suppress(SourceLostError):
        for run in runs_of([bytes(p) for p in payloads], StreamPosition(log.file, 4), [3]):
            refuse_unknown(run.headers)

"""The event statistics of a binlog range: counts by type, skipped events, the largest transaction."""

import uuid
from itertools import pairwise

import pytest

from engine.base.errors import SourceLostError
from engine.capture.binlog.event_statistics import EventStatistics
from engine.decode.stream import StreamPosition
from tests.unit.support.compressed import event, opened, payload, run_of
from tests.unit.support.wire import Binlog, laid_out

SERVER = uuid.UUID("0195a8b2-0000-7000-8000-00000000002a")


def statistics(log: Binlog, cuts: list[int], *, mariadb: bool = False) -> EventStatistics:
    """The statistics of a log that comes in blocks."""
    made, position = EventStatistics(mariadb=mariadb), StreamPosition(log.file, 4)
    for a, b in pairwise(sorted({0, *cuts, len(log.payloads)})):
        for run in position.runs(*laid_out(log.payloads[a:b])):
            made.add(run)
    return made


@pytest.mark.parametrize("cuts", [[], list(range(40)), [5, 9], [3, 8, 11]])
def test_events_are_counted_and_the_largest_transaction_is_named(cuts: list[int]) -> None:
    """However the log is split. Events that the server makes for the dump are not counted."""
    log = Binlog()
    opening = log.position
    places = []
    for number, size in enumerate([10, 5000, 300, 4000], 1):
        places.append(log.position)
        log.gtid(SERVER, number)
        log.query("BEGIN")
        log.add(30, bytes(size))
        log.add(99, b"", flags=0x80)
        log.commit()
    found = statistics(log, cuts)
    assert found.events == {"QUERY": 4, "FORMAT_DESCRIPTION": 1, "XID": 4, "WRITE_ROWS": 4, "GTID": 4, "type 99": 4}
    assert found.unknown_events == {"type 99": 4}
    assert found.bytes == log.position - 4
    assert opening == places[0]
    assert found.largest == {
        "gtid": f"{SERVER}:2",
        "position": f"{log.file}:{places[1]}",
        "bytes": places[2] - places[1],
        "events": 5,
    }


def test_the_last_transaction_can_be_the_largest() -> None:
    """It is complete when the range is; without transactions there is no largest one."""
    log = Binlog()
    assert statistics(log, []).largest is None
    log.maria_gtid(3, 7)
    at = log.position
    log.add(23, bytes(99))
    found = statistics(log, [2, 3], mariadb=True)
    assert found.largest is not None
    assert (found.largest["gtid"], found.largest["position"]) == ("3-1-7", f"{log.file}:{at - 42}")


def test_compressed_events_are_counted_too() -> None:
    """They are refused by the same rule."""
    log = Binlog()
    log.add(40, payload(event(2, b"") + event(30, b"x") + event(30, b"y")))
    log.add(30, b"plain")
    run = run_of(log)
    made = EventStatistics(mariadb=False)
    made.add(run)
    (plain,) = opened(run)
    made.add_unfolded(plain, run)
    assert made.events == {"QUERY": 1, "WRITE_ROWS": 3, "TRANSACTION_PAYLOAD": 1}
    log.add(40, payload(event(20, b"")))
    run = run_of(log)
    with pytest.raises(SourceLostError, match="type 20"):
        made.add_unfolded(opened(run)[0], run)

"""Where a pipeline without a snapshot starts, and how far it may fall behind."""

import time
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from engine.base.errors import SpecError
from engine.capture.binlog.binlog_reader import gtids_at
from engine.capture.binlog.position_search import NoPlaceError
from engine.journal import Journal
from engine.pipeline.helpers import Helpers
from engine.run.monitors.lag import CommittedPosition, LagMonitor
from engine.run.source_loss.outage import OutageTracker
from engine.run.tables.first_epoch import first_epoch
from engine.source.connect import describe
from engine.source.heads import read_head
from engine.source.positions import Position
from engine.spec.settings import parse
from tests.live.support.known_positions import FIRST_ID, ServerFactory, Written
from tests.servers import USER


def test_a_start_at_a_time_is_exact(written: Written) -> None:
    """It starts with the first transaction committed at or after that time, in any file; MariaDB has whole seconds."""
    now = 0.0
    for _ in range(3):
        written.write()
        written.server.execute("FLUSH BINARY LOGS")
        written.write()
        time.sleep(2.1)
        now = float(written.server.execute("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0])
        keys, _ = written.read_from(written.binlog().since(round((now - 1.0) * 1_000_000)))
        assert keys == []
    keys, _ = written.read_from(written.binlog().since(round((now - 3.2) * 1_000_000)))
    assert keys == [4, 5]
    with pytest.raises(NoPlaceError, match="purged"):
        written.binlog().since(1_000_000)


def _begun(written: Written, startup: str) -> Position:
    """The position of epoch 0 with this startup mode."""
    text = f"""
name = "shop"
[source]
host = "{written.server.host}"
port = {written.server.port}
user = "{USER}"
tables = ["d.*"]
startup = "{startup}"
[sink]
type = "delta"
path = "lake"
"""
    spec = parse(text, Path("/specs/shop.toml"))
    with closing(written.connection()) as connection:
        begun = first_epoch(spec, connection, written.endpoint, describe(connection), "run")
    (table,) = begun.record.tables.values()
    assert [chunk.exact for chunk in table.chunks] == [begun.record.to_position]  # streamed, not copied
    position = begun.record.to_position
    assert position.gtids == gtids_at(written.endpoint, position, FIRST_ID, mariadb=written.mariadb)
    assert position.born == read_head(written.endpoint, position.file, FIRST_ID).born
    return position


def test_startup_modes_begin_where_they_say(written: Written) -> None:
    """At a position, behind GTIDs, at a time, at the earliest and at the latest position."""
    written.several()
    for place in written.places[2::3]:
        at = f"{place.position.file}:{place.position.offset}"
        assert written.read_from(_begun(written, f"position:{at}"))[0] == list(range(place.rows, 9))
        assert written.read_from(_begun(written, f"gtid:{place.gtids}"))[0] == list(range(place.rows, 9))
    time.sleep(2.1)
    now = datetime.fromtimestamp(float(written.server.execute("SELECT UNIX_TIMESTAMP()")[0][0]), UTC)
    time.sleep(1.1)
    written.write()
    stamp = f"timestamp:{now:%Y-%m-%dT%H:%M:%S}Z"
    written.server.execute("FLUSH BINARY LOGS")
    assert written.read_from(_begun(written, stamp))[0] == [9]
    assert written.read_from(_begun(written, "earliest"))[0] == list(range(10))
    assert written.read_from(_begun(written, "latest"))[0] == []


def test_starts_that_are_impossible_are_refused_by_name(written: Written) -> None:
    """Each is refused with its reason, before anything starts."""
    written.several()
    place = written.places[4]
    file, offset = place.position.file, place.position.offset
    foreign = "0-99999-7" if written.mariadb else "b4ecf2b5-e602-11f1-a4fc-02fc00000001:1-3"
    mysql, mariadb = "b4ecf2b5-e602-11f1-a4fc-02fc00000001:1", "0-1-1"
    cases = {
        f"position:{file}:{offset + 1}": "not a place between two transactions",
        f"position:{file}:999999": "the file ends before it",
        "position:nothing.000001:4": "there is no such file",
        "timestamp:2124-01-01T00:00:00Z": "has not come yet",
        "timestamp:2024-01-01T00:00:00Z": "purged",
        f"gtid:{foreign}": "has not executed all of these",
        f"gtid:{mysql if written.mariadb else mariadb}": "these are not GTIDs of this server",
    }
    for startup, says in cases.items():
        with pytest.raises(SpecError, match=says) as raised:
            _begun(written, startup)
        assert raised.value.hint
    written.server.purge_binlogs(written.end().file)
    with pytest.raises(SpecError, match="purged"):
        _begun(written, f"gtid:{place.gtids}")


def test_the_runway_is_measured(flavor: str, private_server: ServerFactory, tmp_path: Path) -> None:
    """From the closing time of the position's file and the server's retention; None if the server never purges."""
    written = Written(private_server(flavor, binlog_expire_logs_seconds=1000))
    written.write()
    old = written.end()
    written.server.execute("FLUSH BINARY LOGS")
    time.sleep(3.1)
    end = written.end()
    journal = Journal(tmp_path / "run.jsonl", "run")
    for position, least, most in ((old, 900, 997), (end, 1000, 1000), (Position("x-bin.000000", 4), 0, 0)):
        away, helpers = OutageTracker(journal, print), Helpers(journal)
        monitor = LagMonitor(
            written.endpoint, FIRST_ID, journal, partial(CommittedPosition, position, 0), away, helpers
        )
        with closing(monitor), closing(written.connection()) as connection:
            assert least <= (monitor.measure(connection).runway_s or 0) <= most
    written.server.execute("SET GLOBAL binlog_expire_logs_seconds = 0")
    away, helpers = OutageTracker(journal, print), Helpers(journal)
    monitor = LagMonitor(written.endpoint, FIRST_ID, journal, lambda: CommittedPosition(old, 0), away, helpers)
    with closing(monitor), closing(written.connection()) as connection:
        assert monitor.measure(connection).runway_s is None
    journal.close()

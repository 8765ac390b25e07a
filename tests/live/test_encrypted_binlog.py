"""Binlogs that the server encrypts.

MySQL's files are then 512 bytes larger than their last position, MariaDB's are not.
"""

from collections.abc import Callable
from contextlib import closing

import pytest

from engine.base.errors import SourceLostError
from engine.decode.gtid import parse_gtids
from engine.source.heads import reaches
from engine.source.positions import FIRST_OFFSET, Position, binlog_files
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.known_positions import FIRST_ID, Written
from tests.servers import Server
from tests.servers.encryption import OPTION

_WIDE = 2 << 20


def _burst(server: Server, rows: int, size: int) -> None:
    """Write rows of that size into a file of their own, and one row into the next file."""
    server.execute("FLUSH BINARY LOGS")
    for _ in range(rows):
        server.execute(f"INSERT INTO d.t (v) VALUES (REPEAT('x', {size}))")
    server.execute("FLUSH BINARY LOGS")
    server.execute("INSERT INTO d.t (v) VALUES ('last')")


def test_bursts_rotations_and_restarts(
    flavor: str, encrypted_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """Backlogs that are split at files, bursts while running, and restarts without encryption and with it again."""
    server = encrypted_server(flavor)
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, v LONGTEXT)")
    pipeline = new_pipeline(server, "d", poll=0.2, merge=1.0)
    pipeline.run("caught-up")
    _burst(server, 33, _WIDE)
    pipeline.run("caught-up")
    parts = [e["from_position"] for e in pipeline.events("epoch.committed")]
    runner = pipeline.start_streaming()
    for _ in range(3):
        _burst(server, 5, 1000)
    pipeline.finish(runner)
    for encrypts in (0, 1):
        server.restart(**{OPTION[flavor]: encrypts})
        _burst(server, 5, 1000)
        pipeline.run("caught-up")
    assert len(parts) > 1
    assert_equal(source_table(server, "d", "t"), pipeline.mirror("t"))
    assert all(lag["lag_bytes"] >= 0 for lag in pipeline.events("source.lag"))


def test_every_position_is_one_of_an_event(flavor: str, encrypted_server: Callable[..., Server]) -> None:
    """Places are found by GTID and taken as starts; an offset that only the file's size allows is none."""
    server = encrypted_server(flavor, **({"log_slave_updates": 1} if flavor == "mariadb" else {}))
    written = Written(server)
    written.several()
    binlog = written.binlog()
    for place in written.places:
        assert binlog.position_after(parse_gtids(place.gtids, mariadb=written.mariadb)).order >= place.position.order
        written.check(place.position)
        assert binlog.is_between(place.position)
        assert written.read_from(place.position)[0] == list(range(place.rows, 9))
    older = binlog.files[0]
    (last,) = [row[4] for row in server.execute(f"SHOW BINLOG EVENTS IN '{older}'")][-1:]
    with closing(written.connection()) as connection:
        assert binlog_files(connection)[older] == last
    assert reaches(written.endpoint, Position(older, last), FIRST_ID)
    assert not reaches(written.endpoint, Position(older, last + 1), FIRST_ID)
    with pytest.raises(SourceLostError, match="ends before it"):
        written.check(Position(older, last + 1))
    keys, _ = written.read_from(Position(binlog.files[1], FIRST_OFFSET))
    assert keys == list(range(3, 9))

"""A damaged binlog: damage in transit is read again and corrected; damage in the file ends the run."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.base.errors import BinlogDamagedError
from engine.capture.binlog.binlog_range import BinlogRange
from engine.capture.binlog.binlog_reader import read_range
from engine.source.heads import read_head
from engine.source.positions import Position
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.damaging_proxy import DamagingProxy
from tests.live.support.source import COMPRESSED, Source, prepared
from tests.servers import Server

MARKER = b"the marked row"
ServerFactory = Callable[..., Server]


@pytest.fixture
def source(flavor: str, private_server: ServerFactory) -> Source:
    """A private server."""
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    return prepared(server, "d")


def written(source: Source) -> tuple[Position, Position]:
    """Many small transactions, then the marked row, in a table whose table map is larger than a block."""
    begin = source.at()
    for n in range(20):
        source.run(f"INSERT INTO i VALUES ({n}, 'small')")
    many = ", ".join(f"({n}, REPEAT('x', 3000))" for n in range(100, 3000))
    source.run(
        "BEGIN", f"INSERT INTO i VALUES {many}, (5000, '{MARKER.decode()}')", "DELETE FROM i WHERE id < 10", "COMMIT"
    )
    source.run("INSERT INTO i VALUES (9000, 'behind')")
    return begin, source.at()


def keys(source: Source, begin: Position, end: Position, port: int) -> tuple[BinlogRange, list[int]]:
    """The keys of all images between two positions, read through another port."""
    mariadb = source.server.flavor == "mariadb"
    binlog_range = BinlogRange({("d", "i"): source.table("i")}, begin, end, mariadb=mariadb)
    found = read_range(replace(source.endpoint, port=port), binlog_range, 6000)
    return binlog_range, [key for _, _, changes in found for key in changes.rows["id"].to_pylist()]


def test_damage_on_the_way_is_read_again(source: Source) -> None:
    """Damaged once in the middle of a transaction and requested again: no change is missing or doubled."""
    begin, end = written(source)
    _, expected = keys(source, begin, end, source.server.port)
    with DamagingProxy(source.server, MARKER, times=1) as network:
        binlog_range, found = keys(source, begin, end, network.port)
        assert network.damaged == 1
    assert found == expected
    assert binlog_range.statistics.damaged_events == 1


def test_damage_that_stays_is_named(source: Source) -> None:
    """Damaged twice at the same place: the error names file and offset of the event."""
    begin, end = written(source)
    with DamagingProxy(source.server, MARKER, times=9) as network:
        with pytest.raises(BinlogDamagedError, match=rf"{begin.file}:\d+ is damaged: its checksum"):
            keys(source, begin, end, network.port)
        assert network.damaged == 2


def test_a_damaged_head_is_read_again(source: Source) -> None:
    """The events at the start of a file, which are read to find positions."""
    place = source.at()
    version = source.server.execute("SELECT VERSION()")[0][0].encode()
    expected = read_head(source.endpoint, place.file, 6000)
    with DamagingProxy(source.server, version.ljust(50, b"\0"), times=1) as network:
        assert read_head(replace(source.endpoint, port=network.port), place.file, 6000) == expected
        assert network.damaged == 1


def test_compressed_content_is_read_again(flavor: str, private_server: ServerFactory) -> None:
    """Without checksums, damage shows when compressed content cannot be decompressed; it is then read again."""
    server = private_server(flavor, binlog_checksum="NONE", **COMPRESSED[flavor])
    server.execute("CREATE DATABASE d")
    source = prepared(server, "d")
    begin = source.at()
    source.run(f"INSERT INTO i VALUES (1, REPEAT('{MARKER.decode()}', 200))")
    end = source.at()
    frame = b"\x28\xb5\x2f\xfd" if flavor == "mysql" else b"\x78\x9c"
    with DamagingProxy(server, frame, times=1) as network:
        binlog_range, found = keys(source, begin, end, network.port)
        assert (found, network.damaged, binlog_range.statistics.damaged_events) == ([1], 1, 1)
    with (
        DamagingProxy(server, frame, times=9) as network,
        pytest.raises(BinlogDamagedError, match="cannot be unpacked"),
    ):
        keys(source, begin, end, network.port)


def test_files_with_and_without_checksums_follow_one_another(source: Source) -> None:
    """The server's setting may change between files and differ from that of the file being read."""
    begin = source.at()
    for n, setting in enumerate(["NONE", "CRC32", "NONE", "CRC32"]):
        source.server.execute(f"SET GLOBAL binlog_checksum = '{setting}'")
        source.run(f"INSERT INTO i VALUES ({n}, 'x')", "FLUSH BINARY LOGS", f"INSERT INTO i VALUES ({n + 10}, 'y')")
        assert keys(source, begin, source.at(), source.server.port)[1] == [k for m in range(n + 1) for k in (m, m + 10)]


def test_a_damaged_file_ends_the_run(source: Source, new_pipeline: PipelineFactory) -> None:
    """One flipped byte on the source's disk: exit code 4 with file and offset.

    What was published before stays correct.
    """
    server = source.server
    source.run("INSERT INTO i VALUES (1, 'before')")
    pipeline = new_pipeline(server, "d", tables=["d.i"])
    pipeline.run("caught-up")
    source.run(f"INSERT INTO i VALUES (2, '{MARKER.decode()}')")
    file = server.data / source.at().file
    server.execute("FLUSH BINARY LOGS")
    data = file.read_bytes()
    at = data.rindex(MARKER)  # MariaDB writes the statement itself in front of it, and does not send it
    file.write_bytes(data[:at] + b"T" + data[at + 1 :])
    result = pipeline.command("run", "--until", "caught-up")
    assert result.returncode == 4, result.stdout + result.stderr
    message = " ".join(result.stderr.split())
    assert f"event at {file.name}:" in message
    assert "read again from the server and came damaged again" in message
    file.write_bytes(data)
    pipeline.run("caught-up")
    assert_equal(source_table(server, "d", "i"), pipeline.mirror("i"), ["id"])

"""Values of every type arrive exactly, by snapshot and by binlog, with and without TLS, on both servers."""

from collections.abc import Callable
from contextlib import closing
from functools import partial

import pytest

from engine.capture.binlog.binlog_range import BinlogRange
from engine.capture.binlog.binlog_reader import read_range
from engine.source.catalog import read_table
from engine.source.connect import Endpoint, describe, open_connection
from engine.source.positions import current
from tests.live.conftest import PipelineFactory
from tests.live.support.both_decoders import assert_both_decoders, selected
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.every_type import create, insert, kinds
from tests.servers import PASSWORD, USER, Server

_COLUMNS = 40
"""Of the types in one table: InnoDB's pages hold no more."""


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL", "NO_LOG"])
def test_both_decoders_agree_with_the_server(
    flavor: str, server_with: Callable[..., Server], new_database: Callable[[Server], str], metadata: str
) -> None:
    """The row decoder, the image decoder and an independent client return the same values for every type."""
    if metadata == "NO_LOG" and flavor == "mysql":
        metadata = "MINIMAL"  # MySQL has no less
    server = server_with(flavor, row_metadata=metadata, time_zone="+05:30")
    database, every = new_database(server), kinds(server)
    for n in range(0, len(every), _COLUMNS):
        chosen = every[n : n + _COLUMNS]
        rows = create(server, database, f"t{n}", chosen)
        assert_both_decoders(server, database, f"t{n}", partial(insert, server, database, f"t{n}", chosen, 0, rows))


@pytest.mark.parametrize("tls", ["off", "preferred", "required", "verify"])
def test_tls_and_large_packets(
    flavor: str, server_with: Callable[..., Server], new_database: Callable[[Server], str], tls: str
) -> None:
    """Values of 16 MiB and more arrive complete by snapshot and by binlog, with every setting of TLS."""
    server = server_with(flavor, tls=True)
    database = new_database(server)
    endpoint = Endpoint(server.host, server.port, USER, PASSWORD, tls, str(server.ca_file))
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v LONGTEXT)")
    with closing(open_connection(endpoint)) as connection:
        used = connection._secure
        assert bool(used) == (tls != "off")
        described = describe(connection)
        begin = current(connection, described)
        sizes = {1: 10, 2: 0xFFFFFF - 20, 3: 0xFFFFFF, 4: 2 * 0xFFFFFF + 5, 5: 7}
        for key, size in sizes.items():
            server.execute(f"INSERT INTO `{database}`.t VALUES ({key}, REPEAT('z', {size}))")
        end = current(connection, described)
        table = read_table(connection, database, "t")
    read = selected(endpoint, table)
    assert {row["id"]: len(row["v"]) for row in read.to_pylist()} == sizes
    binlog_range = BinlogRange({(database, "t"): table}, begin, end, mariadb=flavor == "mariadb")
    images = [row for _, _, c in read_range(endpoint, binlog_range, 5000) for row in c.rows.to_pylist()]
    assert {row["id"]: len(row["v"]) for row in images} == sizes


def test_the_mirror_of_every_type_is_equal(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Rows of every type, copied and then changed, equal what an independent client reads."""
    every = kinds(server)
    groups = {f"t{n}": every[n : n + _COLUMNS] for n in range(0, len(every), _COLUMNS)}
    for name, chosen in groups.items():
        rows = create(server, database, name, chosen)
        insert(server, database, name, chosen, 0, rows)
    pipeline = new_pipeline(server, database, chunk_rows=4)
    pipeline.run("snapshot")
    for name, chosen in groups.items():
        assert_equal(source_table(server, database, name), pipeline.mirror(name))
        insert(server, database, name, chosen, 100, 5)
        server.execute(f"UPDATE `{database}`.{name} SET id = id + 1000 WHERE id IN (1, 2, 100)")
        server.execute(f"UPDATE `{database}`.{name} SET c0 = NULL WHERE id = 3")
        server.execute(f"DELETE FROM `{database}`.{name} WHERE id = 0")
    pipeline.run("caught-up")
    for name in groups:
        assert_equal(source_table(server, database, name), pipeline.mirror(name))

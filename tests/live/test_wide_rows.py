"""Rows of a megabyte, and a transaction of many rows, are copied, followed and verified in bounded memory."""

import os
from collections.abc import Callable

import pytest

from tests.live.conftest import PipelineFactory
from tests.live.support.memory import peak_mib
from tests.servers import PASSWORD, Server
from tests.support.depth import SOAK, depth, on

ROWS = depth(160, 20_000)
MOST_MIB = 600
ENVIRONMENT = {**os.environ, "TIDEMARK_TEST_PASSWORD": PASSWORD}
WIDE = "SELECT {0}, REPEAT(SHA2(CONCAT({0}, '{1}'), 512), 8192)"


def write(server: Server, database: str, of: str) -> None:
    """Write every row: in transactions of eight, of a megabyte each."""
    for first in range(0, ROWS, 8):
        rows = " UNION ALL ".join(WIDE.format(n, of) for n in range(first, min(first + 8, ROWS)))
        server.execute(f"REPLACE INTO `{database}`.t {rows}")


@pytest.mark.soak
@on("mysql")
def test_rows_of_a_megabyte_take_bounded_memory(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """In the snapshot, the stream, the merges, a verification and an audit, whatever their number.

    The verification finds all rows equal.
    """
    server, database = private_server(flavor, on_disk=SOAK), "d"
    server.execute("CREATE DATABASE d")
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v LONGTEXT) ROW_FORMAT = COMPRESSED")
    write(server, database, "first")
    pipeline = new_pipeline(server, database)
    spec, run = str(pipeline.spec), ("--until", "caught-up")
    peaks = {"snapshot": peak_mib("run", spec, *run, environment=ENVIRONMENT)}
    server.purge_binlogs()
    write(server, database, "second")
    peaks["stream"] = peak_mib("run", spec, *run, environment=ENVIRONMENT)
    peaks["verify"] = peak_mib("verify", spec, environment=ENVIRONMENT)
    peaks["audit"] = peak_mib("audit", spec, environment=ENVIRONMENT)
    print(peaks)
    assert max(peaks.values()) <= MOST_MIB, peaks


@pytest.mark.skipif(not SOAK, reason="takes an hour")
def test_a_transaction_of_twenty_million_rows_takes_bounded_memory(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """One transaction is one epoch, and one merge of the mirror. Its keys are not in memory at the same time."""
    server.execute(f"CREATE TABLE `{database}`.t (id BIGINT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO `{database}`.t VALUES (1, 1)")
    pipeline = new_pipeline(server, database)
    peak_mib("run", str(pipeline.spec), "--until", "caught-up", environment=ENVIRONMENT)
    digits = "(SELECT 0 AS n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 "
    digits += "UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)"
    tables = ", ".join(f"{digits} AS d{n}" for n in range(7))
    number = " + ".join(f"d{n}.n * {10**n}" for n in range(7))
    twice = f"SELECT 10 + {number}, 1 FROM {tables} UNION ALL SELECT 10000010 + {number}, 1 FROM {tables}"
    server.execute(f"INSERT INTO `{database}`.t {twice}")
    inserted = peak_mib("run", str(pipeline.spec), "--until", "caught-up", environment=ENVIRONMENT)
    server.execute(f"UPDATE `{database}`.t SET v = v + 1")
    updated = peak_mib("run", str(pipeline.spec), "--until", "caught-up", environment=ENVIRONMENT)
    assert max(inserted, updated) <= MOST_MIB, (inserted, updated)
    verified = peak_mib("verify", str(pipeline.spec), environment=ENVIRONMENT)
    print(inserted, updated, verified)
    assert verified <= MOST_MIB

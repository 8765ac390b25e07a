"""Every version of a fully copied mirror equals the source between two transactions."""

import random
import time
from contextlib import closing
from pathlib import Path

import pyarrow.compute as pc
from deltalake import DeltaTable

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.servers import Server
from tests.support.delta import rows_at
from tests.support.depth import on
from tests.support.patience import PATIENCE_S

ROWS = 400


def _swap(server: Server, database: str, mirror: Path) -> None:
    """Transactions that move rows to other keys and amounts between rows: the number of rows and the sum never change.

    They continue until the mirror has six more versions.
    """
    chance, wanted, deadline = random.Random(5), DeltaTable(str(mirror)).version() + 6, time.monotonic() + PATIENCE_S
    last = mirror / "_delta_log" / f"{wanted:020d}.json"
    with closing(server.connect(database=database, autocommit=False)) as session, session.cursor() as cursor:
        while not last.exists():
            assert time.monotonic() < deadline
            one, other = chance.sample(range(ROWS), 2)
            cursor.execute("UPDATE t SET id = -1 - id WHERE id IN (%s, %s)", (one, -1 - one))
            cursor.execute("UPDATE t SET v = v - 7 WHERE id IN (%s, %s)", (one, -1 - one))
            cursor.execute("UPDATE t SET v = v + 7 WHERE id IN (%s, %s)", (other, -1 - other))
            session.commit()


@on("mariadb")
def test_no_version_shows_half_of_a_transaction(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Every version from the end of the copy on, whatever the merges, and across a kill."""
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v INT)")
    values = ", ".join(f"({n}, 100)" for n in range(ROWS))
    server.execute(f"INSERT INTO `{database}`.t VALUES {values}")
    pipeline = new_pipeline(server, database, chunk_rows=100, poll=0.1, merge=0.1)
    for _ in range(2):
        runner = pipeline.start_streaming(killed=True)
        _swap(server, database, pipeline.mirror("t"))
        runner.kill()
        runner.wait()
    pipeline.run("caught-up")
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))
    folder, complete, seen = pipeline.mirror("t"), False, 0
    for version in range(DeltaTable(str(folder)).version() + 1):
        rows = rows_at(folder, version).select(["id", "v"])
        complete = complete or rows.num_rows >= ROWS
        if complete:
            seen += 1
            assert (rows.num_rows, pc.sum(rows["v"]).as_py()) == (ROWS, ROWS * 100), version
    assert seen > 10

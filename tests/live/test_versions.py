"""Every version of a fully copied mirror equals the source between two transactions."""

import random
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from engine.store.folder import Folder
from engine.store.local_folder import LocalFolder
from tests.live.conftest import PipelineFactory
from tests.live.support.bucket_lake import bad_weather, in_bucket
from tests.live.support.compare import assert_equal, source_table
from tests.servers import Server
from tests.servers.bucket import CREDENTIALS
from tests.support.delta import rows_at
from tests.support.depth import on
from tests.support.patience import PATIENCE_S

ROWS = 400


def _swap(server: Server, database: str, mirror: Folder, log: Path) -> None:
    """Transactions that move rows to other keys and amounts between rows: the number of rows and the sum never change.

    They continue until the mirror has six more versions. log: the folder with their files.
    """
    chance, wanted, deadline = random.Random(5), _newest(mirror) + 6, time.monotonic() + PATIENCE_S
    last = log / f"{wanted:020d}.json"
    with closing(server.connect(database=database, autocommit=False)) as session, session.cursor() as cursor:
        while not last.exists():
            assert time.monotonic() < deadline
            one, other = chance.sample(range(ROWS), 2)
            cursor.execute("UPDATE t SET id = -1 - id WHERE id IN (%s, %s)", (one, -1 - one))
            cursor.execute("UPDATE t SET v = v - 7 WHERE id IN (%s, %s)", (one, -1 - one))
            cursor.execute("UPDATE t SET v = v + 7 WHERE id IN (%s, %s)", (other, -1 - other))
            session.commit()


def _newest(mirror: Folder) -> int:
    return DeltaTable(mirror.url, storage_options=dict(mirror.options) or None).version()


@pytest.mark.soak
@pytest.mark.parametrize("place", ["folder", "bucket"])
@on("mariadb")
def test_no_version_shows_half_of_a_transaction(
    server: Server,
    database: str,
    new_pipeline: PipelineFactory,
    place: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Every version from the end of the copy on, whatever the merges and the store's weather, and across a kill."""
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v INT)")
    values = ", ".join(f"({n}, 100)" for n in range(ROWS))
    server.execute(f"INSERT INTO `{database}`.t VALUES {values}")
    settings: dict[str, Any] = {"chunk_rows": 100, "poll": 0.1, "merge": 0.1}
    lake: Folder = LocalFolder(tmp_path / "lake")
    files = tmp_path / "lake"
    if place == "folder":
        pipeline = new_pipeline(server, database, **settings)
    else:
        bucket, faults = request.getfixturevalue("bucket"), request.getfixturevalue("faults")
        lake, files = bucket.root / database, bucket.folder / database
        pipeline = new_pipeline(server, database, spark='master = "local[2]"', environment=CREDENTIALS, **settings)
        in_bucket(pipeline, faults, database)
        faults.fault = bad_weather(3)
    mirror = lake / database / "t"
    for _ in range(2):
        runner = pipeline.start_streaming(killed=True)
        _swap(server, database, mirror, files / database / "t" / "_delta_log")
        runner.kill()
        runner.wait()
    pipeline.run("caught-up")
    assert_equal(source_table(server, database, "t"), rows_at(mirror))
    complete, seen = False, 0
    for version in range(_newest(mirror) + 1):
        rows = rows_at(mirror, version).select(["id", "v"])
        complete = complete or rows.num_rows >= ROWS
        if complete:
            seen += 1
            assert (rows.num_rows, pc.sum(rows["v"]).as_py()) == (ROWS, ROWS * 100), version
    assert seen > 10

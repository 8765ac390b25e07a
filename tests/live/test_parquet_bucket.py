"""A Parquet destination in a bucket: what unit tests prove of one in a folder holds there, through bad weather too."""

import itertools
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.base.errors import PipelineHeldError, SpecError
from engine.capture.binlog.row_changes import log_schema
from engine.capture.files import DataFile, FileWriter
from engine.decode.schema import TM_SEQ
from engine.destination.destination_protocol import CHANGES, EpochEnd
from engine.destination.parquet import manifests as module
from engine.destination.parquet.manifests import Manifests
from engine.destination.parquet.table import ParquetTable, SharedPlace, UnpublishedFiles
from engine.destination.staged_landing import StagedLanding
from engine.ledger.state import Owner
from engine.store.bucket_folder import BucketFolder
from engine.store.folder import Folder
from tests.servers.bucket import BucketServer
from tests.support.store_faults import StoreFaults, store_faults, through
from tests.unit.destination.lake import INT

EPOCHS, OWNER = 9, Owner("L")
SCHEMA = log_schema(pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("v", pa.int32())]))


@pytest.fixture
def faults(bucket: BucketServer) -> Iterator[StoreFaults]:
    """A proxy before the store that loses each third answer to a write."""
    losses = itertools.cycle([True, False, False])
    with store_faults(bucket.port) as proxy:
        proxy.fault = lambda method, _path: "lost" if method == "PUT" and next(losses) else ""
        yield proxy


def place_in(root: Folder) -> SharedPlace:
    """The destination, as a runner of the first term opens it."""
    manifests = Manifests(root, OWNER, lambda: 1)
    return SharedPlace(root, OWNER, StagedLanding(root), manifests, UnpublishedFiles(), lambda: 1)


def publish(place: SharedPlace, table: ParquetTable, epoch: int) -> list[DataFile]:
    """Stage two changes of two hours, write and publish them. Returns the staged files."""
    rows = [
        {
            "id": epoch,
            "v": hour,
            "_tm_kind": "+I",
            TM_SEQ: 2 * epoch + hour,
            "_tm_ts": datetime(2026, 1, 1, hour, tzinfo=UTC),
        }
        for hour in range(2)
    ]
    with FileWriter(place.landing.changes(INT), "changes", SCHEMA, ("id", TM_SEQ)) as writer:
        writer.write(pa.Table.from_pylist(rows, schema=SCHEMA))
        files = writer.close()
    assert table.append(CHANGES, epoch, files) is not None
    place.manifests.publish(EpochEnd(epoch, "b:1", ""), place.unpublished.tables, place.unpublished.files)
    place.unpublished.tables.clear()
    place.unpublished.files.clear()
    return files


def read(root: Folder) -> list[int]:
    """The `_tm_seq` of the rows that manifests name, in order; a file that is named twice counts once."""
    found = [json.loads((root / "_manifests").read(one.name)) for one in (root / "_manifests").entries()]
    paths = {file["path"] for manifest in found for file in manifest["files"]}
    return sorted(seq for path in paths for seq in pq.ParquetFile(root.open(path)).read([TM_SEQ])[TM_SEQ].to_pylist())


def test_a_change_log_lives_in_a_bucket(
    bucket: BucketServer, faults: StoreFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is created, published, merged, swept, taken over and dropped, though answers are lost."""
    monkeypatch.setattr(module, "MANIFESTS_PER_MERGE", 3)
    folder = bucket.root / uuid.uuid4().hex
    beyond = through(faults, folder)
    place = place_in(beyond)
    table = ParquetTable(place, INT)
    table.check(None, INT)
    states = [table.is_there]
    table.open(must_exist=False)
    assert [*states, table.is_there] == [False, True]
    table.check(None, INT)
    for epoch in range(EPOCHS):
        StagedLanding(beyond).collect(INT, publish(place, table, epoch))
    everything = list(range(2 * EPOCHS))
    assert read(folder) == everything
    assert len(list((folder / "_manifests").entries())) < EPOCHS
    with pytest.raises(SpecError):
        table.check(None, INT)
    (folder / "d/t/date=2026-01-01/hour=01").write(f"{EPOCHS:08d}-changes-left.parquet", b"by a killed run")
    last_merged, paths = place.manifests.recent()
    assert table.delete_orphans(last_merged, paths) == 1
    _take_over(place, monkeypatch)
    assert read(folder) == everything
    assert faults.met["lost"]
    table.drop()
    assert not read(folder)
    assert not list((folder / "d").below())
    table.check(None, INT)


def _take_over(place: SharedPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later runner takes the names that an earlier one would create, which is stopped after its check."""
    held = [False]

    def guard() -> int:
        if held[0]:
            raise PipelineHeldError("taken over")
        return 1

    earlier = replace(place, manifests=Manifests(place.root, OWNER, guard))
    assert ParquetTable(earlier, INT).last_epoch(CHANGES) == EPOCHS - 1
    place.manifests.take_names([EPOCHS])
    create = BucketFolder.create

    def late(where: BucketFolder, name: str, content: bytes) -> str:
        held[0] = True
        return create(where, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(BucketFolder, "create", late)
        with pytest.raises(PipelineHeldError):
            publish(earlier, ParquetTable(earlier, INT), EPOCHS)

"""A folder of a bucket, on a server that speaks S3, and what a network does to it."""

import itertools
import json
import random
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from engine.base.errors import PipelineHeldError
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.destination.delta.log.table_opening import open_table
from engine.ledger import store as ledger_store
from engine.ledger.records import EpochRecord
from engine.ledger.state import following
from engine.ledger.store import Ledger
from engine.source.positions import Position
from engine.store.bucket_folder import BucketFolder
from engine.store.bucket_settings import opened
from tests.servers.bucket import CREDENTIALS, BucketServer
from tests.support.depth import depth
from tests.support.folder_contract import FolderContract
from tests.support.store_faults import StoreFaults, lost_once, through

COMMITS = depth(60, 5_000)
PUTS = depth(60, 2_000)
EPOCHS = depth(30, 500)


@pytest.fixture
def folder(bucket: BucketServer) -> BucketFolder:
    """A folder without files."""
    return bucket.root / uuid.uuid4().hex


class TestBucketFolder(FolderContract):
    """The contract."""

    @pytest.fixture(autouse=True)
    def able(self, bucket: BucketServer, request: pytest.FixtureRequest) -> None:
        """Skip what the server cannot do."""
        if "replaced" in request.node.name and not bucket.replaces:
            pytest.skip("the server replaces whatever the condition says: Go is missing, which builds the right one")


def test_of_many_that_replace_a_file_one_wins(bucket: BucketServer, folder: BucketFolder) -> None:
    """By the tag that all of them have seen."""
    if not bucket.replaces:
        pytest.skip("the server replaces whatever the condition says")
    folder.write("a", b"0")
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            seen = folder.find("a")
            assert seen is not None
            barrier = threading.Barrier(8)
            contents = [uuid.uuid4().bytes for _ in range(8)]

            def swap(content: bytes, tag: str = seen.tag, barrier: threading.Barrier = barrier) -> bool:
                barrier.wait()
                return bool(folder.replace("a", content, tag))

            won = list(pool.map(swap, contents))
            assert sum(won) == 1
            assert folder.read("a") == contents[won.index(True)]


@pytest.mark.parametrize("how", ["create", "replace"])
def test_a_lost_answer_does_not_make_ones_own_file_anothers(
    bucket: BucketServer, folder: BucketFolder, faults: StoreFaults, how: str
) -> None:
    """The client repeats the request, which the store then refuses."""
    if how == "replace" and not bucket.replaces:
        pytest.skip("the server replaces whatever the condition says")
    folder.write("replace", b"0")
    seen = folder.find("replace")
    assert seen is not None
    losses = iter([True])
    faults.fault = lambda method, _path: "lost" if method == "PUT" and next(losses, False) else ""
    beyond = through(faults, folder)
    content = uuid.uuid4().bytes
    assert beyond.create(how, content) if how == "create" else beyond.replace(how, content, seen.tag)
    assert faults.met["lost"] == 1
    assert folder.read(how) == content
    assert not beyond.create(how, b"another")


def test_what_may_still_happen_is_not_called_refused(folder: BucketFolder, faults: StoreFaults) -> None:
    """A request that was lost on its way may arrive later: the file is as it was, but nobody else has it."""
    folder.write("a", b"0")
    seen = folder.find("a")
    assert seen is not None
    faults.fault = lambda method, _path: "dropped" if method == "PUT" else ""
    beyond = through(faults, folder)
    with pytest.raises(StoreAwayError):
        beyond.replace("a", b"1", seen.tag)
    with pytest.raises(StoreAwayError):
        beyond.create("b", b"1")
    assert folder.read("a") == b"0"
    assert folder.find("b") is None


def test_bad_weather_changes_no_outcome(folder: BucketFolder, faults: StoreFaults) -> None:
    """One request in ten is refused, one in ten loses its answer, and one in twenty is cut: each put is done once."""
    dice = random.Random(5)

    def weather(method: str, _path: str) -> str:
        found = dice.random()
        return "503" if found < 0.1 else "lost" if found < 0.2 else "cut" if found < 0.25 and method == "GET" else ""

    faults.fault = weather  # type: ignore[assignment]
    beyond = through(faults, folder)
    for number in range(PUTS):
        content = uuid.uuid4().bytes
        assert beyond.create(f"n{number}", content)
        assert not beyond.create(f"n{number}", b"another")
        assert beyond.read(f"n{number}") == content
        large = beyond.upload(f"u{number}")
        large.write(content)
        large.close()
    assert len(list(beyond.entries("n"))) == PUTS
    assert faults.met["503"]
    assert faults.met["lost"]


def test_an_upload_that_fails_is_no_file_and_leaves_no_parts(bucket: BucketServer, folder: BucketFolder) -> None:
    """Whether it is given up, or the store refuses a part."""
    upload = folder.upload("a")
    upload.write(bytes(40 << 20))
    upload.discard()
    parts = [path for path in (bucket.folder / ".sgwtmp").rglob("*") if path.is_file()]
    assert not parts
    assert not list(folder.below())


def test_an_upload_in_parts_survives_lost_answers(folder: BucketFolder, faults: StoreFaults) -> None:
    """Each part's, and that of its end: the repeated end is refused, but the file is there."""
    faults.fault = lost_once("uploadId=")
    upload = through(faults, folder).upload("a")
    for _ in range(7):
        upload.write(bytes(3 << 20))
    upload.close()
    entry = folder.find("a")
    assert entry is not None
    assert entry.size == 21 << 20
    assert faults.met["lost"] == 4


def test_wrong_credentials_are_told_from_a_store_that_is_away(
    bucket: BucketServer, folder: BucketFolder, faults: StoreFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both name what was asked for; neither has a secret in its text."""
    faults.fault = lambda _method, _path: "503"
    with pytest.raises(StoreAwayError, match=folder.path) as away:
        through(faults, folder).read("a")
    faults.fault = lambda _method, _path: ""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another secret")
    other = replace(folder, settings=replace(folder.settings, endpoint=f"http://localhost:{bucket.port}"))
    with pytest.raises(StoreAccessError, match=folder.path) as access:
        other.read("a")
    for error in (away, access):
        assert "another secret" not in str(error.value)
        assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in str(error.value)


def test_a_refusal_is_one_in_every_request(folder: BucketFolder, faults: StoreFaults) -> None:
    """Whatever it is asked for: a list and a deletion too, and by the other library."""
    folder.write("a", b"1")
    write_deltalake(folder.url, pa.table({"id": [1]}), storage_options=dict(folder.options))
    faults.fault = lambda _method, _path: "403"
    beyond = through(faults, folder)
    for use in (
        lambda: beyond.find("a"),
        lambda: list(beyond.below()),
        beyond.folders,
        lambda: beyond.delete(["a"]),
        lambda: beyond.create("b", b"1"),
        lambda: beyond.write("b", b"1"),
        lambda: beyond.open("a"),
        lambda: open_table(beyond),
    ):
        with pytest.raises(StoreAccessError, match=folder.path):
            use()
    faults.fault = lambda _method, path: "403" if "list-type" in path else ""
    with pytest.raises(StoreAccessError, match=folder.path):
        open_table(beyond)


def test_a_file_that_is_read_names_its_errors(folder: BucketFolder, faults: StoreFaults) -> None:
    """When it is opened, and in the middle."""
    folder.write("a", bytes(1 << 20))
    beyond = through(faults, folder)
    source = beyond.open("a")
    faults.fault = lambda _method, _path: "503"
    with pytest.raises(StoreAwayError, match=f"{folder.path}/a"):
        source.read(100)
    with pytest.raises(StoreAwayError, match=f"{folder.path}/a"):
        beyond.open("a")


def test_commits_that_race_with_another_librarys_lose_no_row(folder: BucketFolder, faults: StoreFaults) -> None:
    """Ours are made by `create`; half of all answers to them are lost."""
    rows = pa.table({"id": pa.array(range(10), pa.int64())})
    options = dict(folder.options) | CREDENTIALS
    write_deltalake(folder.url, rows, storage_options=options)
    losses = itertools.cycle([True, False])
    faults.fault = lambda method, path: "lost" if method == "PUT" and path.endswith(".json") and next(losses) else ""
    log = through(faults, folder) / "_delta_log"

    def ours(_number: int) -> int:
        name = f"ours-{uuid.uuid4().hex}.parquet"
        upload = folder.upload(name)
        with pq.ParquetWriter(upload.sink, rows.schema) as writer:
            writer.write_table(rows)
        upload.close()
        entry = folder.find(name)
        assert entry is not None
        add = {"path": name, "partitionValues": {}, "size": entry.size, "modificationTime": 1, "dataChange": True}
        lines = ({"commitInfo": {"operation": "WRITE", "id": name}}, {"add": add})
        content = "".join(json.dumps(line) + "\n" for line in lines).encode()
        version = int(DeltaTable(folder.url, storage_options=options).version())
        while not log.create(f"{(version := version + 1):020d}.json", content):
            pass
        return 1

    def theirs(_number: int) -> int:
        try:
            write_deltalake(folder.url, rows, mode="append", storage_options=options)
        except (CommitFailedError, DeltaError):
            return 0
        return 1

    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(ours if number % 2 else theirs, number) for number in range(COMMITS)]
        written = sum(one.result() for one in done)
    table = DeltaTable(folder.url, storage_options=options)
    assert table.version() == written
    assert table.to_pyarrow_table().num_rows == 10 * (1 + written)


def test_of_runners_that_race_for_an_epoch_one_commits_it(
    folder: BucketFolder, faults: StoreFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger in a bucket, pruned meanwhile, with a third of the answers lost: every epoch has one runner."""
    monkeypatch.setattr(ledger_store, "FULL_STATE_EVERY", 5)
    losses = itertools.cycle([True, False, False])
    faults.fault = lambda method, _path: "lost" if method == "PUT" and next(losses) else ""
    place = through(faults, folder)
    start = Position("b.000001", 4)
    first = EpochRecord(0, "first", "", start, start, 0, {}, ledger="L", identity="s")
    Ledger(place).commit(first)
    committed = [(0, "first")]

    def run(name: str) -> None:
        ledger = Ledger(place)
        for _ in range(EPOCHS):
            assert ledger.state is not None
            record = following(ledger.state, name, {})
            try:
                ledger.commit(record)
            except PipelineHeldError:
                ledger = Ledger(place)
            else:
                committed.append((record.epoch, name))
                ledger.prune(record.epoch)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, "abcd"))
    state = Ledger(folder).state
    assert state is not None
    assert sorted(number for number, _ in committed) == list(range(state.epoch + 1))
    assert len(list(folder.entries("epoch-"))) < 10
    assert faults.met["lost"]


def test_the_client_is_opened_once_in_a_process(folder: BucketFolder) -> None:
    """However many folders of a bucket there are."""
    assert opened(folder.settings) is opened((folder / "below").settings)

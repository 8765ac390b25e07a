"""The requests that are counted are those that the store gets."""

import re
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from engine.destination.delta.log import table_opening
from engine.spec.sink_settings import MirrorMode
from engine.store.bucket_folder import BucketFolder
from engine.store.bucket_upload import PART_BYTES
from engine.store.requests import COUNTER, NO_REQUESTS, RequestCounter, RequestCounts
from tests.live.conftest import PipelineFactory
from tests.live.support.seed import seed_table
from tests.servers import Server
from tests.servers.bucket import CREDENTIALS, BucketServer
from tests.support.store_faults import Fault, store_faults, through
from tests.unit.destination.lake import Lake

ROWS = 4_000
KINDS = (
    (r"PUT|POST .*\?(uploads|.*uploadId)", "puts"),
    (r"GET .*list-type=", "lists"),
    (r"GET|HEAD", "gets"),
    (r"DELETE|POST .*\?delete", "deletes"),
)


class Seen:
    """What passes the proxy."""

    def __init__(self) -> None:
        self.requests = Counter[str]()
        self.is_library = False
        self._lock = threading.Lock()  # parts of a file come at the same time

    def __call__(self, method: str, path: str) -> Fault:
        """Count a request."""
        if not self.is_library:
            request = f"{method} {path}"
            with self._lock:
                self.requests[next(kind for form, kind in KINDS if re.match(form, request))] += 1
        return ""


@pytest.fixture
def seen() -> Seen:
    """What the store gets."""
    return Seen()


@pytest.fixture
def root(bucket: BucketServer, seen: Seen) -> Iterator[BucketFolder]:
    """A folder of a bucket behind a proxy."""
    with store_faults(bucket.port) as proxy:
        proxy.fault = seen
        COUNTER.take()
        yield through(proxy, bucket.root / uuid.uuid4().hex)


def assert_same(requests: RequestCounts, seen: Seen) -> None:
    """By kind."""
    assert {kind: getattr(requests, kind) for _, kind in KINDS} == {kind: seen.requests[kind] for _, kind in KINDS}


def test_each_request_is_counted_once(root: BucketFolder, seen: Seen) -> None:
    """Of every method, with its bytes; a file in parts, a name that is taken, and one that is not there too."""
    root.write("a", b"1234")
    assert root.create("b", b"12345")
    assert not root.create("b", b"other")
    tag = root.create("c", b"1")
    assert root.replace("c", b"22", tag)
    assert not root.replace("c", b"333", tag)
    assert root.find("a") is not None
    assert root.find("x") is None
    assert root.read("a") == b"1234"
    assert root.read("a", 1, 2) == b"23"
    with root.open("a") as file:
        assert file.read() == b"1234"
    for size in (10, PART_BYTES + 5, 2 * PART_BYTES):
        upload = root.upload(f"u{size}")
        for _ in range(size // PART_BYTES):
            upload.write(bytes(PART_BYTES))
        upload.write(bytes(size % PART_BYTES))
        upload.close()
    (root / "copy").copy(["a", "b"], root)
    assert len(list(root.entries())) == 6
    assert root.folders() == ["copy"]
    assert root.is_there
    root.delete(["a", "b", "c"])
    by_folder = COUNTER.take()
    assert by_folder[f"{root.url}/copy"] == RequestCounts(puts=2)
    requests = sum(by_folder.values(), NO_REQUESTS)
    assert requests.sent_bytes == 4 + 5 + 5 + 1 + 2 + 3 + 10 + PART_BYTES + 5 + 2 * PART_BYTES
    assert requests.received_bytes == 4 + 2 + 4 + len(b"12345") + len(b"22")
    assert_same(requests, seen)


@pytest.mark.parametrize("mode", ["copy_on_write", "merge_on_read"])
def test_a_table_that_changes_has_its_requests(
    root: BucketFolder, seen: Seen, mode: MirrorMode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the library, which opens tables, are estimated: they are left out on both sides."""

    def opened(*arguments: Any, **options: Any) -> DeltaTable:
        seen.is_library = True
        try:
            return DeltaTable(*arguments, **options)
        finally:
            seen.is_library = False

    monkeypatch.setattr(table_opening, "DeltaTable", opened)
    lake = Lake(tmp_path, mode, root=root)
    lake.copy(dict.fromkeys(range(200), 1))
    lake.change([(1, 2)])
    seen.requests.clear()
    COUNTER.take()
    monkeypatch.setattr(table_opening, "COUNTER", RequestCounter())
    lake.change([(2, 3), (4, None)])
    lake.change([(5, 3)])
    requests = sum(COUNTER.take().values(), NO_REQUESTS)
    assert min(requests.puts, requests.gets, requests.sent_bytes, requests.received_bytes) > 0
    assert_same(requests, seen)


@pytest.mark.soak
def test_a_run_notes_its_requests(
    server: Server, database: str, new_pipeline: PipelineFactory, bucket: BucketServer, seen: Seen
) -> None:
    """Those of its readers too, by table; the library's are estimated."""
    seed_table(server, database, "orders", ROWS)
    pipeline = new_pipeline(server, database, chunk_rows=1000, spark='master = "local[2]"', environment=CREDENTIALS)
    with store_faults(bucket.port) as proxy:
        proxy.fault = seen
        place = f'path = "s3://lake/{database}"\nendpoint = "http://127.0.0.1:{proxy.port}"\nregion = "us-east-1"'
        pipeline.spec.write_text(pipeline.spec.read_text().replace('path = "lake"', place))
        done = pipeline.command("run", "--until", "caught-up")
        assert done.returncode == 0, done.stdout + done.stderr
    events = [one for event in pipeline.events("store.requests") for one in event["requests"]]
    sums = Counter({kind: sum(one[kind] for one in events) for _, kind in KINDS})
    assert sums.pop("gets") == pytest.approx(seen.requests.pop("gets"), rel=0.2)
    assert sums == seen.requests
    (table,) = (one for one in events if one["table"])
    assert table["table"] == f"{database}.orders"
    assert table["puts"] >= 4 + 2, "each chunk is a file, and there is a commit"
    assert table["sent_bytes"] > 0

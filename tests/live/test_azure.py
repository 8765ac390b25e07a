"""A folder of a container on Azure's emulator, what a network does to it, and tables that live there."""

import itertools
import json
import os
import random
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.destination.delta.log.table_opening import open_table
from engine.explore import read
from engine.spec.sink_settings import MirrorMode
from engine.store import folder_trial
from engine.store.bucket_folder import BucketFolder
from engine.store.requests import COUNTER
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import ROOT
from tests.live.support.seed import seed_table
from tests.servers import Server
from tests.servers.azure import CREDENTIALS, AzureServer
from tests.support.depth import depth, on
from tests.support.folder_contract import FolderContract
from tests.support.store_faults import StoreFaults, lost_once, store_faults, through
from tests.unit.destination.lake import Lake

RACES, WRITERS = depth(12, 1_000), 16


@pytest.fixture
def folder(azure: AzureServer) -> BucketFolder:
    """A folder without files."""
    return azure.root / uuid.uuid4().hex


@pytest.fixture
def azure_faults(azure: AzureServer) -> Iterator[StoreFaults]:
    """A proxy before the store."""
    with store_faults(azure.port) as proxy:
        yield proxy


class TestAzureFolder(FolderContract):
    """The contract."""


@pytest.mark.parametrize("how", ["create", "replace"])
def test_of_many_writers_one_wins(folder: BucketFolder, azure_faults: StoreFaults, how: str) -> None:
    """A name, or a new content, though a third of the answers to them is lost."""
    losses = itertools.cycle([True, False, False])
    azure_faults.fault = lambda method, _path: "lost" if method == "PUT" and next(losses) else ""
    place = through(azure_faults, folder)
    folder.write("replace", b"0")
    with ThreadPoolExecutor(WRITERS) as pool:
        for race in range(RACES):
            seen = folder.find("replace")
            assert seen is not None
            barrier = threading.Barrier(WRITERS)
            contents = [uuid.uuid4().bytes for _ in range(WRITERS)]

            def write(
                content: bytes, name: str = f"n{race}", tag: str = seen.tag, barrier: threading.Barrier = barrier
            ) -> bool:
                barrier.wait()
                return bool(place.create(name, content) if how == "create" else place.replace("replace", content, tag))

            won = list(pool.map(write, contents))
            assert sum(won) == 1
            assert folder.read(f"n{race}" if how == "create" else "replace") == contents[won.index(True)]
    assert azure_faults.met["lost"] > RACES


def test_an_upload_in_parts_survives_lost_answers(folder: BucketFolder, azure_faults: StoreFaults) -> None:
    """Each part's, and that of its end: the repeated end is refused, but the file is there."""
    azure_faults.fault = lost_once("comp=block")
    upload = through(azure_faults, folder).upload("a")
    for _ in range(7):
        upload.write(bytes(3 << 20))
    upload.close()
    entry = folder.find("a")
    assert entry is not None
    assert entry.size == 21 << 20
    assert azure_faults.met["lost"] == 4


def test_a_refusal_is_one_in_every_request(folder: BucketFolder, azure_faults: StoreFaults) -> None:
    """Whatever it is asked for: a list and a deletion too, and by the other library."""
    folder.write("a", b"1")
    write_deltalake(folder.url, pa.table({"id": [1]}), storage_options=dict(folder.options))
    azure_faults.fault = lambda _method, _path: "403"
    beyond = through(azure_faults, folder)
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
    azure_faults.fault = lambda _method, path: "403" if "comp=list" in path else ""
    with pytest.raises(StoreAccessError, match=folder.path):
        open_table(beyond)


def test_the_trial_of_a_place_finds_what_is_wrong(
    azure: AzureServer, folder: BucketFolder, azure_faults: StoreFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing; a container that is not there; a store that is away; a wrong key; a key that is none. It names none."""
    assert folder_trial.tried(folder, replaces=True) == folder_trial.FolderTrial()
    assert not folder.is_there
    gone = BucketFolder(replace(folder.settings, root="az://nowhere"))
    assert "is not there" in folder_trial.tried(gone).fault
    azure_faults.fault = lambda _method, _path: "503"
    with pytest.raises(StoreAwayError, match=folder.path):
        through(azure_faults, folder).read("a")
    for number, key in enumerate((CREDENTIALS["AZURE_STORAGE_ACCOUNT_KEY"][::-1].strip("=") + "AA==", "n t base64")):
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", key)
        endpoint = f"http://localhost:{azure.port}/tidemark{'/' * number}"
        other = replace(folder, settings=replace(folder.settings, endpoint=endpoint))
        with pytest.raises(StoreAccessError, match="az://lake") as access:
            other.read("a")
        assert key not in str(access.value)
        assert "credentials" in folder_trial.tried(other).fault


def test_the_other_library_reads_and_commits_there(folder: BucketFolder, azure_faults: StoreFaults) -> None:
    """Of commits that race, none is lost. A store that does not answer is away: it says nothing of the table."""
    rows = pa.table({"id": pa.array(range(10), pa.int64())})
    options = dict(folder.options)
    write_deltalake(folder.url, rows, storage_options=options)

    def append(_number: int) -> int:
        try:
            write_deltalake(folder.url, rows, mode="append", storage_options=options)
        except DeltaError:  # it does not try a commit again for ever
            return 0
        return 1

    with ThreadPoolExecutor(4) as pool:
        written = sum(pool.map(append, range(20)))
    assert written
    table = DeltaTable(folder.url, storage_options=options)
    assert (table.version(), table.to_pyarrow_table().num_rows) == (written, 10 * (1 + written))
    assert open_table(folder).version() == written
    azure_faults.fault = lambda _method, _path: "503"
    with pytest.raises(StoreAwayError, match="does not answer"):
        open_table(through(azure_faults, folder))


@on("mariadb")
def test_a_pipeline_has_lake_and_state_there(
    server: Server,
    database: str,
    new_pipeline: PipelineFactory,
    azure: AzureServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is checked, run, and watched by the URL of its state; the lake equals the source."""
    environment = {
        **CREDENTIALS,
        "AZURE_STORAGE_ENDPOINT": azure.endpoint,
        "TIDEMARK_HOME": str(tmp_path / "home"),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    seed_table(server, database, "orders", 1_000)
    pipeline = new_pipeline(
        server, database, chunk_rows=500, poll=0.2, merge=0.5, spark='master = "local[2]"', environment=environment
    )
    url = f"az://lake/{database}/state"
    text = pipeline.spec.read_text().replace('path = "lake"', f'path = "az://lake/{database}/lake"')
    pipeline.spec.write_text(f'state = "{url}"\n{text}')
    pipeline.home = pipeline.home / "runner"
    checked = pipeline.command("check", "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    runner = pipeline.start_streaming()
    server.execute(f"DELETE FROM {database}.orders WHERE id < 100")
    pipeline.finish(runner)
    expected = source_table(server, database, "orders")
    assert_equal(expected, read(pipeline.spec, f"{database}.orders"))
    watched = subprocess.run(
        [sys.executable, "-m", "engine", "status", url, "--json"],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert watched.returncode == 0, watched.stderr
    assert [table["state"] for table in json.loads(watched.stdout)["tables"]] == ["streaming"]


@pytest.mark.parametrize("mode", ["copy_on_write", "merge_on_read"])
def test_a_table_lives_in_a_container(tmp_path: Path, folder: BucketFolder, mode: MirrorMode) -> None:
    """It is copied, merged, maintained, forgotten by a process and remembered, and dropped; requests are counted."""
    COUNTER.take()
    lake, chance = Lake(tmp_path, mode, root=folder), random.Random(7)
    lake.copy(dict.fromkeys(range(200), 1))
    for _ in range(8):
        lake.change(lake.random_changes(chance, 20, list(range(300))), timedelta(hours=2))
    lake.check()
    assert lake.maintenance.compact(lake.now + timedelta(days=90)) is not None
    lake.pair.changes.lake.log.checkpoint()
    lake.reopen()
    lake.change([(1, 5), (2, None)])
    lake.check()
    assert lake.maintenance.vacuum(set(), timedelta()) is not None
    lake.check()
    assert not lake.pair.missing_files()
    assert not lake.pair.fault()
    lake.pair.drop()
    assert not folder.is_there
    counts = COUNTER.take()
    assert all(url.startswith("az://lake/") for url in counts)
    total = sum(counts.values(), start=next(iter(counts.values())))
    assert min(total.puts, total.gets, total.lists, total.deletes) > 0

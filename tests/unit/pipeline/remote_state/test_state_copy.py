"""Copies of a state are what the bucket has, and the bucket has what a runner and operators wrote."""

import gzip
import json
import os
import random
from pathlib import Path

import pytest

from engine.alerting.silences import add_silence, end_silence, silences
from engine.base import processes
from engine.base.errors import SpecError, TransientError
from engine.base.store_errors import StoreAwayError
from engine.journal.parts import path_of
from engine.pipeline.command_file import send_command
from engine.pipeline.command_queue import waiting_commands
from engine.pipeline.directory import Directory
from engine.pipeline.remote_state import operator_copy
from engine.pipeline.remote_state.journal_tail import JournalUpload
from engine.pipeline.remote_state.ledger_folder import LedgerFolder
from engine.pipeline.remote_state.names import LEASE
from engine.pipeline.remote_state.operator_copy import is_current, refresh
from engine.pipeline.remote_state.place import note_state, remote_state, runner_copy, state_url
from engine.pipeline.remote_state.runner_sync import RunnerSync
from engine.pipeline.remote_state.spec_url import local_spec
from engine.pipeline.remote_state.state_copy import StateCopy
from engine.store.folder import FileEntry
from engine.store.local_folder import LocalFolder
from tests.unit.pipeline.remote_state.hosts import calls, host, runner_sync_of, step


def test_files_come_change_and_go(tmp_path: Path, bucket: LocalFolder) -> None:
    """A copy that is current costs one list."""
    bucket.write("ledger/epoch-1.json", b"1")
    bucket.write("verify/t.json", b"old")
    copy = tmp_path / "copy"
    StateCopy(copy, bucket).download()
    assert (copy / "ledger/epoch-1.json").read_bytes() == b"1"
    (copy / "own").write_bytes(b"of this host")
    bucket.write("verify/t.json", b"new")
    bucket.delete(["ledger/epoch-1.json"])
    with calls("read") as read:
        StateCopy(copy, bucket).download()
        StateCopy(copy, bucket).download()
    assert read == ["read"]
    assert (copy / "verify/t.json").read_bytes() == b"new"
    assert not (copy / "ledger/epoch-1.json").exists()
    assert (copy / "own").exists()


def test_a_name_that_leaves_the_copy_is_not_taken(
    tmp_path: Path, bucket: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket may have any names."""
    (tmp_path / "evil").write_text("")
    bucket.write("verify/t.json", b"{}")
    entries = [*bucket.below(), FileEntry("../evil", 0, "1", 0.0), FileEntry("a//b", 0, "1", 0.0)]
    monkeypatch.setattr(LocalFolder, "below", lambda _: iter(entries))
    StateCopy(tmp_path / "copy", bucket).download()
    assert [one.name for one in (tmp_path / "copy").iterdir() if one.is_dir()] == ["verify"]


@pytest.mark.parametrize("seed", range(5))
def test_a_growing_journal_is_the_same_everywhere(tmp_path: Path, bucket: LocalFolder, seed: int) -> None:
    """While it grows, gets new parts, is compressed, and is continued by a runner with another copy."""
    dice, folder = random.Random(seed), tmp_path / "runner" / "journal"
    folder.mkdir(parents=True)
    first = folder / "r1.jsonl"
    part, line = first, 0
    upload = JournalUpload(folder, bucket, ())
    for _ in range(300):
        for _ in range(dice.randrange(4)):
            line += 1
            with part.open("ab") as file:
                file.write(b"line %d\n" % line)
        upload.upload()
        if dice.random() < 0.03:
            part = path_of(first, line)
        if dice.random() < 0.02 and part != first and first.exists():
            first.with_name("r1.jsonl.gz").write_bytes(gzip.compress(first.read_bytes()))
            first.unlink()
        if dice.random() < 0.05:
            upload = JournalUpload(folder, bucket, bucket.below())
        if dice.random() < 0.2:
            copy = tmp_path / f"watch{dice.randrange(2)}"
            upload.upload()
            StateCopy(copy, bucket).download()
            there = {one.name: one.read_bytes() for one in (copy / "journal").glob("*")}
            assert there == {one.name: one.read_bytes() for one in folder.glob("*")}
    assert sum(1 for one in bucket.below() if one.name.startswith("journal-tail/")) <= 64


def test_what_a_runner_writes_is_seen_elsewhere(tmp_path: Path, bucket: LocalFolder, sync: RunnerSync) -> None:
    """And what it deletes is gone there."""
    work, there = runner_copy(Directory(tmp_path / "a" / "shop")).root, host(tmp_path, "b", bucket)
    (work / "verify").mkdir()
    (work / "verify" / "t.json").write_text("{}")
    (work / "alerts.json").write_text("[]")
    record = {"run": "r1", "state": "running", "pid": os.getpid(), "process": processes.here()}
    (work / "runner.json").write_text(json.dumps(record))
    (work / "runner.lock").write_text("")
    step(sync)
    refresh(there)
    assert (there.root / "verify" / "t.json").exists()
    assert '"r1"' in there.runner.read_text()
    assert not (there.root / "runner.lock").exists()
    (work / "alerts.json").unlink()
    step(sync)
    refresh(there)
    assert not there.alerts.exists()


def test_the_ledger_and_the_journals_are_not_uploaded_as_other_files(
    tmp_path: Path, bucket: LocalFolder, sync: RunnerSync
) -> None:
    """They have ways of their own; a copy of the ledger that changes is no news."""
    bucket.write("ledger/epoch-1.json", b"1")
    sync._files.download()
    work = runner_copy(Directory(tmp_path / "a" / "shop")).root
    (work / "ledger" / "epoch-1.json").write_bytes(b"of the copy")
    (work / "ledger" / "epoch-2.json").write_bytes(b"of the copy")
    sync._upload()
    assert bucket.read("ledger/epoch-1.json") == b"1"
    assert bucket.find("ledger/epoch-2.json") is None


def test_an_idle_pipeline_costs_a_watcher_one_request(tmp_path: Path, bucket: LocalFolder, sync: RunnerSync) -> None:
    """And two when the runner has renewed its lease meanwhile."""
    there = host(tmp_path, "b", bucket)
    refresh(there)
    with calls("find", "read", "below") as asked:
        refresh(there)
    assert asked == ["find"]
    step(sync)
    with calls("find", "read", "below") as asked:
        refresh(there)
    assert asked == ["find", "read"]


def test_a_silence_is_in_force_on_all_hosts_until_it_ends(
    tmp_path: Path, bucket: LocalFolder, sync: RunnerSync
) -> None:
    """The runner's too."""
    work, there, third = (
        runner_copy(Directory(tmp_path / "a" / "shop")),
        host(tmp_path, "b", bucket),
        host(tmp_path, "c", bucket),
    )
    made = add_silence(there, "1h", "known")
    step(sync)
    refresh(third)
    assert [one.id for one in silences(work)] == [one.id for one in silences(third)] == [made.id]
    end_silence(third, made.id)
    step(sync)
    step(sync)
    refresh(there)
    assert silences(work) == silences(there) == []


def test_nothing_else_below_the_url_is_touched(tmp_path: Path, bucket: LocalFolder) -> None:
    """A lake, the state of another pipeline, a note of somebody: neither copied nor deleted."""
    others = ["lake/d/t/part-1.parquet", "crm/ledger/epoch-0.json", "crm/lease.json", "README.md", "verify/notes.txt"]
    for name in others:
        bucket.write(name, b"another's")
    sync = runner_sync_of(runner_copy(host(tmp_path, "a", bucket)), bucket)
    step(sync)
    refresh(host(tmp_path, "b", bucket))
    sync.close()
    assert all(bucket.read(name) == b"another's" for name in others)
    assert not [path for path in tmp_path.rglob("*.parquet") if "bucket" not in path.parts]


def test_a_copy_that_somebody_damaged_is_made_whole(tmp_path: Path, bucket: LocalFolder) -> None:
    """The bucket keeps what it has: files of the copy that are gone, empty, or too many."""
    for name in ("silences/s.json", "ledger/epoch-00000001.json", "journal/r1.jsonl", "verify/t.json"):
        bucket.write(name, b"{}")
    work = runner_copy(host(tmp_path, "a", bucket))
    runner_sync_of(work, bucket).close()
    (work.root / "silences" / "s.json").write_bytes(b"")
    (work.root / "ledger" / "epoch-00000001.json").write_bytes(b"")
    (work.root / "journal" / "r1.jsonl").unlink()
    (work.root / "verify" / "t.json").unlink()
    for name in ("controls.json", "ledger/epoch-00000000.json", "journal/r0.jsonl", "verify/old.json"):
        (work.root / name).write_bytes(b"of weeks ago")
    sync = runner_sync_of(work, bucket)
    step(sync)
    sync.close()
    assert sorted(one.name for one in bucket.below() if one.name != LEASE) == [
        "journal/r1.jsonl",
        "ledger/epoch-00000001.json",
        "silences/s.json",
        "verify/t.json",
    ]
    assert {bucket.read(one.name) for one in bucket.below() if one.name != LEASE} == {b"{}"}
    assert (work.root / "ledger" / "epoch-00000001.json").read_bytes() == b"{}"
    assert not (work.root / "controls.json").exists()


def test_readers_meet_no_epoch_without_those_before_it(
    tmp_path: Path, bucket: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when a download fails half-way."""
    names = ["ledger/state-00000200.json", *(f"ledger/epoch-{number:08d}.json" for number in range(201, 211))]
    for name in names:
        bucket.write(name, b"{}")
    reads = LocalFolder.read

    def away(self: LocalFolder, name: str, offset: int = 0, length: int | None = None) -> bytes:
        if name.endswith("205.json"):
            raise StoreAwayError("no answer")
        return reads(self, name, offset, length)

    monkeypatch.setattr(LocalFolder, "read", away)
    with pytest.raises(TransientError):
        refresh(host(tmp_path, "b", bucket))
    there = sorted(path.name for path in (tmp_path / "b" / "shop" / "ledger").iterdir())
    assert there == [f"epoch-{number:08d}.json" for number in range(201, 205)] + ["state-00000200.json"]


def test_a_ledger_reads_from_the_copy_what_has_not_changed(tmp_path: Path, bucket: LocalFolder) -> None:
    """And from the bucket what has."""
    for number in (1, 2):
        bucket.write(f"ledger/epoch-{number}.json", b"%d" % number)
    copy = StateCopy(tmp_path / "copy", bucket)
    copy.download()
    local = LocalFolder(tmp_path / "copy" / "ledger")
    local.write("epoch-1.json", b"of the copy")
    bucket.write("ledger/epoch-2.json", b"of the bucket")
    ledger = LedgerFolder(bucket / "ledger", local, copy.tags("ledger/"), lambda create: create())
    assert [one.name for one in ledger.entries("epoch-")] == ["epoch-1.json", "epoch-2.json"]
    assert [ledger.read(f"epoch-{number}.json") for number in (1, 2)] == [b"of the copy", b"of the bucket"]
    ledger.write("epoch-1.json", b"3")
    assert ledger.read("epoch-1.json") == local.read("epoch-1.json") == b"3"
    ledger.delete(["epoch-1.json"])
    assert ledger.find("epoch-1.json") is local.find("epoch-1.json") is None


def test_a_store_that_is_away_is_named(tmp_path: Path, bucket: LocalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command is not sent, and the copy stays as it was."""
    there = host(tmp_path, "b", bucket)

    def away(*_: object) -> None:
        raise StoreAwayError("no answer")

    monkeypatch.setattr(LocalFolder, "write", away)
    assert not is_current(there)
    refresh(there)
    assert is_current(there)
    with pytest.raises(TransientError, match="cannot be reached: no answer"):
        send_command(there, "stop")
    assert waiting_commands(there) == []


def test_a_url_stands_for_the_spec_of_its_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its copy is in the home of the host. It is never put over another pipeline."""
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "home"))
    assert local_spec(Path("shop.toml")) == Path("shop.toml")
    where = Directory(tmp_path / "home" / "shop")
    where.root.mkdir(parents=True)
    where.spec.write_text("")
    with pytest.raises(SpecError, match="another pipeline"):
        local_spec(Path("s3://bucket/pipelines/shop"))
    where.spec.unlink()
    place = tmp_path / "bucket"
    monkeypatch.setattr("engine.pipeline.remote_state.place.folder_at", lambda *_, **_more: LocalFolder(place))
    with pytest.raises(SpecError, match=r"s3://bucket/pipelines/shop has no pipeline"):
        local_spec(Path("s3://bucket/pipelines/shop"))
    LocalFolder(place).write("pipeline.toml", b"name")
    assert local_spec(Path("s3://bucket/pipelines/shop/")).read_text() == "name"
    LocalFolder(place).write("pipeline.toml", b"other")
    operator_copy._SEEN.clear()
    assert local_spec(Path("s3://bucket/pipelines/shop")).read_text() == "other"
    with pytest.raises(SpecError, match="another pipeline"):
        local_spec(Path("s3://elsewhere/shop"))


def test_a_pipeline_without_a_bucket_is_left_alone(tmp_path: Path) -> None:
    """Also one whose state was in a bucket before."""
    where = Directory(tmp_path)
    note_state(where, None)
    assert remote_state(where) is None
    refresh(where)
    assert list(tmp_path.iterdir()) == []
    note_state(where, "s3://bucket/shop")
    assert state_url(where) == "s3://bucket/shop"
    note_state(where, None)
    assert state_url(where) is None

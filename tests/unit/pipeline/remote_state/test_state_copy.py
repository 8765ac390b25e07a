"""Copies of a state are what the bucket has, and the bucket has what a runner and operators wrote."""

import gzip
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.alerting.silences import add_silence, end_silence, silences
from engine.base.errors import PipelineHeldError, SpecError, TransientError
from engine.base.store_errors import StoreAwayError
from engine.journal.parts import path_of
from engine.pipeline.command_file import send_command
from engine.pipeline.command_queue import claim_for_run, keep_answered, waiting_commands, withdraw
from engine.pipeline.directory import Directory
from engine.pipeline.remote_state import operator_copy, runner_sync
from engine.pipeline.remote_state.journal_tail import JournalUpload
from engine.pipeline.remote_state.ledger_folder import LedgerFolder
from engine.pipeline.remote_state.operator_copy import refresh
from engine.pipeline.remote_state.place import note_state, remote_state, runner_copy, state_url
from engine.pipeline.remote_state.runner_sync import RunnerSync
from engine.pipeline.remote_state.spec_url import local_spec
from engine.pipeline.remote_state.state_copy import StateCopy
from engine.store.folder import FileEntry
from engine.store.local_folder import LocalFolder


@pytest.fixture
def bucket(tmp_path: Path) -> LocalFolder:
    """The folder of a state."""
    return LocalFolder(tmp_path / "bucket")


def host(tmp_path: Path, name: str, bucket: LocalFolder) -> Directory:
    """A pipeline's directory on a host."""
    directory = Directory(tmp_path / name / "shop")
    note_state(directory, bucket.url)
    return directory


@pytest.fixture
def sync(tmp_path: Path, bucket: LocalFolder) -> Iterator[RunnerSync]:
    """The sync of a runner on host a, whose steps the test takes."""
    found = RunnerSync(runner_copy(host(tmp_path, "a", bucket)), bucket, None)
    yield found
    found.close()


@contextmanager
def calls(*names: str) -> Iterator[list[str]]:
    """The calls of these methods of folders."""
    made: list[str] = []

    def counted(name: str) -> Callable[..., object]:
        method = getattr(LocalFolder, name)

        def call(*args: object) -> object:
            made.append(name)
            return method(*args)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(LocalFolder, name, counted(name))
        yield made


def step(sync: RunnerSync) -> None:
    """What the thread does in some seconds."""
    sync._upload()
    sync._renew(1.0)


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
    (work / "runner.json").write_text('{"run": "r1", "state": "running"}')
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


def test_an_idle_pipeline_costs_a_watcher_one_request(tmp_path: Path, bucket: LocalFolder, sync: RunnerSync) -> None:
    """And two when the runner has renewed its lease meanwhile."""
    there = host(tmp_path, "b", bucket)
    refresh(there)
    with calls("find", "read", "below") as asked:
        refresh(there)
    assert asked == ["find"]
    sync._renew(1.0)
    with calls("find", "read", "below") as asked:
        refresh(there)
    assert asked == ["find", "read"]


def test_a_command_reaches_the_runner_and_its_answer_comes_back(
    tmp_path: Path, bucket: LocalFolder, sync: RunnerSync
) -> None:
    """It waits in all copies until it is answered."""
    work, there = runner_copy(Directory(tmp_path / "a" / "shop")), host(tmp_path, "b", bucket)
    refresh(there)
    identity = send_command(there, "redump", arguments={"tables": ["d.t"]})
    assert [one.id for one in waiting_commands(there)] == [identity]
    sync._renew(1.0)
    (waiting,) = waiting_commands(work)
    assert (waiting.id, waiting.withdrawable) == (identity, False)
    path = work.inbox / f"{identity}.json"
    assert claim_for_run(path) == ""
    step(sync)
    refresh(there)
    assert [one.withdrawable for one in waiting_commands(there)] == [False]
    keep_answered(path, "done", identity)
    step(sync)
    sync._renew(1.0)
    refresh(there)
    assert waiting_commands(there) == []
    assert (there.inbox / "done" / f"{identity}.json").exists()
    assert not [one.name for one in bucket.below() if one.name.startswith(("inbox/claims", f"inbox/{identity}"))]


def test_a_withdrawn_command_is_never_taken(tmp_path: Path, bucket: LocalFolder, sync: RunnerSync) -> None:
    """One that the runner has claimed cannot be withdrawn any more."""
    work, there = runner_copy(Directory(tmp_path / "a" / "shop")), host(tmp_path, "b", bucket)
    first, second = (send_command(there, "redump", arguments={"tables": [name]}) for name in ("d.t", "d.u"))
    withdraw(there, first)
    sync._renew(1.0)
    assert [one.id for one in waiting_commands(work)] == [second]
    with pytest.raises(SpecError, match="accepted"):
        withdraw(there, second)
    third = send_command(there, "redump", arguments={"tables": ["d.v"]})
    claims = bucket / "inbox" / "claims"
    with pytest.MonkeyPatch.context() as patch:  # the runner has read it, and claims it when all is over
        create = LocalFolder.create

        def late(self: LocalFolder, name: str, content: bytes) -> bool:
            if name == f"claims/{third}" and content != b"":
                patch.undo()
                withdraw(there, third)
            return create(self, name, content)

        patch.setattr(LocalFolder, "create", late)
        sync._renew(1.0)
    assert [one.id for one in waiting_commands(work)] == [second]
    assert claims.find(third) is None


def test_a_command_that_another_host_has_answered_is_not_taken_again(tmp_path: Path, bucket: LocalFolder) -> None:
    """By a runner whose copy still has it."""
    directory = host(tmp_path, "a", bucket)
    work = runner_copy(directory)
    identity = send_command(directory, "redump", arguments={"tables": ["d.t"]})
    RunnerSync(work, bucket, None)._lease.give_back({}, 0)
    assert [one.id for one in waiting_commands(work)] == [identity]
    elsewhere = runner_copy(host(tmp_path, "b", bucket))
    other = RunnerSync(elsewhere, bucket, None)
    keep_answered(elsewhere.inbox / f"{identity}.json", "done", identity)
    other.close()
    RunnerSync(work, bucket, None).close()
    assert waiting_commands(work) == []


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
    sync._renew(1.0)
    refresh(third)
    assert [one.id for one in silences(work)] == [one.id for one in silences(third)] == [made.id]
    end_silence(third, made.id)
    sync._renew(1.0)
    step(sync)
    refresh(there)
    assert silences(work) == silences(there) == []


def test_a_runner_that_has_lost_its_lease_creates_nothing(
    tmp_path: Path, bucket: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if it does not know yet: it looks before each commit if the lease may have run out."""
    monkeypatch.setattr(runner_sync, "_GRACE_S", -3.9)  # valid for a tenth of a second
    sync = RunnerSync(runner_copy(host(tmp_path, "a", bucket)), bucket, None)
    ledger = LedgerFolder(
        bucket / "ledger", LocalFolder(tmp_path / "a" / "ledger"), {}, sync.require_lease, sync.committed
    )
    assert ledger.create("epoch-1.json", b"1")
    other = RunnerSync(runner_copy(host(tmp_path, "b", bucket)), bucket, None)
    monkeypatch.setattr(runner_sync, "_GRACE_S", -100.0)  # any time is too long
    with pytest.raises(PipelineHeldError):
        ledger.create("epoch-2.json", b"2")
    assert bucket.find("ledger/epoch-2.json") is None
    other.close()


def test_a_ledger_reads_from_the_copy_what_has_not_changed(tmp_path: Path, bucket: LocalFolder) -> None:
    """And from the bucket what has."""
    for number in (1, 2):
        bucket.write(f"ledger/epoch-{number}.json", b"%d" % number)
    copy = StateCopy(tmp_path / "copy", bucket)
    copy.download()
    local = LocalFolder(tmp_path / "copy" / "ledger")
    local.write("epoch-1.json", b"of the copy")
    bucket.write("ledger/epoch-2.json", b"of the bucket")
    ledger = LedgerFolder(bucket / "ledger", local, copy.tags("ledger/"), lambda: None, lambda: None)
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
    monkeypatch.setattr("engine.pipeline.remote_state.place.folder_at", lambda _url: LocalFolder(place))
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

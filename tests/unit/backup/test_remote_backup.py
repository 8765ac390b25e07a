"""A backup of a pipeline whose state is in a bucket, and its restore there."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine.backup import backup
from engine.backup.backup import restore, write_backup
from engine.base.errors import DestinationError, MismatchError, PipelineHeldError, TransientError
from engine.base.store_errors import StoreAwayError
from engine.destination.delta.destination import DeltaDestination
from engine.destination.delta.pair_versions import PairVersions
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory
from engine.pipeline.remote_state.lease import seen_lease
from engine.pipeline.remote_state.names import LEASE
from engine.pipeline.remote_state.operator_copy import committed_ledger, refresh
from engine.pipeline.remote_state.place import note_state, runner_copy
from engine.pipeline.remote_state.runner_sync import RunnerSync
from engine.run.lifecycle.takeover import Takeover
from engine.spec.settings import Spec, parse
from engine.store.local_folder import LocalFolder
from tests.unit.destination.support import OLD, SPEC, World, log, mirror, publish_story, story


def copied(folder: Path) -> tuple[World, Spec, Directory, LocalFolder]:
    """The story up to its third epoch; its state is in a bucket. Another host knows nothing but that."""
    story(world := World(folder))
    world.records = world.records[:3]
    publish_story(world, folder, [])
    world.epoch(changes=world.changes(OLD, [("-D", 1, 1)]))
    for n in range(10, 14):
        world.epoch(changes=world.changes(OLD, [("+I", n, n)]))
    (folder / "bucket").mkdir()
    (folder / "ledger").rename(folder / "bucket" / "ledger")
    (folder / "bucket" / "controls.json").write_text("{}")
    (folder / "ledger").symlink_to(folder / "bucket" / "ledger")
    bucket, directory = LocalFolder(folder / "bucket"), Directory(folder / "host" / "shop")
    note_state(directory, bucket.url)
    refresh(directory)
    return world, parse(SPEC, folder / "shop.toml"), directory, bucket


def ends_at(directory: Directory) -> int:
    """The last epoch of the ledger, as another command on this host sees it."""
    refresh(directory)
    state = Ledger(directory.ledger).state
    assert state is not None
    committed = Ledger(committed_ledger(directory)).state
    assert committed is not None
    assert (state.epoch, state.terms) == (committed.epoch, committed.terms)
    return state.epoch


def test_a_ledger_in_a_bucket_is_put_back(tmp_path: Path) -> None:
    """On all hosts at once, as often as one likes; what a copy lacks is in the backup nevertheless."""
    world, spec, directory, bucket = copied(tmp_path)
    for name in ("epoch-00000002.json", "epoch-00000001.json"):
        (directory.ledger / name).unlink()
    made = write_backup(spec, directory, tmp_path / "b.zip")
    assert (made.epoch, made.tables) == (2, 1)
    before = mirror(tmp_path), log(tmp_path)
    publish_story(world, tmp_path, [], since=3)
    later = ends_at(directory)
    assert later > 3
    bucket.write("ledger-of-somebody/note", b"not ours")
    other = Directory(tmp_path / "other" / "shop")
    note_state(other, bucket.url)
    for n in (1, 2):
        bucket.write("verify/d.t.json", b"of a later version")
        bucket.write("controls.json", b"later")
        restore(spec, directory, tmp_path / "b.zip")
        assert (mirror(tmp_path), log(tmp_path)) == before
        assert ends_at(directory) == ends_at(other) == 3, "an epoch more, which holds the term of the restore"
        seen = seen_lease(bucket)
        assert seen is not None
        assert (seen.record.ended, seen.record.ledger[:13]) == (True, f"ledger-{n:06d}")
        assert bucket.find("verify/d.t.json") is None
        state = Ledger(bucket / seen.record.ledger).state
        assert state is not None
        Takeover(DeltaDestination(spec.sink, tmp_path / "notes"), f"next {n}").take(
            Ledger(committed_ledger(directory)), [], everything=False
        )
        state = Ledger(committed_ledger(other)).state
        assert state is not None
        assert state.epoch == 4
    old = Ledger(bucket / "ledger").state
    assert old is not None
    assert old.epoch == later, "it is set aside"
    assert bucket.read("ledger-of-somebody/note") == b"not ours"
    (tmp_path / "bucket" / LEASE).unlink()
    ends = Ledger(committed_ledger(directory)).state
    assert ends is not None
    assert ends.epoch == 4, "without the lease, the newest one counts"


def test_a_restore_waits_for_no_runner(tmp_path: Path) -> None:
    """It is refused while one has the lease; a runner that lost it commits where nobody reads."""
    world, spec, directory, bucket = copied(tmp_path)
    write_backup(spec, directory, tmp_path / "b.zip")
    host = Directory(tmp_path / "a" / "shop")
    note_state(host, bucket.url)
    sync = RunnerSync(runner_copy(host), bucket, bucket, "shop", None)
    late = Ledger(sync.ledger)
    try:
        sync._renew()  # one that stood still is taken for dead only when it is silent
        with pytest.raises(PipelineHeldError):
            restore(spec, directory, tmp_path / "b.zip")
    finally:
        sync.close()
    restore(spec, directory, tmp_path / "b.zip")
    before = ends_at(directory)
    late.commit(world.records[3])
    assert ends_at(directory) == before
    assert late.state is not None
    with pytest.raises(PipelineHeldError):
        Takeover(DeltaDestination(spec.sink, tmp_path / "notes"), "late")._take_fence(late.state)


@pytest.mark.parametrize("instant", ["before it", "lost"])
def test_a_restore_that_was_cut_off_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instant: str) -> None:
    """When the tables were rolled back and the ledger was not switched, or the answer to that was lost."""
    world, spec, directory, bucket = copied(tmp_path)
    write_backup(spec, directory, tmp_path / "b.zip")
    before = mirror(tmp_path), log(tmp_path)
    publish_story(world, tmp_path, [], since=3)
    later, switch = ends_at(directory), RunnerSync.switch_ledger

    def cut(self: RunnerSync, folder: str) -> None:
        if instant == "lost":
            switch(self, folder)
        raise StoreAwayError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(RunnerSync, "switch_ledger", cut)
        with pytest.raises(TransientError):
            restore(spec, directory, tmp_path / "b.zip")
    assert (mirror(tmp_path), log(tmp_path)) == before
    assert ends_at(directory) == (3 if instant == "lost" else later)
    run = Takeover(DeltaDestination(spec.sink, tmp_path / "notes"), "next")
    if instant == "lost":
        run.take(Ledger(committed_ledger(directory)), [], everything=False)
    else:
        with pytest.raises(MismatchError, match="run restore-"):
            run.take(Ledger(committed_ledger(directory)), [], everything=False)
    restore(spec, directory, tmp_path / "b.zip")
    assert (mirror(tmp_path), log(tmp_path), ends_at(directory)) == (*before, 3)
    kept = [name for name in bucket.folders() if name.startswith("ledger") and any((bucket / name).entries())]
    assert len(kept) == (3 if instant == "lost" else 2), "what a killed restore left is deleted"


def test_a_ledger_stays_if_a_table_cannot_be_rolled_back(tmp_path: Path) -> None:
    """And nothing is left of the restore."""
    world, spec, directory, bucket = copied(tmp_path)
    write_backup(spec, directory, tmp_path / "b.zip")
    publish_story(world, tmp_path, [], since=3)
    later = ends_at(directory)
    for path in (tmp_path / "lake/d/t").glob("chunk*.parquet"):
        path.unlink()
    with pytest.raises(DestinationError, match="gone or damaged"):
        restore(spec, directory, tmp_path / "b.zip")
    assert ends_at(directory) == later
    assert not [name for name in bucket.folders() if name.startswith("ledger-") and any((bucket / name).entries())]


def test_a_table_that_joins_meanwhile_is_in_the_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its versions too: they are read again."""
    _, spec, directory, _ = copied(tmp_path)
    state = Ledger(committed_ledger(directory)).state
    assert state is not None
    monkeypatch.setattr(backup, "_state", lambda _: replace(state, tables={}))
    assert write_backup(spec, directory, tmp_path / "b.zip").tables == 1


def test_a_store_that_is_away_is_named_by_both_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Done again once it answers, they work."""
    _, spec, directory, bucket = copied(tmp_path)

    def away(*_: object) -> None:
        raise StoreAwayError("The store does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(PairVersions, "newest", away)
        with pytest.raises(TransientError, match="does not answer"):
            write_backup(spec, directory, tmp_path / "b.zip")
    write_backup(spec, directory, tmp_path / "b.zip")
    with monkeypatch.context() as patch:
        patch.setattr(PairVersions, "roll_back", away)
        with pytest.raises(TransientError, match="does not answer"):
            restore(spec, directory, tmp_path / "b.zip")
    assert bucket.folders() == ["ledger"] or not any((bucket / bucket.folders()[-1]).entries())
    restore(spec, directory, tmp_path / "b.zip")
    assert ends_at(directory) == 3

"""A runner writes nothing without its lease, and waits for a store that is away."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.errors import PipelineHeldError
from engine.base.store_errors import StoreAwayError
from engine.pipeline.directory import Directory
from engine.pipeline.remote_state import runner_sync
from engine.pipeline.remote_state.lease import seen_lease
from engine.pipeline.remote_state.ledger_folder import LedgerFolder
from engine.pipeline.remote_state.names import LEASE
from engine.pipeline.remote_state.place import runner_copy
from engine.pipeline.remote_state.runner_sync import RunnerSync
from engine.store.local_folder import LocalFolder
from tests.unit.pipeline.remote_state.hosts import step


def robbed(sync: RunnerSync, bucket: LocalFolder) -> None:
    """Another runner takes the lease of one that stood still for long."""
    seen = seen_lease(bucket)
    assert seen is not None
    bucket.write(LEASE, replace(seen.record, holder="another").text)
    sync._renewed_s -= 3600.0


def test_a_runner_that_has_lost_its_lease_writes_nothing(tmp_path: Path, bucket: LocalFolder, sync: RunnerSync) -> None:
    """Even if it does not know yet: no epoch, no file, nothing at its end."""
    work = runner_copy(Directory(tmp_path / "a" / "shop")).root
    ledger = LedgerFolder(bucket / "ledger", LocalFolder(work / "ledger"), {}, sync.commit)
    (work / "controls.json").write_text("old")
    assert ledger.create("epoch-1.json", b"1")
    step(sync)
    bucket.write("controls.json", b"of the other runner")
    robbed(sync, bucket)
    (work / "controls.json").write_text("late")
    (work / "alerts.json").write_text("late")
    with pytest.raises(PipelineHeldError):
        ledger.create("epoch-2.json", b"2")
    with pytest.raises(PipelineHeldError):
        sync._upload()
    sync.close()
    assert bucket.read("controls.json") == b"of the other runner"
    assert bucket.find("alerts.json") is bucket.find("ledger/epoch-2.json") is None


def test_a_commit_waits_for_a_store_that_is_away(
    bucket: LocalFolder, sync: RunnerSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is repeated with the same content, which decides. At the end of the run it gives up."""
    replaces, answers = LocalFolder.replace, iter([False, False])

    def away(self: LocalFolder, name: str, content: bytes, tag: str) -> str:
        if not next(answers, True):
            raise StoreAwayError("no answer")
        return replaces(self, name, content, tag)

    monkeypatch.setattr(LocalFolder, "replace", away)
    monkeypatch.setattr(runner_sync, "_RETRY_S", 0.01)
    sync._renewed_s -= 3600.0
    assert sync.commit(lambda: "tag")
    lost = iter([True])

    def create() -> str:
        if next(lost, False):
            raise StoreAwayError("the answer was lost")
        return bucket.create("ledger/epoch-1.json", b"1")

    assert sync.commit(create)
    answers = iter([False] * 3)
    sync._renewed_s -= 3600.0
    monkeypatch.setattr(sync, "_gives_up", lambda: True)
    with pytest.raises(StoreAwayError):
        sync.commit(lambda: "tag")
    with pytest.raises(StoreAwayError):
        sync.report()

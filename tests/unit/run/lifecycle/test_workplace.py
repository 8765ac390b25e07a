"""Where a run works if its state is in a bucket, with a folder in place of the bucket."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.base.errors import PipelineHeldError, TransientError
from engine.base.store_errors import StoreAwayError
from engine.pipeline.directory import Directory
from engine.pipeline.remote_state.lease import seen_lease
from engine.pipeline.saved_lists import read_standbys
from engine.run.lifecycle import workplace as room
from engine.run.lifecycle.workplace import workplace
from engine.spec.settings import Spec, load
from engine.store.local_folder import LocalFolder

SPEC = """
name = "shop"
state = "s3://bucket/shop"
poll_interval_s = {poll}
[source]
host = "db"
user = "u"
tables = ["shop.*"]
[sink]
path = "s3://bucket/lake"
"""


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalFolder:
    """The folder of the state. No Spark session is started."""
    folder = LocalFolder(tmp_path / "bucket")
    monkeypatch.setattr("engine.pipeline.remote_state.place.folder_at", lambda *_, **_more: folder)
    monkeypatch.setattr(room, "is_local", lambda _: False)
    return folder


def spec_of(tmp_path: Path, host: str, poll: float) -> tuple[Spec, Path]:
    """A host's spec."""
    path = tmp_path / host / "shop.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(SPEC.format(poll=poll))
    return load(path), path


def test_a_run_works_on_a_copy_and_gives_the_lease_back(tmp_path: Path, bucket: LocalFolder) -> None:
    """The bucket has the spec that it ran by."""
    spec, path = spec_of(tmp_path, "a", 1.0)
    with workplace(spec, path, None) as place:
        assert place.pipeline.root == tmp_path / "a" / "shop"
        assert place.directory.root == tmp_path / "a" / "shop" / "runner"
        assert place.directory.spec.read_bytes() == bucket.read("pipeline.toml") == path.read_bytes()
        assert place.ledger.create("epoch-00000000.json", b"{}")
        assert bucket.read("ledger/epoch-00000000.json") == b"{}"
    seen = seen_lease(bucket)
    assert seen is not None
    assert seen.record.ended


def _waited(tmp_path: Path, meanwhile: Callable[[], object]) -> tuple[Spec, bool]:
    """The spec by which a standby runner of host b runs, and whether its wait was shown."""
    spec, path = spec_of(tmp_path, "b", 1.0)
    first, said, shown = spec_of(tmp_path, "a", 1.0), list[str](), False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.pipeline.remote_state.lease._is_dead", lambda _: False)
        patch.setattr("engine.pipeline.remote_state.lease._LOOK_S", 0.05)
        patch.setattr("engine.pipeline.remote_state.runner_sync.BUSY_S", 0.1)
        stack = workplace(*first, None)
        stack.__enter__()

        def waits(why: str) -> None:
            nonlocal shown
            said.append(why)
            shown = bool(read_standbys(Directory(tmp_path / "b" / "shop")))
            meanwhile()
            stack.__exit__(None, None, None)

        with workplace(spec, path, waits) as place:
            return place.spec, shown and "renews its lease" in said[0]


def test_a_standby_runner_runs_by_the_spec_that_was_changed_while_it_waited(
    tmp_path: Path, bucket: LocalFolder
) -> None:
    """Its own one is older. If nothing was changed, its own one holds: somebody has just edited it."""
    changed = SPEC.format(poll=7.0).encode()
    spec, was_shown = _waited(tmp_path, lambda: bucket.write("pipeline.toml", changed))
    assert (spec.poll_interval_s, was_shown) == (7.0, True)
    assert bucket.read("pipeline.toml") == changed
    spec, _ = _waited(tmp_path, lambda: None)
    assert spec.poll_interval_s == 1.0


def test_a_run_that_loses_its_lease_ends_with_that_error(tmp_path: Path, bucket: LocalFolder) -> None:
    """Whatever else fails for it."""
    spec, path = spec_of(tmp_path, "a", 1.0)
    held = PipelineHeldError("another has it")
    for raised in (None, ValueError("a consequence"), held):
        with pytest.raises(PipelineHeldError), workplace(spec, path, None) as place:  # noqa: PT012
            assert place.sync is not None
            if raised is not held:
                place.sync.lose(held)
            if raised is not None:
                raise raised
        bucket.delete(["lease.json"])  # it was not given back: it is not this runner's any more


def test_a_store_that_is_away_at_the_start_is_named(
    tmp_path: Path, bucket: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was started."""

    def away(*_: object) -> None:
        raise StoreAwayError("no answer")

    monkeypatch.setattr(LocalFolder, "find", away)
    with (
        pytest.raises(TransientError, match="cannot be reached: no answer"),
        workplace(*spec_of(tmp_path, "a", 1.0), None),
    ):
        pass

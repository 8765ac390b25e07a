"""One runner at a time has the lease, and operators make themselves heard by it."""

from pathlib import Path

import pytest

from engine.base import clock, processes
from engine.base.errors import NewerFormatError, PipelineHeldError
from engine.pipeline.remote_state import lease as lease_room
from engine.pipeline.remote_state.lease import Lease, knock, seen_lease, take_lease
from engine.store.local_folder import LocalFolder

VALID_S = 30.0


@pytest.fixture
def state(tmp_path: Path) -> LocalFolder:
    """The folder of a state that nobody has used."""
    return LocalFolder(tmp_path / "state")


@pytest.fixture(autouse=True)
def time_flies(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waits take no time; the times that were slept."""
    slept: list[float] = []
    monkeypatch.setattr(clock, "monotonic_s", lambda: sum(slept))
    monkeypatch.setattr(clock, "sleep", slept.append)
    return slept


def lease(state: LocalFolder, host: str = "a") -> Lease:
    """The lease of a runner."""
    return take_lease(state, host, 1, VALID_S)


def test_the_first_runner_takes_it_and_keeps_it_by_renewing(
    state: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one that comes is refused at its first look at a new renewal."""
    mine = lease(state)
    assert not mine.renew({"run": "r1"}, VALID_S, 0)
    monkeypatch.setattr(clock, "sleep", lambda _: mine.renew({"run": "r1"}, VALID_S, 0))
    with pytest.raises(PipelineHeldError, match=r"the runner on a \(pid 1\) renews its lease"):
        lease(state, "b")


def test_a_silent_holder_loses_it_when_it_is_not_valid_any_more(state: LocalFolder, time_flies: list[float]) -> None:
    """As long as it said itself. It learns that at its next renewal, and at its end."""
    mine = lease(state)
    other = lease(state, "b")
    assert sum(time_flies) == pytest.approx(VALID_S)
    with pytest.raises(PipelineHeldError, match=r"lost its lease .* to the runner on b"):
        mine.renew({}, VALID_S, 0)
    with pytest.raises(PipelineHeldError):
        mine.give_back({}, 0)
    assert not other.renew({}, VALID_S, 0)


def test_who_waits_takes_it_when_it_is_given_back(state: LocalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says once for whom it waits."""
    mine, said, beats = lease(state), list[str](), iter(range(20))

    def beat(_: float) -> None:
        if next(beats) < 10:
            mine.renew({}, VALID_S, 0)
        else:
            mine.give_back({}, 7)

    monkeypatch.setattr(clock, "sleep", beat)
    take_lease(state, "b", 2, VALID_S, said.append)
    assert said == ["the runner on a (pid 1) renews its lease"]
    seen = seen_lease(state)
    assert seen is not None
    assert (seen.record.host, seen.record.uploads, seen.record.ended) == ("b", 7, False)


def test_a_holder_that_is_dead_on_this_machine_is_not_waited_for(state: LocalFolder, time_flies: list[float]) -> None:
    """Its process is looked for, not only its number."""
    mine = lease(state)
    mine.renew({"process": {**processes.here(), "ticks": 1}}, VALID_S, 0)
    lease(state, "b")
    assert time_flies == []


def test_a_knock_is_heard_at_the_next_renewal_once(state: LocalFolder) -> None:
    """Whatever the operators' number; and one of nobody harms nobody."""
    knock(state)
    assert seen_lease(state) is None
    mine = lease(state)
    knock(state)
    knock(state)
    assert mine.renew({}, VALID_S, 0)
    assert not mine.renew({}, VALID_S, 0)
    knock(state)
    assert mine.renew({}, VALID_S, 0)
    mine.give_back({}, 0)
    knock(state)
    seen = seen_lease(state)
    assert seen is not None
    assert seen.record.ended


def test_an_unchanged_lease_is_not_read_again(state: LocalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tag says so."""
    mine = lease(state)
    seen = seen_lease(state)
    with monkeypatch.context() as patch:
        patch.setattr(LocalFolder, "read", lambda *_: pytest.fail("it was read"))
        assert seen_lease(state, seen) is seen
    mine.renew({}, VALID_S, 3)
    assert seen_lease(state, seen) != seen


def test_a_deleted_lease_ends_its_runner(state: LocalFolder) -> None:
    """Somebody else may have the pipeline by now."""
    mine = lease(state)
    state.delete([lease_room.NAME])
    with pytest.raises(PipelineHeldError, match="nobody: somebody deleted it"):
        mine.renew({}, VALID_S, 0)


def test_what_is_no_lease_is_not_taken(state: LocalFolder) -> None:
    """Neither what a newer version wrote."""
    state.write(lease_room.NAME, b"{}")
    with pytest.raises(ValueError, match="is not a lease"):
        lease(state)
    state.write(lease_room.NAME, b'{"format": 99}')
    with pytest.raises(NewerFormatError):
        lease(state)

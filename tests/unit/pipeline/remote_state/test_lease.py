"""One runner at a time has the lease, and operators make themselves heard by it."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base import clock, processes
from engine.base.errors import NewerFormatError, PipelineHeldError, SpecError
from engine.base.store_errors import StoreAwayError
from engine.pipeline.remote_state.lease import Lease, knock, seen_lease, take_lease
from engine.pipeline.remote_state.names import LEASE
from engine.store.folder import FileEntry
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
    return take_lease(state, "shop", host, 1, VALID_S)


def alive(found: Lease) -> Lease:
    """As of a runner on another machine: nobody can see whether its process lives."""
    found._record = replace(found._record, process={})
    found.renew({}, VALID_S, 0)
    return found


def test_the_first_runner_takes_it_and_keeps_it_by_renewing(
    state: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one that comes is refused at its first look at a new renewal."""
    mine = alive(lease(state))
    monkeypatch.setattr(clock, "sleep", lambda _: mine.renew({"run": "r1"}, VALID_S, 0))
    with pytest.raises(PipelineHeldError, match=r"the runner on a \(pid 1\) renews its lease"):
        lease(state, "b")


def test_a_silent_holder_loses_it_when_it_is_not_valid_any_more(state: LocalFolder, time_flies: list[float]) -> None:
    """As long as it said itself. It learns that at its next renewal, and at its end."""
    mine = alive(lease(state))
    other = lease(state, "b")
    assert sum(time_flies) == pytest.approx(VALID_S)
    with pytest.raises(PipelineHeldError, match=r"lost its lease .* to the runner on b"):
        mine.renew({}, VALID_S, 0)
    with pytest.raises(PipelineHeldError):
        mine.give_back({}, 0)
    other.renew({}, VALID_S, 0)


def test_who_waits_takes_it_when_it_is_given_back(state: LocalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says once for whom it waits."""
    mine, said, beats = alive(lease(state)), list[str](), iter(range(20))

    def beat(_: float) -> None:
        if next(beats) < 10:
            mine.renew({}, VALID_S, 0)
        else:
            mine.give_back({}, 7)

    monkeypatch.setattr(clock, "sleep", beat)
    take_lease(state, "shop", "b", 2, VALID_S, said.append)
    assert said == ["the runner on a (pid 1) renews its lease"]
    seen = seen_lease(state)
    assert seen is not None
    assert (seen.record.host, seen.record.uploads, seen.record.ended) == ("b", 7, False)


def test_a_holder_that_is_dead_on_this_machine_is_not_waited_for(state: LocalFolder, time_flies: list[float]) -> None:
    """Its process is looked for, not only its number. One that has just begun is alive."""
    mine = take_lease(state, "shop", "a", os.getpid(), VALID_S)
    with pytest.raises(PipelineHeldError):
        _contested(state, mine)
    time_flies.clear()
    mine._record = replace(mine._record, process={**processes.here(), "ticks": 1})
    mine.renew({}, VALID_S, 0)
    lease(state, "b")
    assert time_flies == []


def _contested(state: LocalFolder, mine: Lease) -> None:
    """Another runner wants the lease, while the holder renews it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "sleep", lambda _: mine.renew({}, VALID_S, 0))
        lease(state, "b")


def test_a_knock_is_heard_at_the_next_renewal(state: LocalFolder) -> None:
    """Whatever their number; and one of nobody harms nobody."""
    knock(state)
    assert seen_lease(state) is None
    mine = alive(lease(state))
    knock(state)
    knock(state)
    assert mine.orders == 0
    mine.renew({}, VALID_S, 0)
    assert mine.orders == 2
    mine.give_back({}, 0)
    knock(state)
    seen = seen_lease(state)
    assert seen is not None
    assert (seen.record.ended, seen.record.orders) == (True, 2)
    assert lease(state, "b").orders == 2


def test_a_knock_is_not_forgotten_when_the_renewal_after_it_fails(
    state: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store went away in between."""
    mine = alive(lease(state))
    knock(state)
    replaces = LocalFolder.replace
    answers = iter([True, False])

    def away(self: LocalFolder, name: str, content: bytes, tag: str) -> str:
        if not next(answers, True):
            raise StoreAwayError("no answer")
        return replaces(self, name, content, tag)

    monkeypatch.setattr(LocalFolder, "replace", away)
    with pytest.raises(StoreAwayError):
        mine.renew({}, VALID_S, 0)
    mine.renew({}, VALID_S, 0)
    assert mine.orders == 1


def test_knocks_do_not_keep_a_dead_holder_s_lease(state: LocalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody sends commands all the time."""
    alive(lease(state))
    slept: list[float] = []

    def pass_time(seconds: float) -> None:
        slept.append(seconds)
        knock(state)

    monkeypatch.setattr(clock, "sleep", pass_time)
    monkeypatch.setattr(clock, "monotonic_s", lambda: sum(slept))
    taken = lease(state, "b")
    assert sum(slept) == pytest.approx(VALID_S)
    assert taken.orders == len(slept)


def test_another_pipeline_s_state_is_refused(state: LocalFolder) -> None:
    """Also when nobody runs it."""
    lease(state).give_back({}, 0)
    with pytest.raises(SpecError, match="that of the pipeline shop, not of crm"):
        take_lease(state, "crm", "a", 1, VALID_S)


def test_who_waits_bears_a_store_that_is_away(state: LocalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so. Who does not wait gets the error."""
    finds, said = LocalFolder.find, list[str]()
    answers = iter([False, False])

    def away(self: LocalFolder, name: str) -> FileEntry | None:
        if not next(answers, True):
            raise StoreAwayError("no answer")
        return finds(self, name)

    monkeypatch.setattr(LocalFolder, "find", away)
    with pytest.raises(StoreAwayError):
        lease(state)
    take_lease(state, "shop", "a", 1, VALID_S, said.append)
    assert said == ["no answer"]


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
    state.delete([LEASE])
    with pytest.raises(PipelineHeldError, match="nobody: somebody deleted it"):
        mine.renew({}, VALID_S, 0)


def test_what_is_no_lease_is_not_taken(state: LocalFolder) -> None:
    """Neither what a newer version wrote."""
    state.write(LEASE, b"{}")
    with pytest.raises(ValueError, match="is not a lease"):
        lease(state)
    state.write(LEASE, b'{"format": 99}')
    with pytest.raises(NewerFormatError):
        lease(state)

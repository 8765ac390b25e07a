"""Commands reach the runner once, in their order, and are answered or withdrawn, whatever host they come from."""

from pathlib import Path

import pytest

from engine.base.errors import SpecError, TransientError
from engine.pipeline.command_file import send_command
from engine.pipeline.command_queue import claim_for_run, keep_answered, waiting_commands, withdraw
from engine.pipeline.directory import Directory
from engine.pipeline.remote_state.operator_copy import refresh
from engine.pipeline.remote_state.place import runner_copy
from engine.pipeline.remote_state.runner_sync import RunnerSync
from engine.store.local_folder import LocalFolder
from tests.unit.pipeline.remote_state.hosts import host, runner_sync_of, step


def test_a_command_reaches_the_runner_and_its_answer_comes_back(
    tmp_path: Path, bucket: LocalFolder, sync: RunnerSync
) -> None:
    """It waits in all copies until it is answered."""
    work, there = runner_copy(Directory(tmp_path / "a" / "shop")), host(tmp_path, "b", bucket)
    refresh(there)
    identity = send_command(there, "redump", arguments={"tables": ["d.t"]})
    assert [one.id for one in waiting_commands(there)] == [identity]
    step(sync)
    (waiting,) = waiting_commands(work)
    assert (waiting.id, waiting.withdrawable) == (identity, False)
    path = work.inbox / f"{identity}.json"
    assert claim_for_run(path) == ""
    step(sync)
    refresh(there)
    assert [one.withdrawable for one in waiting_commands(there)] == [False]
    keep_answered(path, "done", identity)
    step(sync)
    step(sync)
    refresh(there)
    assert waiting_commands(there) == []
    assert (there.inbox / "done" / f"{identity}.json").exists()
    assert not [one.name for one in bucket.below() if one.name.startswith(("inbox/claims", f"inbox/{identity}"))]


def test_a_withdrawn_command_is_never_taken(tmp_path: Path, bucket: LocalFolder, sync: RunnerSync) -> None:
    """One that the runner has claimed cannot be withdrawn any more."""
    work, there = runner_copy(Directory(tmp_path / "a" / "shop")), host(tmp_path, "b", bucket)
    first, second = (send_command(there, "redump", arguments={"tables": [name]}) for name in ("d.t", "d.u"))
    withdraw(there, first)
    step(sync)
    assert [one.id for one in waiting_commands(work)] == [second]
    with pytest.raises(SpecError, match="accepted"):
        withdraw(there, second)
    third = send_command(there, "redump", arguments={"tables": ["d.v"]})
    claims = bucket / "inbox" / "claims"
    with pytest.MonkeyPatch.context() as patch:  # the runner has read it, and claims it when all is over
        create = LocalFolder.create

        def late(self: LocalFolder, name: str, content: bytes) -> str:
            if name == f"claims/{third}" and content != b"":
                patch.undo()
                withdraw(there, third)
            return create(self, name, content)

        patch.setattr(LocalFolder, "create", late)
        step(sync)
    assert [one.id for one in waiting_commands(work)] == [second]
    assert claims.find(third) is None


def test_a_command_that_another_host_has_answered_is_not_taken_again(tmp_path: Path, bucket: LocalFolder) -> None:
    """By a runner whose copy still has it."""
    directory = host(tmp_path, "a", bucket)
    work = runner_copy(directory)
    identity = send_command(directory, "redump", arguments={"tables": ["d.t"]})
    runner_sync_of(work, bucket)._lease.give_back({}, 0)
    assert [one.id for one in waiting_commands(work)] == [identity]
    elsewhere = runner_copy(host(tmp_path, "b", bucket))
    other = runner_sync_of(elsewhere, bucket)
    keep_answered(elsewhere.inbox / f"{identity}.json", "done", identity)
    other.close()
    runner_sync_of(work, bucket).close()
    assert waiting_commands(work) == []


def test_commands_are_taken_as_they_were_sent(tmp_path: Path, bucket: LocalFolder, sync: RunnerSync) -> None:
    """From several hosts, whatever their numbers."""
    work = runner_copy(Directory(tmp_path / "a" / "shop"))
    hosts = [host(tmp_path, name, bucket) for name in "bcd"]
    for _ in range(7):
        send_command(hosts[2], "redump", arguments={"tables": ["d.first"]})
    sent = [send_command(hosts[n % 2], "redump", arguments={"tables": [f"d.t{n}"]}) for n in range(20)]
    step(sync)
    assert [one.id for one in waiting_commands(work)][7:] == sent


def test_a_withdrawal_whose_answer_was_lost_can_be_repeated(
    tmp_path: Path, bucket: LocalFolder, sync: RunnerSync
) -> None:
    """And if nobody repeats it, the runner refuses the command for it."""
    work, there = runner_copy(Directory(tmp_path / "a" / "shop")), host(tmp_path, "b", bucket)
    first, second = (send_command(there, "redump", arguments={"tables": [name]}) for name in ("d.t", "d.u"))

    def away(*_: object) -> None:
        raise TransientError("no answer")

    for identity in (first, second):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("engine.pipeline.command_queue.leave", away)
            with pytest.raises(TransientError):
                withdraw(there, identity, actor="ada")
    withdraw(there, first, actor="ada")
    step(sync)
    assert [one.id for one in waiting_commands(work)] == [second]
    assert "ada withdrew it" in claim_for_run(work.inbox / f"{second}.json")

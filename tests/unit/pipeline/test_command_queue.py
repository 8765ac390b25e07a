"""Commands that wait are listed, and are withdrawn or carried out, never both."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.base.durable import link
from engine.base.errors import SpecError
from engine.journal import Journal
from engine.pipeline.command_file import send_command
from engine.pipeline.command_queue import GONE, claim_for_run, release, waiting_commands, withdraw
from engine.pipeline.directory import Directory
from engine.run.commands.control import Control, ControlOptions, control_of
from tests.support.depth import depth


def test_the_queue_says_who_sent_what_and_why(tmp_path: Path) -> None:
    """In the order in which a run takes them; what is no command is left out."""
    where = Directory(tmp_path)
    assert waiting_commands(where) == []
    send_command(
        where, "redump", reason="wrong rows", actor="ada", arguments={"tables": ["d.t"], "keys": [["1"], ["2"]]}
    )
    send_command(where, "throttle", actor="bob", arguments={"max_rows_per_s": 9, "for": "2h"})
    send_command(where, "redump", actor="bob", arguments={"tables": []})
    send_command(where, "remove-table", actor="bob", arguments={"tables": ["d.t", "d.u"], "drop": True})
    send_command(where, "pause", actor="bob", arguments={"snapshot": True})
    send_command(where, "stop", actor="bob")
    (where.inbox / "torn.json").write_text("{")
    found = waiting_commands(where)
    assert [(one.verb, one.what) for one in found] == [
        ("redump", "d.t, 2 rows"),
        ("throttle", "max_rows_per_s=9 for 2h"),
        ("redump", "all tables"),
        ("remove-table", "d.t, d.u, mirrors and change logs are deleted"),
        ("pause", "the snapshot"),
        ("stop", "the whole pipeline"),
    ]
    assert (found[0].actor, found[0].reason, bool(found[0].sent)) == ("ada", "wrong rows", True)
    assert [one.withdrawable for one in found] == [True] * 5 + [False], "the next run refuses the stop anyway"


def test_a_withdrawn_command_is_kept_with_who_withdrew_it(tmp_path: Path) -> None:
    """It can be withdrawn once, and leaves nothing else behind."""
    where = Directory(tmp_path)
    identity = send_command(where, "redump", arguments={"tables": ["d.t"]})
    assert withdraw(where, identity, actor="ada", reason="not needed").what == "d.t"
    assert waiting_commands(where) == []
    kept = json.loads((where.inbox / "withdrawn" / f"{identity}.json").read_text())
    assert (kept["verb"], kept["withdrawn"]["actor"], kept["withdrawn"]["reason"]) == ("redump", "ada", "not needed")
    assert list((where.inbox / "claims").iterdir()) == []
    with pytest.raises(SpecError, match="No command"):
        withdraw(where, identity)
    assert claim_for_run(where.inbox / f"{identity}.json") == GONE


def test_what_a_run_has_accepted_cannot_be_withdrawn(tmp_path: Path) -> None:
    """Also if that run is gone: the next one continues it. An answered command has no claim."""
    where = Directory(tmp_path)
    identity = send_command(where, "redump", arguments={"tables": ["d.t"]})
    path = where.inbox / f"{identity}.json"
    assert claim_for_run(path) == ""
    assert claim_for_run(path) == "", "of a later run"
    with pytest.raises(SpecError, match="a run has accepted it"):
        withdraw(where, identity)
    assert [one.note for one in waiting_commands(where)] == ["a run has accepted it"]
    release(path)
    assert list((where.inbox / "claims").iterdir()) == []


def test_a_command_of_another_user_is_claimed_by_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux forbids a link to a file of another user that may not be written.

    Its withdrawal is refused all the same.
    """
    where, real = Directory(tmp_path), link
    identity = send_command(where, "redump", arguments={"tables": ["d.t"]})
    path = where.inbox / f"{identity}.json"

    def guarded(source: Path, target: Path) -> bool:
        if source == path:
            raise PermissionError(1, "Operation not permitted")
        return real(source, target)

    monkeypatch.setattr("engine.pipeline.command_queue.link", guarded)
    assert claim_for_run(path) == ""
    assert claim_for_run(path) == "", "of a later run"
    with pytest.raises(SpecError, match="a run has accepted it"):
        withdraw(where, identity)


def test_a_withdrawal_that_was_killed_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its claim and the removal of the file: the next run refuses the command, and says who withdrew it."""
    where = Directory(tmp_path)
    identity = send_command(where, "throttle", arguments={"readers": 1})

    unlink = Path.unlink

    def killed(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".json":
            raise KeyboardInterrupt
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            withdraw(where, identity, actor="ada", reason="why not")
    assert [one.id for one in waiting_commands(where)] == [identity]
    control = _control(where)
    control.intake.poll()
    assert control.settings.controls.throttle == {}
    (refused,) = _events(where, "command.refused")
    assert refused["message"].startswith("ada withdrew it at ")
    assert refused["message"].endswith(" UTC: why not.")
    assert waiting_commands(where) == []


def test_a_command_is_withdrawn_or_carried_out_never_both(tmp_path: Path) -> None:
    """A run and an operator at the same moment, many times: exactly one of them wins."""
    where = Directory(tmp_path)
    control = _control(where)
    won = {"run": 0, "operator": 0}
    for number in range(1, depth(150, 3000) + 1):
        identity = send_command(where, "throttle", arguments={"max_rows_per_s": number})
        ready = threading.Barrier(2)
        withdrawn: list[str] = []

        def operator(
            identity: str = identity, ready: threading.Barrier = ready, withdrawn: list[str] = withdrawn
        ) -> None:
            ready.wait()
            try:
                withdrawn.append(withdraw(where, identity).id)
            except SpecError:
                return

        thread = threading.Thread(target=operator)
        thread.start()
        ready.wait()
        control.intake.poll()
        thread.join()
        control.intake.poll()
        done = control.settings.controls.throttle.get("max_rows_per_s") == number
        assert done != bool(withdrawn), "both, or neither"
        assert waiting_commands(where) == []
        won["run" if done else "operator"] += 1
    assert sum(won.values()) == depth(150, 3000)
    assert not [e for e in _events(where, "command.refused") if "withdrew" not in e["message"]]


def _control(where: Directory) -> Control:
    """The control of a run, not started: the test polls."""
    journal = Journal(where.journal("r"), "r")
    return control_of(where, journal, ControlOptions("shop"))


def _events(where: Directory, kind: str) -> list[dict[str, Any]]:
    lines = where.journal("r").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]

"""The commands and signals of a runner, tested without one."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.base import clock
from engine.base.durable import write_atomically
from engine.base.errors import SourceAwayError, SpecError, TableStoppedError
from engine.decode.schema import Table
from engine.journal import Entry, Journal
from engine.journal.events import CommandDone
from engine.ledger.records import Removal
from engine.ledger.state import State, TableState
from engine.pipeline.command_file import send_command
from engine.pipeline.controls import Controls, load_controls, save_controls
from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import read_runner
from engine.pipeline.runner_record import RunnerRecord
from engine.plan.coverage import Coverage
from engine.run.commands.control import Control, ControlOptions, control_of
from engine.run.commands.operator_settings import OperatorSettings
from engine.run.commands.resumption import Resumption
from engine.run.tables.first_epoch import check_tables
from engine.run.tables.membership_commands import MembershipCommand
from engine.run.tables.table_commands import IN_TURN, parsers, to_add
from engine.source.catalog import BY_GLOBS, Membership
from engine.source.positions import Position
from engine.spec.settings import parse
from engine.spec.throttle_settings import Throttle
from engine.spec.throttle_settings import end_of_throttle as end_of


def shown(folder: Path) -> RunnerRecord:
    """What `runner.json` says of the runner."""
    return read_runner(Directory(folder)) or RunnerRecord("")


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A started control; one command was sent before its start, and the inbox contains a folder."""
    monkeypatch.setattr("engine.run.commands.control_thread._INBOX_S", 0.01)
    directory = Directory(tmp_path)
    send_command(directory, "stop", reason="for the run before")
    (directory.inbox / "folder.json").mkdir()
    time.sleep(0.01)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    journal = Journal(directory.journal("r"), "r")
    options = ControlOptions("shop", parsers=parsers(directory.journals), in_turn=IN_TURN)
    made = control_of(directory, journal, options)
    made.thread.start()
    made.state.apply("started")
    yield made
    made.thread.finish(None)
    journal.close()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _events(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = (folder / "journal" / "r.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def _answers(folder: Path, identity: str) -> list[dict[str, Any]]:
    return [e for kind in ("done", "refused") for e in _events(folder, f"command.{kind}") if e["id"] == identity]


def waiting_change(control: Control) -> MembershipCommand | None:
    """The accepted membership change that is still to be executed."""
    return next(iter(control.tables.accepted(MembershipCommand)), None)


def _wait(found: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 5
    while not found() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found()


def test_a_stop_for_the_lost_run_stops_its_restart(tmp_path: Path) -> None:
    """It was sent while the watchdog had launched this run, and no heartbeat showed it yet.

    A pause is for that run only.
    """
    directory = Directory(tmp_path)
    write_atomically(directory.runner, json.dumps({"run": "lost"}))
    for verb in ("pause", "stop"):
        send_command(directory, verb, actor="ada")
    journal = Journal(directory.journal("r"), "r")
    made = control_of(directory, journal, ControlOptions("shop", restarted={"lost"}))
    made.intake.poll()
    assert made.state.stopping
    made.states.done("stop")
    assert [e["verb"] for e in _events(tmp_path, "command.refused")] == ["pause"]
    assert [e["verb"] for e in _events(tmp_path, "command.done")] == ["stop"]
    journal.close()


def test_a_command_for_an_earlier_run_is_refused(control: Control, tmp_path: Path) -> None:
    """An old stop does not end the next run; a folder in the inbox does not end the heartbeat."""
    _wait(lambda: _events(tmp_path, "command.refused"))
    message = "It was sent before this run began: no run was there."
    assert _events(tmp_path, "command.refused")[0]["message"] == message
    assert control.state.name == "running"
    send_command(Directory(tmp_path), "pause", reason="now")
    _wait(lambda: shown(tmp_path).state == "paused")
    runner = read_runner(Directory(tmp_path))
    assert runner is not None
    assert runner.alive
    assert runner.reason.endswith(": now"), "whoever looks shall know who paused it, and why"
    assert control.state.paused


def test_a_signal_becomes_a_stop(control: Control, tmp_path: Path) -> None:
    """The handler only sets a flag; the control thread writes the stop."""
    os.kill(os.getpid(), signal.SIGTERM)
    _wait(lambda: control.state.stopping)
    assert _events(tmp_path, "run.state")[-1]["reason"] == "signal SIGTERM"


def test_a_second_signal_ends_the_process_and_says_so(
    control: Control, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the run would be shown as lost, with an alert."""
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
        _wait(lambda: control.state.stopping or codes)
    _wait(lambda: codes)
    assert codes[0] == 128 + signal.SIGINT
    assert shown(tmp_path).state == "ended"
    (ended,) = _events(tmp_path, "run.ended")
    assert (ended["outcome"], ended["exit_code"]) == ("stopped", 130)
    _wait(lambda: len(codes) == 2)  # the limit for what takes too long
    control.state.name = "stopping"


def test_a_command_that_was_carried_out_is_not_carried_out_again(control: Control, tmp_path: Path) -> None:
    """The same file under an answered id is refused and kept for inspection."""
    directory = Directory(tmp_path)
    identity = send_command(directory, "pause", reason="once")
    _wait(lambda: control.state.paused)
    assert (directory.inbox / f"{identity}.json").exists(), "the next run refuses what was not done"
    control.states.done("pause")
    send_command(directory, "resume")
    _wait(lambda: not control.state.paused)
    kept = directory.inbox / "done" / f"{identity}.json"
    write_atomically(directory.inbox / "another_name.json", kept.read_text())
    _wait((directory.inbox / "refused" / f"{identity}.json").exists)
    _wait(lambda: _events(tmp_path, "command.refused")[-1]["message"] == "It was carried out already.")
    assert control.state.name == "running"


def test_what_operators_set_outlives_the_runner(control: Control, tmp_path: Path) -> None:
    """Table pauses and limits are stored; invalid ones are refused; a reset returns to the spec."""
    directory = Directory(tmp_path)
    control.tables.begin(lambda: State(0, "", "", {}, 0, dict.fromkeys(("d.a", "d.b"))))  # type: ignore[arg-type]
    paces = list[Throttle]()
    control.settings.changed = paces.append

    def send(verb: str, **arguments: Any) -> dict[str, Any]:
        identity = send_command(directory, verb, arguments=arguments, pipeline=arguments.pop("pipeline", ""))
        answers = partial(_answers, tmp_path, identity)
        _wait(answers)
        return answers()[0]

    assert send("pause", tables=["d.a"])["event"] == "command.done"
    assert send("pause", snapshot=True)["event"] == "command.done"
    assert send("throttle", max_rows_per_s=5, readers=3)["event"] == "command.done"
    kept = load_controls(directory)
    assert (kept.tables, kept.snapshot, kept.throttle) == (("d.a",), True, {"max_rows_per_s": 5, "readers": 3})
    assert paces[-1].readers == 3
    assert control.settings.pauses("d.b")
    assert send("resume", snapshot=True)["event"] == "command.done"
    assert not control.settings.pauses("d.b")
    assert control.settings.pauses("d.a")
    assert "no table d.c" in send("pause", tables=["d.c"])["message"]
    assert "No such throttle" in send("throttle", max_rows=5)["message"]
    assert "does not say what" in send("resume", tables=[])["message"]
    assert "another" in send("throttle", readers=1, pipeline="another")["message"]
    assert send("throttle", reset=True)["event"] == "command.done"
    assert load_controls(directory).throttle == {}
    assert paces[-1].readers == 0


def test_a_throttle_for_some_time_ends_by_itself(tmp_path: Path) -> None:
    """Then the settings before it are in force, also if it was extended; one without an end keeps what is set."""
    lasting = Controls().throttled({"max_rows_per_s": 9, "readers": 2})
    now = clock.utc_now()
    hour = lasting.throttled({"max_rows_per_s": 5}, end_of("1h", now))
    longer = hour.throttled({"readers": 1}, end_of("2h", now))
    assert longer.throttle == {"max_rows_per_s": 5, "readers": 1}
    assert longer.at(end_of("90m", now)) is longer
    assert longer.at(end_of("2h", now)) == lasting
    assert longer.throttled({"readers": 3}) == Controls(throttle={"max_rows_per_s": 5, "readers": 3})
    assert longer.unthrottled() == Controls()
    assert "until" not in lasting.as_dict(), "as before"
    for period in ("soon", "", 3, "99999999999d"):
        with pytest.raises(SpecError, match="No such time"):
            end_of(period, now)
    save_controls(Directory(tmp_path), longer)
    assert load_controls(Directory(tmp_path)) == longer


def test_a_runner_ends_a_throttle_in_time(control: Control, tmp_path: Path) -> None:
    """Also one that began before the runner; it is journaled and saved."""
    paces = list[Throttle]()
    control.settings.changed = paces.append
    identity = send_command(Directory(tmp_path), "throttle", arguments={"readers": 3, "for": "0.5s"})
    _wait(partial(_answers, tmp_path, identity))
    assert paces[0].readers == 3
    _wait(lambda: len(paces) > 1)
    assert paces[1].readers == 0
    assert load_controls(Directory(tmp_path)) == Controls()
    identity = send_command(Directory(tmp_path), "throttle", arguments={"readers": 3, "for": "x"})
    _wait(partial(_answers, tmp_path, identity))
    assert "No such time" in _answers(tmp_path, identity)[0]["message"]


def test_commands_about_which_tables_there_are_come_in_turn(control: Control, tmp_path: Path) -> None:
    """Each is checked against the result of the one before; what contradicts the ledger is refused at once."""
    directory = Directory(tmp_path)
    add, remove = (partial(send_command, directory, verb) for verb in ("add-table", "remove-table"))
    first = remove(arguments={"tables": ["d.a"]})
    time.sleep(0.02)
    second = add(arguments={"tables": ["d.a"]})
    assert to_add(control.intake.waiting()) == {"d.a"}
    table = TableState({}, {}, Coverage())
    state = State(0, "", "", Position("b.000001", 4), 0, {"d.a": table, "d.b": table})
    control.tables.begin(lambda: state)
    _wait(lambda: waiting_change(control) is not None)
    time.sleep(0.5)
    change = waiting_change(control)
    assert change is not None
    assert (change.identity, change.adds, change.drop) == (first, False, False)
    state = replace(state, tables={"d.b": table}, removed={"d.a": replace(table, removed=Removal(first, drop=False))})
    control.tables.carried_out(change, {})
    _wait(lambda: (asked := waiting_change(control)) is not None and asked.identity == second)
    change = waiting_change(control)
    assert change is not None
    control.tables.refused(change, SpecError("no"))
    for verb, tables, why in (
        (add, ["d.b"], "has d.b already"),
        (add, [], "does not say"),
        (remove, ["d.a"], "removed already"),
        (remove, ["d.b"], "No table would be left"),
        (remove, ["d.c"], "no table d.c"),
    ):
        answers = partial(_answers, tmp_path, verb(arguments={"tables": tables}))
        _wait(answers)
        assert why in answers()[0]["message"]
    assert [e["id"] for e in _events(tmp_path, "command.accepted")] == [first, second]


def test_a_command_that_the_ledger_has_is_done_and_not_refused(control: Control, tmp_path: Path) -> None:
    """The runner was killed between commit and answer; a pending deletion is still executed."""
    directory = Directory(tmp_path)
    table, states = TableState({}, {}, Coverage()), list[State]()

    def committed() -> State:
        _wait(lambda: states)
        return states[0]

    for verb in ("add-table", "remove-table"):
        states.clear()
        control.tables.begin(committed)
        identity = send_command(directory, verb, arguments={"tables": ["d.a"], "drop": True})
        gone = replace(table, removed=Removal(identity, drop=True))
        joined = {"d.a": replace(table, by=identity)} if verb == "add-table" else {}
        state = State(0, "", "", Position("b.000001", 4), 0, joined, removed={} if joined else {"d.a": gone})
        states.append(state)
        _wait(lambda: waiting_change(control) is not None)
        change = waiting_change(control)
        assert change is not None
        assert change.begun(state)
        assert change.done(state) == bool(joined)
        control.tables.carried_out(change, {})


def test_a_start_with_tables_that_nobody_wants_is_refused() -> None:
    """If the setting says so; a pending command or the default lets them join."""
    text = (
        'name = "shop"\nsource = {{ host = "h", user = "u", tables = ["d.*"], new_tables = "{}" }}\n'
        'sink = {{ path = "lake" }}'
    )
    new = [Table("d", "new", (), ())]
    refuse, add, ignore = (parse(text.format(word), Path("/shop.toml")) for word in ("refuse", "add", "ignore"))
    assert parse(text.replace(', new_tables = "{}"', "").format(), Path("/shop.toml")).source.new_tables == "add"
    state = State(0, "", "", Position("b.000001", 4), 0)
    with pytest.raises(SpecError, match=r"d\.new") as raised:
        check_tables(refuse, state, new, ())
    assert "add-table SPEC --table d.new" in raised.value.hint
    check_tables(refuse, state, new, ("d.new",))
    check_tables(add, state, new, ())
    check_tables(ignore, state, new, ())


def test_who_is_a_member() -> None:
    """An added table stays whatever the globs say; a removed one does not return through them."""
    tables = [("d", name) for name in ("a", "b", "c")]
    members = Membership(also=frozenset({("d", "c")}), without=frozenset({("d", "a")}))
    assert members.chosen(["d.a", "d.b"], tables) == [("d", "b"), ("d", "c")]
    assert BY_GLOBS.chosen(["d.*", "!d.b"], tables) == [("d", "a"), ("d", "c")]


def test_a_command_is_not_taken_again_while_it_is_answered(control: Control, tmp_path: Path) -> None:
    """Its file stays in the inbox until the journal has the answer, and is not taken for a new command meanwhile."""
    table = TableState({}, {}, Coverage())
    state = State(0, "", "", Position("b.000001", 4), 0, {"d.a": table, "d.b": table})
    control.tables.begin(lambda: state)
    identity = send_command(Directory(tmp_path), "remove-table", arguments={"tables": ["d.a"]})
    _wait(lambda: waiting_change(control) is not None)
    change = waiting_change(control)
    assert change is not None
    poll = threading.Thread(target=control.intake.poll)

    def on_done(entry: Entry) -> None:
        if isinstance(entry.event, CommandDone):
            poll.start()
            poll.join(0.5)

    control.thread._journal.listeners.append(on_done)
    control.tables.carried_out(change, {})
    poll.join()
    assert [e["id"] for e in _events(tmp_path, "command.accepted")] == [identity]
    assert not control.tables.pending


@pytest.mark.parametrize("step_s", [-7200.0, 7200.0], ids=["back", "forth"])
@pytest.mark.parametrize("verb", ["stop", "pause"])
def test_a_clock_that_is_set_decides_nothing(
    control: Control, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_s: float, verb: str
) -> None:
    """A command is for the run that its sender saw, whatever the clocks say; the runner stays alive."""
    _wait(lambda: len(_events(tmp_path, "command.refused")) == 2)
    real = clock.utc_now
    monkeypatch.setattr(clock, "utc_now", lambda: real() + timedelta(seconds=step_s))
    directory = Directory(tmp_path)
    found = read_runner(directory)
    assert found is not None
    assert found.alive
    assert 0 <= (found.heartbeat_age_s or 0) < 5
    send_command(directory, verb)
    _wait(lambda: control.state.paused or control.state.stopping)
    assert len(_events(tmp_path, "command.refused")) == 2
    times = [event["ts"] for event in map(json.loads, (tmp_path / "journal" / "r.jsonl").read_text().splitlines())]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("fields", "taken"),
    [
        ({}, True),
        ({"run": "r"}, True),
        ({"run": "another"}, False),
        ({"run": None}, False),
        ({"sent": "1970-01-01T00:00:00.000000Z"}, True),
        ({"sent": "2999-01-01T00:00:00.000000Z", "run": "another"}, False),
    ],
)
def test_the_run_that_was_meant_decides(
    control: Control, tmp_path: Path, fields: dict[str, Any], *, taken: bool
) -> None:
    """A command without a run, from an earlier version or written by hand, is for the current run."""
    _wait(lambda: len(_events(tmp_path, "command.refused")) == 2)
    command = {"id": "by-hand", "verb": "pause", **fields}
    write_atomically(tmp_path / "inbox" / "by-hand.json", json.dumps(command))
    _wait(lambda: control.state.paused or len(_events(tmp_path, "command.refused")) == 3)
    assert control.state.paused is taken


def test_what_lay_in_the_inbox_without_a_run_is_older(tmp_path: Path) -> None:
    """Even if its times are in the future; a file written later under the same name is another command."""
    directory, journal = Directory(tmp_path), Journal(tmp_path / "journal" / "r.jsonl", "r")
    directory.inbox.mkdir()
    path = directory.inbox / "c.json"
    path.write_text(json.dumps({"id": "old", "verb": "pause", "sent": "2999-01-01T00:00:00.000000Z"}))
    os.utime(path, (2**32, 2**32))
    made = control_of(directory, journal)
    made.thread.start()
    try:
        made.state.apply("started")
        _wait(lambda: _answers(tmp_path, "old"))
        assert not made.state.paused
        write_atomically(path, json.dumps({"id": "new", "verb": "pause"}))
        _wait(lambda: made.state.paused)
    finally:
        made.thread.finish(None)


def test_commands_are_taken_in_the_order_in_which_they_were_sent(tmp_path: Path) -> None:
    """By their counter, even if file times run backwards."""
    directory, journal = Directory(tmp_path), Journal(tmp_path / "journal" / "r.jsonl", "r")
    sent = [send_command(directory, "throttle", arguments={"readers": n}) for n in range(1, 7)]
    for n, identity in enumerate(sent):
        os.utime(directory.inbox / f"{identity}.json", (1_000_000 - n, 1_000_000 - n))
    control = control_of(directory, journal)
    control.intake.poll()
    assert [event["id"] for event in _events(tmp_path, "command.accepted")] == sent
    assert control.settings.controls.throttle == {"readers": 6}
    journal.close()


def test_a_resume_tries_an_unreachable_source_at_once(control: Control, tmp_path: Path) -> None:
    """The outage is in `runner.json` at once, not with the next heartbeat."""
    tries: list[bool] = []
    tracker = control.away
    tracker.try_now = lambda: tries.append(True)  # type: ignore[method-assign]
    refused = send_command(Directory(tmp_path), "resume")
    _wait(lambda: _answers(tmp_path, refused))
    assert _answers(tmp_path, refused)[0]["event"] == "command.refused"
    tracker.failed("epochs", SourceAwayError("Connecting failed."))
    _wait(lambda: shown(tmp_path).away)
    sent = send_command(Directory(tmp_path), "resume")
    _wait(lambda: _answers(tmp_path, sent))
    assert [e["event"] for e in _answers(tmp_path, sent)] == ["command.done"]
    assert tries == [True]
    assert control.state.name == "running"
    tracker.back("epochs")
    _wait(lambda: not shown(tmp_path).away)


def test_a_resume_of_a_stopped_table_waits_for_the_ledger(control: Control, tmp_path: Path) -> None:
    """Its file stays in the inbox; tables that a resume does not resnapshot are answered at once."""
    stopped = TableState({}, {}, Coverage(), stopped=TableStoppedError("no").to_record())
    control.tables.begin(
        lambda: State(0, "", "", Position("b.000001", 4), 0, {"d.a": stopped, "d.b": replace(stopped, stopped=None)})
    )
    directory = Directory(tmp_path)
    other = send_command(directory, "resume", arguments={"tables": ["d.b"]})
    _wait(partial(_answers, tmp_path, other))
    identity = send_command(directory, "resume", arguments={"tables": ["d.a", "d.b"]})
    _wait(lambda: control.tables.accepted(Resumption))
    (asked,) = control.tables.accepted(Resumption)
    assert asked.tables == ("d.a",)
    assert control.tables.pending
    control.states.answer_lifted()
    assert asked.path.exists()
    control.tables.carried_out(asked, {})
    assert [one["event"] for one in _answers(tmp_path, identity)] == ["command.done"]
    assert not asked.path.exists()


def test_the_pause_of_a_sink_that_has_left_is_forgotten(tmp_path: Path) -> None:
    """A later one of its name is another one."""
    directory = Directory(tmp_path)
    save_controls(directory, Controls(sinks=("gone", "reports")))
    with closing(Journal(directory.journal("r"), "r")) as journal:
        settings = OperatorSettings(directory, journal, nullcontext(), Throttle(), lambda _: None, ("reports",))
    assert settings.controls.sinks == load_controls(directory).sinks == ("reports",)

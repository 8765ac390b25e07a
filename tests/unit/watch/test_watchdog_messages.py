"""What the watchdog says: to routes that fail, from a full disk, under silences, and when a loss was none."""

import os
from typing import Any

import pytest

from engine import __main__ as _verbs  # noqa: F401 - registers them
from engine.alerting.notifier import Notifier
from engine.alerting.silences import add_silence, end_silence
from engine.base import processes
from engine.base.errors import ErrorRecord
from engine.journal import Journal
from engine.journal.events import RunEnded, RunState, TableStateChanged
from engine.pipeline.saved_lists import read_alerts
from engine.spec.settings import load
from engine.watch import watchdog
from engine.watch.record import read_record
from tests.support.mounts import Small
from tests.support.receiver import Receiver
from tests.unit.watch.homes import BROKEN, ON_FAILURE, SPEC, Home, until


def test_a_webhook_that_fails_gets_the_alert_later(
    home: Home, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost, and nothing is posted twice."""
    monkeypatch.setattr("engine.watch.announcing._RETRY_S", 0.0)
    receiver.answers = [500, 503]
    home.gone()
    dog = home.watchdog()
    until(lambda: receiver.got, dog.look)
    home.close()
    assert len(receiver.got) == 1


def test_a_silenced_loss_is_shown_and_posted_when_the_silence_ends(home: Home, receiver: Receiver) -> None:
    """It stands and is in the journal meanwhile."""
    home.gone()
    made = add_silence(home.where, "1h", "moving house", kind="runner_lost")
    dog = home.watchdog()
    dog.look()
    dog.look()
    assert [(alert.kind, alert.held) for alert in read_alerts(home.where)] == [("runner_lost", True)]
    assert len(home.events()) == 1
    assert receiver.got == []
    end_silence(home.where, made.id)
    until(lambda: receiver.got, dog.look)
    dog.close()
    assert [(one["kind"], one["repeat"]) for one in receiver.got] == [("runner_lost", 0)]


def test_a_message_that_waited_is_posted_while_the_next_run_is_alive(
    home: Home, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only after the next death.

    Its end follows it: the run has announced that before, and the incident would stay open.
    """
    monkeypatch.setattr("engine.watch.announcing._RETRY_S", 0.0)
    receiver.answers = [503] * 10_000
    home.gone()
    dog = home.watchdog()
    until(lambda: read_record(home.where).unposted, dog.look)
    home.runner("r2", "running", pid=os.getpid(), process=processes.here())
    receiver.answers = []
    until(lambda: len(receiver.got) == 2, dog.look)
    assert [(one["event"], one["kind"], one["run"]) for one in receiver.got] == [
        ("alert.raised", "runner_lost", "r1"),
        ("alert.cleared", "runner_lost", "r1"),
    ]
    home.close()
    assert read_record(home.where).unposted == ()


def test_a_message_that_waited_outlasts_the_next_loss(
    home: Home, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are posted, in order."""
    monkeypatch.setattr("engine.watch.announcing._RETRY_S", 0.0)
    receiver.answers = [503] * 10_000
    home.gone()
    dog = home.watchdog()
    until(lambda: read_record(home.where).unposted, dog.look)
    home.gone("r2")
    until(lambda: read_record(home.where).run == "r2", dog.look)
    receiver.answers = []
    until(lambda: len(receiver.got) >= 2, dog.look)
    assert [one["run"] for one in receiver.got] == ["r1", "r2"]


def test_a_route_that_fails_delays_no_other_one(home: Home, receiver: Receiver) -> None:
    """The pause before its next try is its own."""
    home.where.spec.write_text(SPEC.replace("[watch]", f"{BROKEN}[watch]"))
    home.elsewhere(age_s=60)
    dog = home.watchdog()
    until(lambda: receiver.got, dog.look)
    home.elsewhere()
    until(lambda: len(receiver.got) == 2, dog.look)
    assert [one["event"] for one in receiver.got] == ["alert.raised", "alert.cleared"]


def test_a_full_disk_repeats_nothing(small: Small, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss is announced and posted once, one runner is launched, and one line names the disk."""
    home = Home(small.folder, monkeypatch)
    home.spec(ON_FAILURE)
    home.gone()
    small.fill()
    dog = home.watchdog()
    try:
        until(lambda: receiver.got and home.launched, dog.look)
        for _ in range(5):
            dog.look()
        assert len(home.launched) == 1
        assert [line.partition(" ")[0] for line in home.said] == ["shop:"] * 3
        assert sum("no heartbeat" in line for line in home.said) == 1
        assert sum("No space left" in line for line in home.said) == 1
        small.free()
        dog.look()
        assert [one.pid for one in read_record(home.where).restarts] == [home.launched[0].pid]
    finally:
        home.close()
    assert len(receiver.got) == 1


def test_what_a_start_that_is_killed_took_over_is_cleared_by_a_later_run(home: Home) -> None:
    """`not_restarted` is about a run that the watchdog has no record of by then."""
    home.spec(f"{ON_FAILURE}max_restarts_per_hour = 1\n")
    home.gone()
    home.program = ["sh", "-c", "exit 1"]
    dog = home.watchdog()
    until(lambda: len(read_alerts(home.where)) == 2, dog.look)
    spec = load(home.where.spec)
    journal = Journal(home.where.journal("r2"), "r2")
    Notifier(spec, home.where, journal, stderr=False)
    journal.close()
    home.gone("r2", "starting")
    dog.look()
    assert sorted(one.kind for one in read_alerts(home.where)) == ["not_restarted", "runner_lost"]
    journal = Journal(home.where.journal("r3"), "r3")
    Notifier(spec, home.where, journal, stderr=False)
    home.runner("r3", "starting", pid=os.getpid(), process=processes.here())
    journal.write(RunState(state="running"))
    journal.close()
    cleared = [event["kind"] for event in home.events("r3") if event["event"] == "alert.cleared"]
    assert sorted(cleared) == ["not_restarted", "runner_lost"]
    assert read_alerts(home.where) == []


@pytest.mark.parametrize(
    ("state", "more", "message"),
    [
        ("running", {}, "The runner is alive: its heartbeat is back."),
        ("ended", {}, "The run was not lost: it has ended by itself."),
        ("ended", {"error": {"error": "SpecError", "message": "No."}}, "The run was not lost: it has ended by itself."),
    ],
)
def test_a_loss_that_was_none_is_cleared(
    home: Home, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, state: str, more: dict[str, Any], message: str
) -> None:
    """A heartbeat from another host stalled and came back. No run need begin for that, and a later stall is news."""
    monkeypatch.setattr(watchdog, "_SURE_S", 0.0)
    home.elsewhere(age_s=60)
    dog = home.watchdog()
    until(lambda: receiver.got, dog.look)
    assert [alert.kind for alert in read_alerts(home.where)] == ["runner_lost"]
    home.elsewhere(state=state, **more)
    until(lambda: len(receiver.got) == 2, dog.look)
    for _ in range(3):
        dog.look()
    raised, cleared = receiver.got
    assert (cleared["event"], cleared["kind"], cleared["message"]) == ("alert.cleared", "runner_lost", message)
    assert cleared["since"] == raised["since"]
    assert read_alerts(home.where) == []
    assert home.said[1:] == [f"shop: {message}"]
    home.elsewhere("r1", age_s=60)
    until(lambda: len(receiver.got) == 3, dog.look)
    assert receiver.got[-1]["event"] == "alert.raised"


def test_the_end_of_a_loss_that_a_silence_held_back_is_not_sent(
    home: Home, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No route knows of the loss."""
    monkeypatch.setattr(watchdog, "_SURE_S", 0.0)
    home.elsewhere(age_s=60)
    add_silence(home.where, "1h", "moving house", kind="runner_lost")
    dog = home.watchdog()
    until(lambda: read_alerts(home.where), dog.look)
    home.elsewhere()
    until(lambda: not read_alerts(home.where), dog.look)
    home.close()
    assert receiver.got == []


@pytest.mark.parametrize("damage", ["{", "[1]", '[{"held": true}]', '{"format": 99, "alerts": []}'])
def test_damaged_alerts_of_a_run_keep_no_runner_down(home: Home, damage: str) -> None:
    """It is announced and started again."""
    home.spec(ON_FAILURE)
    home.gone()
    home.where.alerts.write_text(damage)
    dog = home.watchdog()
    until(lambda: home.launched, dog.look)
    assert len(home.launched) == 1


@pytest.mark.parametrize("error", [None, ErrorRecord("SpecError", "No spec.")])
def test_what_a_run_left_under_a_silence_is_sent_at_its_end(
    home: Home, receiver: Receiver, error: ErrorRecord | None
) -> None:
    """No runner is alive that could. The next run knows that routes have it, and sends its end."""
    home.spec()
    made = add_silence(home.where, "1h", "moving house")
    journal = Journal(home.where.journal("r1"), "r1")
    notifier = Notifier(load(home.where.spec), home.where, journal, stderr=False)
    journal.write(TableStateChanged(table="s.t", state="stopped", reason="no date"))
    if error:
        journal.write(RunEnded(outcome="failed", exit_code=2, error=error))
    notifier.close()
    journal.close()
    home.gone(state="ended", error=error.to_json() if error else None)
    dog = home.watchdog()
    for _ in range(3):
        dog.look()
    assert receiver.got == []
    end_silence(home.where, made.id)
    kinds = ["run_failed", "table_stopped"] if error else ["table_stopped"]
    until(lambda: len(receiver.got) == len(kinds), dog.look)
    for _ in range(3):
        dog.look()
    home.close()
    assert sorted((one["event"], one["kind"]) for one in receiver.got) == [("alert.raised", kind) for kind in kinds]
    assert {alert.held for alert in read_alerts(home.where)} == {False}

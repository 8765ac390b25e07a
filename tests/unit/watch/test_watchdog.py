"""The watchdog on the files of runners that are gone. Its runners are programs that end at once, or live on."""

import errno
import json
import os
import re
import threading

import pytest
from typer.testing import CliRunner

from engine import __main__ as _verbs  # noqa: F401 - registers them
from engine.alerting.alerts import ActiveAlerts
from engine.base import clock
from engine.cli.command import app
from engine.journal import Entry, Journal, entry_from
from engine.journal.alert_events import AlertCleared
from engine.journal.events import RunState
from engine.pipeline.command_file import send_command
from engine.pipeline.frozen_runner import GONE_HINT
from engine.pipeline.remote_state.place import note_state
from engine.pipeline.saved_lists import read_alerts
from engine.spec.alert_settings import Alerts as Settings
from engine.status.status import status
from engine.watch import watchdog
from engine.watch.record import read_record
from engine.watch.stop_requests import runs_restarted_by
from engine.watch.watchdog import Watchdog
from tests.support.receiver import Receiver
from tests.unit.watch.homes import ON_FAILURE, Home, until


def test_a_lost_runner_is_announced_once_by_two_watchdogs(home: Home, receiver: Receiver) -> None:
    """In the journal of its run, in the list of alerts, and through the webhook. Nothing is restarted by default."""
    home.gone()
    one, other = home.watchdog(), home.watchdog()

    def look() -> None:
        one.look()
        other.look()

    until(lambda: receiver.got, look)
    for _ in range(3):
        one.look()
        other.look()
    (posted,) = receiver.got
    assert (posted["event"], posted["kind"], posted["run"], posted["pipeline"]) == (
        "alert.raised",
        "runner_lost",
        "r1",
        "shop",
    )
    (line,) = home.events()
    assert (line["event"], line["kind"], line["seq"]) == ("alert.raised", "runner_lost", 2)
    (alert,) = read_alerts(home.where)
    assert (alert.kind, alert.hint) == ("runner_lost", GONE_HINT)
    assert alert.message.endswith("is gone.")
    assert status(home.where, "shop").watch is None
    assert home.launched == []
    assert len(home.said) == 1


def test_the_next_run_clears_the_alert(home: Home) -> None:
    """It belongs to the run that was lost: the next one knows it at its start, and a later reader does not see it."""
    home.gone()
    home.watchdog().look()
    alerts = ActiveAlerts(Settings(), read_alerts(home.where))
    (notice,) = alerts.hear(Entry("r2", 5, clock.utc_text(), RunState(state="running")))
    assert (notice[0], notice[1].name) == (AlertCleared, ("runner_lost", None))
    home.gone("r2", "ended")
    assert read_alerts(home.where) == []


def test_a_runner_that_cannot_be_launched_is_tried_again_after_a_pause(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not each second: there may be no room for its log."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runner.log")

    monkeypatch.setattr(watchdog, "launch", full)
    home.spec(ON_FAILURE)
    home.gone()
    dog = home.watchdog()
    for _ in range(5):
        dog.look()
    assert [line for line in home.said if "launched" in line] == [
        "shop: could not be launched: No space left on device"
    ]
    assert len(read_record(home.where).restarts) == 1


def test_watchdogs_that_look_at_once_start_one_runner(home: Home) -> None:
    """However many there are."""
    home.spec(ON_FAILURE)
    home.gone(until="caught-up")
    home.program = ["sh", "-c", "sleep 600"]
    dogs = [home.watchdog() for _ in range(8)]

    def look(dog: Watchdog) -> None:
        for _ in range(20):
            dog.look()

    threads = [threading.Thread(target=look, args=(dog,)) for dog in dogs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (process,) = home.launched
    assert process.args == ["sh", "-c", "sleep 600", "caught-up"]  # it has the goal of the run before
    restarted = [event for event in home.events() if event["event"] == "watch.restarted"]
    assert [(event["restart"], event["most"], event["pid"]) for event in restarted] == [(1, 6, process.pid)]
    assert entry_from(restarted[0]) is not None


def test_a_runner_that_somebody_stopped_stays_down(home: Home) -> None:
    """Also if it failed to end well, or was killed before it had ended. Then only the loss is announced."""
    home.spec(ON_FAILURE)
    error = {
        "error": "TidemarkError",
        "message": "The run was stopped before it was caught-up.",
        "detail": "",
        "hint": "",
    }
    for run, state, more in (("r1", "ended", {"stop": True, "error": error}), ("r2", "stopping", {"stop": True})):
        home.gone(run, state, **more)
        dog = home.watchdog()
        for _ in range(3):
            dog.look()
        assert home.launched == []
    assert [event["event"] for event in home.events("r1")] == []
    assert [event.get("kind") for event in home.events("r2")] == ["runner_lost"]


def _answers(home: Home, run: str = "r1") -> list[tuple[str, str]]:
    return [(event["event"], event["id"]) for event in home.events(run) if event["event"].startswith("command.")]


def test_a_stop_that_nobody_took_keeps_a_killed_runner_down(home: Home) -> None:
    """The runner was killed before it looked into its inbox.

    The command is answered, and the status says who stopped it.
    """
    home.spec(ON_FAILURE)
    home.gone()
    identity = send_command(home.where, "stop", reason="moving house", actor="ada")
    dog = home.watchdog()
    for _ in range(3):
        dog.look()
    assert home.launched == []
    assert _answers(home) == [("command.accepted", identity), ("command.done", identity)]
    assert list(home.where.inbox.glob("*.json")) == []
    watch = status(home.where, "shop").watch
    assert watch is not None
    assert (watch.due, (watch.down or "")[:20]) == (None, "ada asked it to stop")
    assert (watch.down or "").endswith(": moving house")
    assert [event["event"] for event in home.events()].count("watch.stays_down") == 1
    home.gone("r2")  # somebody started it since, and it was lost
    until(lambda: home.launched, dog.look)


def test_a_restart_that_is_due_can_be_cancelled(home: Home) -> None:
    """By `tidemark stop`, also while no watchdog looks: the status says so at once."""
    home.spec('restart = "on-failure"\nfirst_delay_s = 3600\nlongest_delay_s = 3600\n')
    home.gone(state="ended", error={"error": "SparkLostError", "message": "No Spark.", "detail": "", "hint": ""})
    dog = home.watchdog()
    dog.look()
    watch = status(home.where, "shop").watch
    assert watch is not None
    assert watch.due
    stopped = CliRunner().invoke(app, ["stop", str(home.where.spec), "--json"])
    assert stopped.exit_code == 0, stopped.output
    answer = json.loads(stopped.output)
    assert (answer["cancels_restart"], answer["waits_for_a_runner"]) == (True, False)
    watch = status(home.where, "shop").watch
    assert watch is not None
    assert (watch.due, "asked it to stop" in (watch.down or "")) == (None, True)
    dog.look()
    assert _answers(home) == [("command.accepted", answer["id"]), ("command.done", answer["id"])]
    assert read_record(home.where).due == ""
    assert status(home.where, "shop").watch == watch
    again = CliRunner().invoke(app, ["stop", str(home.where.spec)])
    assert again.exit_code == 2, "nothing is left to cancel"


def test_a_stop_while_a_restart_begins_is_left_to_the_new_run(home: Home) -> None:
    """It obeys it. If it ends before it could, the watchdog does."""
    home.spec(ON_FAILURE)
    home.gone()
    dog = home.watchdog()
    until(lambda: home.launched, dog.look)
    send_command(home.where, "stop", actor="ada")
    for _ in range(3):
        dog.look()
    assert len(list(home.where.inbox.glob("*.json"))) == 1
    home.launched[0].kill()
    until(lambda: read_record(home.where).down, dog.look)
    assert len(home.launched) == 1
    assert list(home.where.inbox.glob("*.json")) == []


def test_a_stop_for_the_run_before_is_for_its_restarts_too(home: Home) -> None:
    """The restarted run was lost before it took it. A stop for a run of another day is not."""
    home.spec(ON_FAILURE)
    home.gone()
    dog = home.watchdog()
    until(lambda: home.launched, dog.look)
    send_command(home.where, "stop", actor="ada")
    home.gone("r2")
    until(lambda: read_record(home.where).down, dog.look)
    assert len(home.launched) == 1
    assert runs_restarted_by(home.where) == frozenset(), "no watchdog has launched this process"


@pytest.mark.parametrize(("error", "why"), [("LoginRefusedError", "exit code 3"), ("PipelineHeldError", "exit code 5")])
def test_a_run_that_needs_an_operator_stays_down(home: Home, error: str, why: str) -> None:
    """The journal and the status say why."""
    home.spec(ON_FAILURE)
    home.gone(state="ended", error={"error": error, "message": "No.", "detail": "", "hint": ""})
    dog = home.watchdog()
    for _ in range(3):
        dog.look()
    assert home.launched == []
    (line,) = home.events()
    assert line["event"] == "watch.stays_down"
    watch = status(home.where, "shop").watch
    assert watch is not None
    assert why in (watch.down or "")


def test_a_runner_that_always_fails_stays_down_at_the_limit(home: Home, receiver: Receiver) -> None:
    """And an alert says so, once."""
    home.spec(f"{ON_FAILURE}max_restarts_per_hour = 3\n")
    home.gone(state="ended", error={"error": "SparkLostError", "message": "No Spark.", "detail": "", "hint": ""})
    home.program = ["sh", "-c", "exit 1"]
    dog = home.watchdog()
    until(lambda: receiver.got, dog.look)
    for _ in range(3):
        dog.look()
    assert len(home.launched) == 3
    (posted,) = receiver.got
    assert posted["kind"] == "not_restarted"
    assert "it was restarted 3 times within an hour" in posted["message"]
    kinds = [event["event"] for event in home.events()]
    assert kinds == ["watch.restarted"] * 3 + ["watch.stays_down", "alert.raised"]


def test_a_spec_that_is_refused_ends_the_restarts_at_once(home: Home) -> None:
    """The runner that was launched has ended with exit code 2 before its first heartbeat."""
    home.spec(ON_FAILURE)
    home.gone()
    home.program = ["sh", "-c", "exit 2"]
    dog = home.watchdog()
    until(lambda: any("not restarted" in line for line in home.said), dog.look)
    assert len(home.launched) == 1
    assert "exit code 2" in home.said[-2]


def test_restarts_wait_for_their_pause(home: Home) -> None:
    """The status says until when. A standby runner makes them needless."""
    home.spec('restart = "on-failure"\nfirst_delay_s = 3600\nlongest_delay_s = 3600\n')
    home.gone()
    dog = home.watchdog()
    dog.look()
    watch = status(home.where, "shop").watch
    assert watch is not None
    assert (watch.due or "") > clock.utc_text()
    dog.look()
    assert home.launched == []


def test_a_damaged_pipeline_is_reported_once(home: Home) -> None:
    """And hides no other one."""
    home.gone()
    home.where.spec.write_text("no spec")
    (home.folder / "another").mkdir()
    (home.folder / "another" / "pipeline.toml").write_text("no spec either")
    dog = home.watchdog()
    for _ in range(3):
        dog.look()
    assert len(home.said) == 1
    assert "shop: cannot be watched" in home.said[0]


def test_the_afterword_goes_on_after_a_torn_line(home: Home) -> None:
    """A killed runner may have left half a line."""
    home.gone()
    with home.where.journal("r1").open("a") as file:
        file.write('{"run": "r1", "seq": 2, "ts": "20')
    home.watchdog().look()
    last = home.where.journal("r1").read_text().splitlines()[-1]
    assert json.loads(last)["seq"] == 2
    journal = Journal(home.where.journal("r9"), "r9")
    assert journal.write(RunState(state="running")).seq == 1


def test_a_watchdog_that_is_not_responsible_leaves_the_decision_to_another(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ran on another host, whose own watchdog restarts it when the pause is over."""
    home.spec('restart = "on-failure"\nfirst_delay_s = 0.1\n')
    home.gone()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("engine.watch.watchdog.socket.gethostname", lambda: "another")
        home.watchdog().look()
    assert read_record(home.where).down == ""
    dog = home.watchdog()
    until(lambda: bool(home.launched), dog.look)


def test_nothing_is_said_of_a_pipeline_whose_copy_is_old(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its state is in a bucket, which this host does not reach: the runner may be well."""
    home.gone()
    note_state(home.where, "s3://bucket/shop")
    monkeypatch.setattr("engine.pipeline.remote_state.host_pipelines.follow", lambda *_: None)
    home.watchdog().look()
    assert read_alerts(home.where) == []
    note_state(home.where, None)
    home.watchdog().look()
    assert [alert.kind for alert in read_alerts(home.where)] == ["runner_lost"]


def test_a_frozen_runner_is_announced_once_and_never_started_again(home: Home, receiver: Receiver) -> None:
    """By however many watchdogs: it still holds the pipeline. The alert clears with the heartbeat."""
    home.spec(ON_FAILURE)
    with home.frozen() as beat:
        one, other = home.watchdog(), home.watchdog()

        def look() -> None:
            one.look()
            other.look()

        beat(9.0)
        look()
        assert read_alerts(home.where) == []
        beat(91.0)
        until(lambda: receiver.got, look)
        look()
        (alert,) = read_alerts(home.where)
        assert alert.kind == "runner_frozen"
        assert re.search(r"kill -9 \d+, then restart", alert.hint)
        assert "does not respond: no heartbeat since" in alert.message
        beat(0.0)
        until(lambda: len(receiver.got) > 1, look)
        look()
        assert read_alerts(home.where) == []
        assert [(got["event"], got["kind"]) for got in receiver.got] == [
            ("alert.raised", "runner_frozen"),
            ("alert.cleared", "runner_frozen"),
        ]
        assert home.launched == []
        assert home.events() == [], "the runner writes its journal itself"
        (kept,) = read_record(home.where).resolved
        assert (kept.kind, kept.message) == (alert.kind, alert.message)
        assert kept.cleared > kept.since


def test_a_frozen_runner_that_is_killed_is_lost(home: Home, receiver: Receiver) -> None:
    """It is started again then, and its alert gives way to that of a lost one."""
    home.spec(ON_FAILURE)
    dog = home.watchdog()
    with home.frozen() as beat:
        beat(91.0)
        until(lambda: receiver.got, dog.look)
    until(lambda: home.launched, dog.look)
    until(lambda: len(receiver.got) == 3, dog.look)
    assert [(got["event"], got["kind"]) for got in receiver.got] == [
        ("alert.raised", "runner_frozen"),
        ("alert.cleared", "runner_frozen"),
        ("alert.raised", "runner_lost"),
    ]
    assert [alert.kind for alert in read_alerts(home.where)] == ["runner_lost"]


def test_a_resolved_alert_that_no_journal_has_outlives_its_run(home: Home, receiver: Receiver) -> None:
    """The console lists it. That of a later run follows it."""
    dog = home.watchdog()
    for number, run in enumerate(("r1", "r2"), 1):
        with home.frozen(run) as beat:
            beat(91.0)
            until(lambda: read_alerts(home.where), dog.look)
            beat(0.0)
            until(lambda: not read_alerts(home.where), dog.look)
            assert len(read_record(home.where).resolved) == number
    assert {one.kind for one in read_record(home.where).resolved} == {"runner_frozen"}

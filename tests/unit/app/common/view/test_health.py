"""The three layers of health, with headlines and colours."""

from dataclasses import asdict, replace

import pytest

from app.common.view.health import (
    engine_layer,
    keeping_up_layer,
    layers,
    retention_left_s,
    source_layer,
    stale_since,
)
from app.common.view.runner_view import (
    Away,
    Runner,
    away_line,
    error_of,
    runner_of,
    stands_still,
    startup_line,
    stop_during_start,
)
from app.common.view.status_style import HEX, PIPELINE
from app.common.view.troubles import troubles
from engine.base.clock import utc_text
from engine.base.errors import ErrorRecord, MismatchError
from engine.base.write_causes import WriteCause
from engine.destination.agreement import Comparison
from engine.history.runs import Run
from engine.pipeline.frozen_runner import UnseenRunner
from engine.pipeline.runner_record import RunnerRecord
from engine.pipeline.write_outage import WriteOutage
from engine.source.connect import RESNAPSHOT_ALL
from tests.unit.app.support import AT, NOW, ago, frozen_runner, lag, runner


def run(
    *, ended: bool = False, exit_code: int | None = None, error: str | None = None, outcome: str | None = None
) -> Run:
    """The newest run of a journal."""
    end = ago(10) if ended else None
    return Run(
        "p", "r", ago(60), ago(10), None, "h", 7, "1", end, outcome, exit_code, error, "running", None, None, None
    )


def test_a_lost_position_needs_a_resnapshot() -> None:
    """Only if the run ended with an error that advises it."""
    error = ErrorRecord("X", "It was purged.", hint=f"{RESNAPSHOT_ALL}. Raise the retention.")
    assert runner("failed", alive=False, error=error).needs_resnapshot
    assert not runner("running", error=error).needs_resnapshot
    assert not runner("failed", alive=False, error=replace(error, hint="Check the network.")).needs_resnapshot
    assert not runner("failed", alive=False).needs_resnapshot


def test_tables_that_are_not_those_of_the_ledger_need_a_resnapshot_of_their_own() -> None:
    """As many as the error names; the others need none."""
    with pytest.raises(MismatchError) as raised:
        Comparison(tables={"shop.a": "files are gone", "shop.b": "files are gone"}).require([], resnapshots_all=False)
    found = runner("failed", alive=False, error=raised.value.to_record())
    assert found.to_resnapshot == ("shop.a", "shop.b")
    assert found.needs_resnapshot
    everything = runner("failed", alive=False, error=ErrorRecord("X", "It was purged.", hint=RESNAPSHOT_ALL))
    assert everything.to_resnapshot == ()
    assert runner("running", error=raised.value.to_record()).to_resnapshot == ()


def record(state: str, age: float, *, alive: bool, **more: object) -> RunnerRecord:
    """A result of `read_runner`. more: keys of `runner.json`."""
    beat = {"heartbeat": utc_text(ago(age)), "heartbeat_age_s": age, "alive": alive}
    usual = {"state": state, "phase": "snapshot", "pid": 7, "host": "h", "spark_ui": "http://h:4040", "error": None}
    return RunnerRecord.from_json({**usual, **beat, **more})


@pytest.mark.parametrize(
    ("record_", "run_", "launched", "state"),
    [
        (None, None, None, "new"),
        (None, None, ago(3), "starting"),
        (record("ended", 60, alive=False), run(ended=True, exit_code=0), ago(3), "starting"),
        (record("running", 1, alive=True), run(), ago(3), "running"),
        (record("paused", 1, alive=True), run(), None, "paused"),
        (record("running", 60, alive=False), run(), None, "lost"),
        (None, run(), None, "lost"),
        (None, run(ended=True, exit_code=0), None, "ended"),
        (None, run(ended=True, exit_code=4), None, "failed"),
        (record("ended", 60, alive=False), run(ended=True, exit_code=0), None, "ended"),
        (record("ended", 60, alive=False, error="purged"), None, None, "failed"),
        (record("ended", 60, alive=False), run(ended=True, exit_code=1, outcome="failed"), None, "failed"),
        (record("ended", 60, alive=False), run(ended=True, exit_code=1, outcome="stopped"), None, "ended"),
        (record("dreaming", 1, alive=True), None, None, "running"),
    ],
)
def test_the_state_follows_from_file_journal_and_launch(
    record_: RunnerRecord | None, run_: Run | None, launched: object, state: str
) -> None:
    """`runner.json`, the newest run and a launch by this console together give one state."""
    assert runner_of(record_, run_, launched).state == state  # type: ignore[arg-type]


def test_every_state_has_a_style_and_every_colour_a_hex() -> None:
    """Every state has a label, a letter and a colour."""
    for style in PIPELINE.values():
        assert style.colour in HEX
        assert len(style.letter) == 1
        assert style.meaning


def test_errors_have_three_parts_in_any_format() -> None:
    """The journal has JSON text, `runner.json` an object, and older files a sentence."""
    parts = ErrorRecord(message="m", detail="d")
    assert error_of({"error": "X", "message": "m", "detail": "d"}) == replace(parts, error="X")
    assert error_of('{"message": "m", "detail": "d"}') == parts
    assert error_of("m") == ErrorRecord(message="m")
    assert error_of("{torn") == ErrorRecord(message="{torn")
    assert error_of(None) is None
    assert error_of("") is None


@pytest.mark.parametrize(
    ("lag_s", "before", "headline", "colour"),
    [
        (None, None, "Unknown", "gray"),
        (0.4, None, "Keeping up", "green"),
        (60.0, 90.0, "Catching up", "orange"),
        (90.0, 60.0, "Falling behind", "red"),
    ],
)
def test_keeping_up_is_judged_by_size_and_direction(
    lag_s: float | None, before: float | None, headline: str, colour: str
) -> None:
    """A large lag that shrinks needs no action; one that grows does."""
    layer = keeping_up_layer(runner(), lag(lag_s), [lag(before, age=60)], NOW)
    assert (layer.headline, layer.colour) == (headline, colour)


def test_a_spark_that_does_not_answer_is_named() -> None:
    """The lag does not grow because there is too much to do: nothing is read."""
    silent = {"helper": "Spark", "error": "HelperError", "message": "Spark does not answer", "since": "", "errors": 9}
    newest = record("running", 1, alive=True, helpers=[{**silent, "hint": "kill -CONT 7"}])
    ((what, meaning, do, _),) = troubles(newest)
    assert (what, meaning.partition(".")[0]) == ("Spark does not answer", "Nothing is read until it answers")
    assert do == "kill -CONT 7"
    layer = keeping_up_layer(replace(runner(), silent_spark=True), lag(90.0), [lag(60.0, age=60)], NOW)
    assert (layer.headline, layer.colour) == ("Spark does not answer", "red")


def test_a_run_that_has_just_continued_is_not_falling_behind() -> None:
    """After a full disk, a pause or an outage, the lag grows until the first commit.

    What it was before says nothing.
    """
    grown, earlier = lag(130.0), [lag(60.0, age=70), lag(125.0, age=8)]
    for seconds, headline in ((5, "Catching up"), (59, "Catching up"), (61, "Falling behind")):
        layer = keeping_up_layer(replace(runner(), continued=ago(seconds)), grown, [earlier[1]], NOW)
        assert layer.headline == headline, seconds
    shrinks = keeping_up_layer(replace(runner(), continued=ago(10)), lag(90.0), earlier, NOW)
    assert shrinks.details[1] == "the lag shrinks; nothing to do"
    continued = record("running", 1, alive=True, continued=utc_text(ago(5)))
    assert runner_of(continued, None).continued == ago(5)


def test_the_cards_of_a_healthy_pipeline_have_two_lines() -> None:
    """Four cards stand beside each other at 1280 pixels. The host and the position are in the tooltips."""
    copying = replace(runner(), host="a-long-name.of-a-host.example.com", phase="snapshot", heartbeat_age_s=0.999)
    shown = layers(copying, lag(9.9, 999_900), [], NOW)
    assert all(len(" · ".join(layer.details)) < 36 for layer in shown), shown
    engine, _, source = shown
    assert "a-long-name.of-a-host.example.com, pid" in engine.help
    assert "Committed position: " in source.help


def test_an_idle_source_is_no_lag() -> None:
    """The layer shows that nothing is waiting."""
    assert "nothing is waiting" in keeping_up_layer(runner(), lag(0.0, 0), [], NOW).details


def test_a_paused_pipeline_is_neither_red_nor_green() -> None:
    """An operator paused it on purpose."""
    assert keeping_up_layer(runner("paused"), lag(600), [], NOW).colour == "violet"


@pytest.mark.parametrize(
    ("runway_s", "colour"), [(None, "gray"), (600.0, "red"), (3 * 3600.0, "orange"), (86_400.0, "green")]
)
def test_little_retention_left_is_red(runway_s: float | None, colour: str) -> None:
    """With less than an hour, an operator must act; unknown is not safe."""
    assert source_layer(runner(), lag(1, runway_s=runway_s), NOW).colour == colour


def test_a_position_that_may_be_gone_gets_no_advice_that_is_too_late() -> None:
    """A longer retention does not bring it back. Once a run has ended for that, the light says that it is gone."""
    layer = source_layer(runner("paused"), lag(1, runway_s=0.0), NOW)
    assert (layer.headline, layer.colour) == ("Maybe purged", "red")
    assert not any("raise" in detail for detail in layer.details)
    ended = replace(runner("failed"), alive=False, error=ErrorRecord("SourceLostError", "It is purged."))
    for reading in (None, lag(1, runway_s=None), lag(1, runway_s=86_400.0)):
        assert source_layer(ended, reading, NOW).headline == "Position lost"
        assert retention_left_s(ended, reading, NOW) == 0.0
    other = replace(ended, error=ErrorRecord("SparkLostError", "Spark is gone."))
    assert source_layer(other, lag(1, runway_s=None), NOW).colour == "gray"


def test_changes_that_wait_to_be_merged_are_not_called_nothing() -> None:
    """Whoever reads the mirror does not see them, so it is not green for long."""
    for age_s, headline, colour in ((0.0, "Keeping up", "green"), (5.0, "Keeping up", "green")):
        layer = keeping_up_layer(runner(), replace(lag(0.4, 0), mirror_age_s=age_s), [], NOW)
        assert (layer.headline, layer.colour) == (headline, colour)
        assert ("nothing is waiting" in layer.details) == (not age_s)
    layer = keeping_up_layer(runner(), replace(lag(0.4, 0), mirror_age_s=137.0), [], NOW)
    assert (layer.headline, layer.colour) == ("Waits to be merged", "orange")
    assert "mirrors 2 min 17 s behind the change log" in layer.details


def test_how_soon_changes_can_be_read_is_shown_while_it_is_current() -> None:
    """Of the log alone, if no mirror was merged; nothing if nothing changed lately, or the reading is old."""
    fresh = replace(lag(0.4, 0), log_p50_s=0.31, log_p99_s=0.92)
    assert "readable in log 0.3 s (p99 0.9 s)" in keeping_up_layer(runner(), fresh, [], NOW).details
    both = replace(fresh, mirror_p50_s=1.04, mirror_p99_s=2.6)
    words = "readable in log 0.3 s (p99 0.9 s), mirrors 1.0 s (p99 2.6 s)"
    assert words in keeping_up_layer(runner(), both, [], NOW).details
    for other in (lag(0.4, 0), replace(both, ts=ago(600))):
        assert not any("readable" in line for line in keeping_up_layer(runner(), other, [], NOW).details)


def test_a_source_that_lacks_a_setting_is_not_safe_however_long_it_keeps_its_binlog() -> None:
    """Without a runner nobody looks any more, so the last alert is not shown as current."""
    lacks = ("The source's settings changed: binlog_format is MIXED, not ROW.",)
    *_, layer = layers(runner(), lag(1, runway_s=1e9), [], NOW, (), lacks)
    assert (layer.headline, layer.colour) == ("Settings changed", "red")
    assert layer.details[0] == "binlog_format is MIXED, not ROW"
    *_, layer = layers(runner("ended", alive=False), lag(1, runway_s=1e9), [], NOW, (), lacks)
    assert layer.headline != "Settings changed"


def test_stale_numbers_are_grey_with_their_time() -> None:
    """The last numbers of a dead runner are not current."""
    dead = runner("lost", alive=False)
    reading = lag(0.4, age=300)
    assert stale_since(dead, reading, NOW) == ago(300)
    engine, keeping_up, source = layers(dead, reading, [], NOW)
    assert engine.colour == "red"
    assert (keeping_up.colour, source.colour) == ("gray", "gray")
    assert "since 15:25:17 UTC" in keeping_up.details
    assert stale_since(runner(), lag(0.4, age=300), NOW) == ago(300)
    assert stale_since(runner(), lag(0.4), NOW) is None


def test_an_unmeasured_lag_is_not_zero() -> None:
    """Before the first reading the lag is unknown, not 0."""
    _, keeping_up, source = layers(runner(), None, [], NOW)
    assert keeping_up.headline == source.headline == "Not measured yet"


def test_a_failed_run_explains_its_exit_code() -> None:
    """The number 4 alone does not help."""
    layer = engine_layer(runner("failed", alive=False, exit_code=4), NOW)
    assert layer.details[0] == "exit code 4: the source can no longer be streamed"
    known = runner("failed", alive=False, exit_code=1, error=ErrorRecord(message="1 of 3 tables stopped"))
    assert engine_layer(known, NOW).details[0] == "exit code 1: the error is below"
    assert engine_layer(replace(known, error=None), NOW).details[0] == "exit code 1: an unexpected error"


def test_an_outage_is_shown_with_the_next_attempt_and_the_limit() -> None:
    """Only for a live runner, and without errors for a broken file."""
    outage = {
        "since": utc_text(ago(48)),
        "attempt": 5,
        "next_try": utc_text(ago(-30)),
        "error": "Connecting failed.",
        "gives_up_at": "2026-11-22T06:10:00.000000Z",
    }
    away = runner_of(record("running", 1, alive=True, away=outage), None).away
    assert away is not None
    text = "Source unreachable for 48 s · attempt 5 · next try in 30 s"
    assert away_line(away, NOW) == f"{text} · gives up at 2026-11-22 06:10:00 UTC"
    forever = runner_of(record("running", 1, alive=True, away=outage | {"gives_up_at": None}), None).away
    assert forever is not None
    assert away_line(forever, NOW) == f"{text} · no time limit"
    assert "trying now" in away_line(forever, ago(-31))
    for broken in (None, "", 5, {}, {"since": 7}):
        assert runner_of(record("running", 1, alive=True, away=broken), None).away is None
    assert runner_of(record("running", 99, alive=False, away=outage), None).away is None


def unreachable(attempt: int = 5) -> Runner:
    """A runner whose source has been away for 48 s."""
    return replace(runner(), away=Away(ago(48), attempt, ago(-30), "Connecting failed.", None))


def test_nothing_is_green_while_the_source_is_away() -> None:
    """The lag is what may be missing by now, and the retention is what is left of it by now."""
    away, reading = unreachable(), lag(0.4, age=50, runway_s=5 * 3600.0)
    shown = layers(away, reading, [], NOW)
    assert [one.colour for one in shown] == ["orange"] * 3
    engine, keeping_up, source = shown
    assert engine.headline == "Source unreachable"
    assert engine.details[:3] == ("for 48 s", "attempt 5", "next try in 30 s")
    assert keeping_up.details == ("lag up to 50 s", "since 15:29:27 UTC")
    assert source.details[0] == "retention left about 4 h 59 min"
    assert layers(away, lag(0.4, age=50, runway_s=3600.0), [], NOW)[2].colour == "red"
    assert layers(away, None, [], NOW)[0].colour == "orange"
    assert (away.shown_state, away.state, away.works) == ("away", "running", False)
    assert engine_layer(unreachable(0), NOW).details[1:3] == ("no answer yet", "waiting")


def test_a_full_disk_and_a_failing_helper_are_shown() -> None:
    """In three parts; nothing for a runner of an earlier version."""
    failing = {"helper": "monitor", "message": "It broke.", "since": utc_text(ago(60)), "errors": 3}
    (disk, helper) = troubles(
        record(
            "paused",
            1,
            alive=True,
            write_outage={"cause": "disk", "reason": "disk full (ledger: No space)"},
            helpers=[failing],
        )
    )
    assert disk[0] == "disk full (ledger: No space)"
    assert "Nothing is lost" in disk[1]
    assert helper[0] == "It broke."
    assert "3 errors since" in helper[1]
    assert helper[2].startswith("Nothing: it retries")
    (refused,) = troubles(record("running", 1, alive=True, helpers=[{**failing, "hint": "GRANT SELECT ON x"}]))
    assert refused[2] == "GRANT SELECT ON x", "it cannot recover on its own"
    assert troubles(record("running", 1, alive=True)) == []


def test_a_start_shows_its_steps() -> None:
    """With the seconds so far; nothing once it has started, and nothing that cannot be read."""
    steps = [
        {"step": "Spark", "since": utc_text(ago(9)), "seconds": None},
        {"step": "preflight", "since": utc_text(ago(9)), "seconds": 1.25},
        {"step": "plan", "since": utc_text(ago(3)), "seconds": None},
    ]
    found = runner_of(record("starting", 1, alive=True, startup=steps), None)
    assert startup_line(found, NOW) == "preflight ✓ 1.2 s → Spark … 9.0 s · plan … 3.0 s"
    done = runner_of(record("starting", 1, alive=True, startup=steps[1:2]), None)
    assert startup_line(done, NOW) == "preflight ✓ 1.2 s → connected"
    assert startup_line(runner_of(record("running", 1, alive=True, startup=steps), None), NOW) == ""
    for broken in (None, "x", [None], [{"step": "plan"}]):
        assert runner_of(record("starting", 1, alive=True, startup=broken), None).startup == ()


@pytest.mark.parametrize(
    ("cause", "headlines", "colour"),
    [
        ("store_away", ("Store away", "Waits for the store"), "orange"),
        ("store_refused", ("Credentials refused", "Waits for credentials"), "red"),
    ],
)
def test_a_store_is_an_outage_of_its_own(cause: WriteCause, headlines: tuple[str, str], colour: str) -> None:
    """Orange while nobody must act, and without a limit; red if the credentials must be renewed."""
    outage = WriteOutage(cause, "what it says (log)", "Do it.", AT, 3)
    found = record("paused", 0.5, alive=True, write_outage=asdict(outage))
    waits = runner_of(found, None)
    assert (waits.shown_state, waits.style.colour, waits.problem, waits.works) == (cause, colour, False, False)
    engine, keeping_up, _ = layers(waits, lag(0.4), [], NOW)
    assert (engine.headline, keeping_up.headline) == headlines
    assert (engine.colour, keeping_up.colour) == (colour, colour)
    assert stands_still(waits).startswith("The store of the destination ")
    ((what, meaning, do, amber),) = troubles(found)
    assert (what, amber) == ("what it says (log)", colour == "orange")
    assert meaning.endswith("Attempt 3, no time limit.")
    assert do.startswith("Do it. ")


def test_a_stopped_table_does_not_keep_up() -> None:
    """The lag of the pipeline says nothing of it. The engine runs, and the source is safe."""
    engine, keeping_up, source = layers(runner(), lag(0.4), [], NOW, ["d.t"])
    assert (keeping_up.headline, keeping_up.colour) == ("1 table stopped", "red")
    assert keeping_up.details[0] == "the others continue", "the lag, which is small, is not the first thing said"
    assert (engine.colour, source.colour) == ("green", "green")
    _, all_stopped, _ = layers(runner(), lag(0.4), [], NOW, ["d.t"], others=False)
    assert all_stopped.details[0] == "no other table is left"
    away = layers(unreachable(), lag(0.4), [], NOW, ["d.t"])
    assert [one.colour for one in away] == ["orange"] * 3


def test_a_full_disk_is_a_state_of_its_own() -> None:
    """It is no pause that an operator could end, and not a failed runner."""
    found = record("paused", 0.5, alive=True, write_outage={"cause": "disk", "reason": "disk full (log)", "since": AT})
    waits = runner_of(found, None)
    assert (waits.shown_state, waits.style.colour, waits.problem, waits.works) == ("full", "red", False, False)
    assert waits.unwritten is not None
    assert waits.unwritten.since == NOW
    engine, keeping_up, _ = layers(waits, lag(0.4), [], NOW)
    assert (engine.headline, keeping_up.headline) == ("Disk full", "Waits for room")
    assert (engine.colour, keeping_up.colour) == ("red", "red")
    assert stands_still(waits).startswith("The disk is full: mirrors get no changes")
    lost = runner_of(replace(found, alive=False), None)
    assert (lost.shown_state, stands_still(lost)) == ("lost", "No runner is alive (runner lost).")
    assert stands_still(runner()) == ""


def test_a_runner_without_a_heartbeat_is_not_responding() -> None:
    """Red, whatever it said of itself; its last numbers are gray, and nothing counts as read."""
    away = {"since": AT, "attempt": 1, "next_try": AT, "error": "no route", "gives_up_at": None}
    found = record("paused", 91, alive=True, reason="ada", away=away, write_outage={"cause": "disk", "reason": "full"})
    hangs = runner_of(replace(found, frozen=frozen_runner().frozen), run())
    assert (hangs.state, hangs.shown_state, hangs.alive, hangs.responds) == ("frozen", "frozen", True, False)
    assert (hangs.away, hangs.unwritten, hangs.reason, hangs.problem, hangs.works) == (None, None, "", True, False)
    assert stale_since(hangs, lag(0.4, age=92), NOW) == ago(92)
    engine, keeping_up, safe = layers(hangs, lag(0.4, age=92), [], NOW, lacks=["binlog_format is MIXED"])
    assert (engine.headline, engine.colour) == ("Not responding", "red")
    assert engine.details == ("last heartbeat 15:28:46 UTC",)
    assert [(one.headline, one.colour) for one in (keeping_up, safe)] == [("Not current", "gray")] * 2
    assert stands_still(hangs).startswith("The runner does not respond. Process 7 on host is stopped by a signal")


def test_what_to_do_about_a_frozen_runner_depends_on_its_process() -> None:
    """A stopped one is continued; one that hangs is ended."""
    stopped, hangs = frozen_runner().frozen, frozen_runner(stopped=False).frozen
    assert stopped is not None
    assert stopped.hint.startswith("Continue it: kill -CONT 7.")
    assert hangs is not None
    assert "CONT" not in hangs.hint
    assert "kill 7, or else kill -9 7" in hangs.hint
    assert hangs.message.endswith("no heartbeat since 2026-01-31 15:28:46 UTC.")


def test_a_lost_process_is_gone_only_if_that_is_known() -> None:
    """Not if it cannot be seen from here, nor if `runner.json` is missing."""
    lost = record("running", 60, alive=False)
    assert runner_of(lost, run()).gone
    assert not runner_of(replace(lost, unseen=UnseenRunner(7, "h", utc_text(ago(60)))), run()).gone
    assert not runner_of(None, run()).gone
    assert not runner_of(record("ended", 60, alive=False), run(ended=True, exit_code=0)).gone


def test_a_stop_that_waits_for_a_start_has_the_command_that_ends_the_run() -> None:
    """There is no button meanwhile, and a Spark that hangs does not let the run end."""
    stopping = replace(runner("stopping"), phase="starting")
    assert "on host: kill 7." in stop_during_start(stopping)
    assert "kill -9 7" in stop_during_start(stopping)
    others = (replace(stopping, phase="streaming"), replace(stopping, state="starting"), replace(stopping, alive=False))
    assert [stop_during_start(one) for one in others] == ["", "", ""]

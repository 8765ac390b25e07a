"""The three layers of health, with headlines and colours."""

import pytest

from app.view.health import (
    alert_lines,
    away_line,
    engine_layer,
    error_of,
    keeping_up_layer,
    layers,
    runner_of,
    source_layer,
    stale_since,
    troubles,
)
from app.view.status_style import HEX, PIPELINE
from engine.clock import utc_text
from engine.history.runs import Run
from tests.unit.app.support import NOW, ago, lag, runner


def run(*, ended: bool = False, exit_code: int | None = None, error: str | None = None) -> Run:
    """The newest run of a journal."""
    end = ago(10) if ended else None
    return Run("p", "r", ago(60), ago(10), None, "h", 7, "1", end, None, exit_code, error, "running", None, None, None)


def record(state: str, age: float, *, alive: bool, error: object = None) -> dict[str, object]:
    """A result of `read_runner`."""
    beat = {"heartbeat": utc_text(ago(age)), "heartbeat_age_s": age, "alive": alive}
    return {
        "state": state,
        "phase": "snapshot",
        "pid": 7,
        "host": "h",
        "spark_ui": "http://h:4040",
        "error": error,
    } | beat


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
        (record("dreaming", 1, alive=True), None, None, "running"),
    ],
)
def test_the_state_follows_from_file_journal_and_launch(
    record_: dict[str, object] | None, run_: Run | None, launched: object, state: str
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
    parts = {"message": "m", "detail": "d", "hint": ""}
    assert error_of({"error": "X", "message": "m", "detail": "d"}) == parts
    assert error_of('{"message": "m", "detail": "d"}') == parts
    assert error_of("m") == {"message": "m", "detail": "", "hint": ""}
    assert error_of("{torn") == {"message": "{torn", "detail": "", "hint": ""}
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
    layer = keeping_up_layer(runner(), lag(lag_s), [lag(before, age=60)], None)
    assert (layer.headline, layer.colour) == (headline, colour)


def test_an_idle_source_is_no_lag() -> None:
    """The layer shows that nothing is waiting."""
    assert "nothing is waiting" in keeping_up_layer(runner(), lag(0.0, 0), [], None).details


def test_a_paused_pipeline_is_neither_red_nor_green() -> None:
    """An operator paused it on purpose."""
    assert keeping_up_layer(runner("paused"), lag(600), [], None).colour == "violet"


@pytest.mark.parametrize(
    ("runway_s", "colour"), [(None, "gray"), (600.0, "red"), (3 * 3600.0, "orange"), (86_400.0, "green")]
)
def test_little_retention_left_is_red(runway_s: float | None, colour: str) -> None:
    """With less than an hour, an operator must act; unknown is not safe."""
    assert source_layer(lag(1, runway_s=runway_s), None).colour == colour


def test_stale_numbers_are_grey_with_their_time() -> None:
    """The last numbers of a dead runner are not current."""
    dead = runner("lost", alive=False)
    reading = lag(0.4, age=300)
    assert stale_since(dead, reading, NOW) == ago(300)
    engine, keeping_up, source = layers(dead, reading, [], NOW)
    assert engine.colour == "red"
    assert (keeping_up.colour, source.colour) == ("gray", "gray")
    assert "stale since 15:25:17 UTC" in keeping_up.details
    assert stale_since(runner(), lag(0.4, age=300), NOW) == ago(300)
    assert stale_since(runner(), lag(0.4), NOW) is None


def test_an_unmeasured_lag_is_not_zero() -> None:
    """Before the first reading the lag is unknown, not 0."""
    _, keeping_up, source = layers(runner(), None, [], NOW)
    assert keeping_up.headline == source.headline == "Not measured yet"


def test_a_failed_run_explains_its_exit_code() -> None:
    """The number 4 alone does not help."""
    layer = engine_layer(runner("failed", alive=False, exit_code=4))
    assert layer.details[0] == "exit code 4: the source can no longer be followed"


def test_active_alerts_are_shown_with_their_time() -> None:
    """From the runner's file; a file of another version is not an error."""
    alert = {"kind": "table_stopped", "table": "d.t", "since": utc_text(ago(17)), "message": "d.t stopped: no date"}
    assert alert_lines([alert]) == ["Alert since 2026-01-31 15:30:00 UTC: d.t stopped: no date"]
    assert alert_lines([]) == []
    assert alert_lines([{"message": "m"}]) == ["Alert since —: m"]


def test_an_outage_is_shown_with_the_next_attempt_and_the_limit() -> None:
    """Only for a live runner, and without errors for a broken file."""
    outage = {
        "since": utc_text(ago(48)),
        "attempt": 5,
        "next_try": utc_text(ago(-30)),
        "error": "Connecting failed.",
        "gives_up_at": "2026-11-22T06:10:00.000000Z",
    }
    away = runner_of(record("running", 1, alive=True) | {"away": outage}, None).away
    assert away is not None
    text = "Source unreachable for 48 s · attempt 5 · next try in 30 s"
    assert away_line(away, NOW) == f"{text} · gives up at 2026-11-22 06:10:00 UTC"
    forever = runner_of(record("running", 1, alive=True) | {"away": outage | {"gives_up_at": None}}, None).away
    assert forever is not None
    assert away_line(forever, NOW) == f"{text} · no time limit"
    assert "trying now" in away_line(forever, ago(-31))
    for broken in (None, "", 5, {}, {"since": 7}):
        assert runner_of(record("running", 1, alive=True) | {"away": broken}, None).away is None
    assert runner_of(record("running", 99, alive=False) | {"away": outage}, None).away is None


def test_a_full_disk_and_a_failing_helper_are_shown() -> None:
    """In three parts; nothing for a runner of an earlier version."""
    failing = {"helper": "monitor", "message": "It broke.", "since": utc_text(ago(60)), "errors": 3}
    (disk, helper) = troubles({"disk_full": "disk full (ledger: No space)", "helpers": [failing]})
    assert disk[0] == "disk full (ledger: No space)"
    assert "Nothing is lost" in disk[1]
    assert helper[0] == "It broke."
    assert "3 errors since" in helper[1]
    assert troubles({}) == []

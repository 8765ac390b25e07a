"""The three layers say what is true, in words and with the right colour."""

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
    """What `read_runner` gives."""
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
    """`runner.json`, the newest run and a launch from here, together, are one state."""
    assert runner_of(record_, run_, launched).state == state  # type: ignore[arg-type]


def test_every_state_has_a_look_and_every_colour_a_hex() -> None:
    """No state without words, letter and colour."""
    for look in PIPELINE.values():
        assert look.colour in HEX
        assert len(look.letter) == 1
        assert look.meaning


def test_errors_have_three_parts_whatever_they_come_as() -> None:
    """The journal keeps JSON text, `runner.json` an object, an old one a sentence."""
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
        (None, None, "Not known", "gray"),
        (0.4, None, "Keeping up", "green"),
        (60.0, 90.0, "Catching up", "orange"),
        (90.0, 60.0, "Falling behind", "red"),
    ],
)
def test_keeping_up_is_judged_by_size_and_direction(
    lag_s: float | None, before: float | None, headline: str, colour: str
) -> None:
    """A large lag that shrinks needs nobody; one that grows does."""
    layer = keeping_up_layer(runner(), lag(lag_s), [lag(before, age=60)], None)
    assert (layer.headline, layer.colour) == (headline, colour)


def test_no_traffic_is_not_lag() -> None:
    """Nothing waiting is said as such."""
    assert "nothing is waiting" in keeping_up_layer(runner(), lag(0.0, 0), [], None).details


def test_a_paused_pipeline_is_neither_red_nor_green() -> None:
    """Somebody wanted it so."""
    assert keeping_up_layer(runner("paused"), lag(600), [], None).colour == "violet"


@pytest.mark.parametrize(
    ("runway", "colour"), [(None, "gray"), (600.0, "red"), (3 * 3600.0, "orange"), (86_400.0, "green")]
)
def test_a_short_runway_is_red(runway: float | None, colour: str) -> None:
    """Under an hour somebody must act; unknown is not safe."""
    assert source_layer(lag(1, runway=runway), None).colour == colour


def test_stale_numbers_are_grey_and_say_since_when() -> None:
    """The last numbers of a dead runner are not the present."""
    dead = runner("lost", alive=False)
    reading = lag(0.4, age=300)
    assert stale_since(dead, reading, NOW) == ago(300)
    engine, keeping_up, source = layers(dead, reading, [], NOW)
    assert engine.colour == "red"
    assert (keeping_up.colour, source.colour) == ("gray", "gray")
    assert "stale since 15:25:17 UTC" in keeping_up.details
    assert stale_since(runner(), lag(0.4, age=300), NOW) == ago(300)
    assert stale_since(runner(), lag(0.4), NOW) is None


def test_nothing_measured_is_not_zero() -> None:
    """Before the first reading there is no lag, not a lag of 0."""
    _, keeping_up, source = layers(runner(), None, [], NOW)
    assert keeping_up.headline == source.headline == "Not measured yet"


def test_a_failed_run_says_what_its_exit_code_means() -> None:
    """Exit code 4 alone helps nobody."""
    layer = engine_layer(runner("failed", alive=False, exit_code=4))
    assert layer.details[0] == "exit code 4: the source can no longer be followed"


def test_alerts_that_stand_are_told_with_their_age() -> None:
    """As the runner's file has them; nothing when all is well, and no error for a file of another version."""
    alert = {"kind": "table_stopped", "table": "d.t", "since": utc_text(ago(17)), "message": "d.t stopped: no date"}
    assert alert_lines([alert]) == ["Alert since 2026-01-31 15:30:00 UTC: d.t stopped: no date"]
    assert alert_lines([]) == []
    assert alert_lines([{"message": "m"}]) == ["Alert since —: m"]


def test_a_source_that_is_away_is_said_with_its_next_try_and_its_end() -> None:
    """Only of a runner that lives; whatever the file says."""
    told = {
        "since": utc_text(ago(48)),
        "attempt": 5,
        "next_try": utc_text(ago(-30)),
        "error": "Connecting failed.",
        "gives_up_at": "2026-11-22T06:10:00.000000Z",
    }
    away = runner_of(record("running", 1, alive=True) | {"away": told}, None).away
    assert away is not None
    said = "Source unreachable for 48 s · attempt 5 · next try in 30 s"
    assert away_line(away, NOW) == f"{said} · gives up at 2026-11-22 06:10:00 UTC"
    forever = runner_of(record("running", 1, alive=True) | {"away": told | {"gives_up_at": None}}, None).away
    assert forever is not None
    assert away_line(forever, NOW) == f"{said} · waits without end"
    assert "trying now" in away_line(forever, ago(-31))
    for broken in (None, "", 5, {}, {"since": 7}):
        assert runner_of(record("running", 1, alive=True) | {"away": broken}, None).away is None
    assert runner_of(record("running", 99, alive=False) | {"away": told}, None).away is None


def test_a_full_disk_and_a_helper_that_fails_are_said() -> None:
    """What, what it means, what to do; nothing of a runner of an earlier version."""
    failing = {"helper": "monitor", "message": "It broke.", "since": utc_text(ago(60)), "errors": 3}
    (disk, helper) = troubles({"disk_full": "disk full (ledger: No space)", "helpers": [failing]})
    assert disk[0] == "disk full (ledger: No space)"
    assert "Nothing is lost" in disk[1]
    assert helper[0] == "It broke."
    assert "3 errors since" in helper[1]
    assert troubles({}) == []

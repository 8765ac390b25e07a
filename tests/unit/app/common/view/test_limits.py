"""The throttle: the limits in force, the reasons to wait, and the changes of a form."""

from datetime import UTC, datetime

from app.common.view import limits
from engine.spec.throttle_settings import Throttle, throttled

AT = datetime(2026, 5, 1, 12, tzinfo=UTC)
SPEC = Throttle(max_rows_per_s=5000, hours=("22:00-06:00",)).model_dump()


def test_limits_of_operators_override_the_spec() -> None:
    """And are listed as such."""
    now = limits.pace_of(
        SPEC, {"throttle": {"max_rows_per_s": 100, "readers": 1}, "snapshot": False, "tables": ["d.t"]}, AT
    )
    assert (now.settings["max_rows_per_s"], now.own) == (100, ("max_rows_per_s", "readers"))
    assert limits.described(now) == "100 rows/s; 1 reader; hours (UTC) 22:00-06:00"
    loads = {
        "max_load": {"Threads_running": 50.0},
        "critical_load": {"Threads_running": 200.0},
        "max_bytes_per_s": 2_000_000,
    }
    assert limits.described(limits.pace_of(loads, None, AT)) == (
        "2 MB/s of files; waits above Threads_running 50; pauses above Threads_running 200"
    )
    assert limits.described(limits.pace_of({}, None, AT)) == "no limit"


def test_the_reason_to_wait_is_shown() -> None:
    """The runner's own reason first; nothing if there is no limit."""
    assert limits.notices(limits.pace_of(SPEC, None, AT), None) == []
    held = limits.pace_of(SPEC, {"snapshot": True, "tables": ["d.t", "d.u"]}, AT)
    assert limits.notices(held, None)[0].startswith("The snapshot is paused")
    assert limits.notices(held, "paused by command") == [
        "The snapshot waits: paused by command",
        "Paused: d.t, d.u; the binlog is still read",
    ]


def test_a_rate_limit_is_one_line_during_the_snapshot() -> None:
    """Whether or not a group waits right now, so that the page does not move."""
    slow = limits.pace_of(SPEC, {"throttle": {"max_rows_per_s": 750}}, AT)
    for waiting in (None, "", "at most 750 rows/s"):
        assert limits.notices(slow, waiting, copying=True) == ["Tables are read no faster than 750 rows/s"]
    assert limits.notices(slow, "Threads_running is 90 (limit 50)", copying=True) == [
        "The snapshot waits: Threads_running is 90 (limit 50)"
    ]
    assert limits.notices(slow, None) == []


def test_a_form_sends_only_its_changes() -> None:
    """So that two operators do not undo each other's changes."""
    now = limits.pace_of(SPEC, {"throttle": {"max_bytes_per_s": 1_500_000}}, AT)
    assert limits.megabytes(now) == 1.5
    assert limits.changes(now, 5000, 1.5, 0, "22:00-06:00") == {}
    assert limits.changes(now, 0, 1.5, 2, "") == {"max_rows_per_s": 0, "readers": 2, "hours": []}
    assert limits.changes(limits.pace_of({}, None, AT), 0, 0.0, 0, " ") == {}


def test_tables_are_paused_and_resumed_by_difference() -> None:
    """A table that stays paused is left alone."""
    now = limits.pace_of(SPEC, {"tables": ["d.a", "d.b"]}, AT)
    assert limits.pauses(now, ["d.b", "d.c"]) == (["d.c"], ["d.a"])


def test_limits_for_some_time_end_on_the_page_too() -> None:
    """Without a runner, nothing removes them from the file."""
    controls = {
        "throttle": {"max_rows_per_s": 5},
        "until": "2026-05-01T13:00:00.000000Z",
        "later": {"max_rows_per_s": 9, "readers": 2},
    }
    now = limits.pace_of(SPEC, controls, AT)
    assert (now.settings["max_rows_per_s"], now.until) == (5, AT.replace(hour=13))
    later = limits.pace_of(SPEC, controls, AT.replace(hour=13))
    assert (later.settings["max_rows_per_s"], later.own, later.until) == (9, ("max_rows_per_s", "readers"), None)


def test_presets_follow_what_is_read() -> None:
    """Half of it, if something is read. The effect names the share of the limit."""
    assert [preset.label for preset in limits.presets(None)] == ["Gentle", "Full speed"]
    _, half, _ = limits.presets(9001.0)
    assert half.settings == {"max_rows_per_s": 4500}
    for preset in limits.presets(9001.0):
        throttled(Throttle(), dict(preset.settings))
    assert limits.effect(limits.pace_of(SPEC, None, AT), 4000.0) == "4,000 rows/s are read now, 80% of the limit"
    assert limits.effect(limits.pace_of({}, None, AT), 4000.0) == "4,000 rows/s are read now"
    assert limits.effect(limits.pace_of(SPEC, None, AT), None) == ""


def test_polled_limits_are_named_with_the_value_above() -> None:
    """The runner reports a value only if it is above its limit."""
    settings = {"max_load": {"Threads_running": 50.0}, "replicas": ("r1:3306",)}
    pace = limits.pace_of(settings, None, AT)
    assert limits.checks(pace, None) == "The runner polls Threads_running, the lag of r1:3306: all within their limits."
    held = "Threads_running is 80 (limit 50)"
    assert limits.checks(pace, held) == f"The runner polls Threads_running, the lag of r1:3306: {held}."
    assert "all within" in limits.checks(pace, "at most 300 rows/s")
    assert limits.checks(limits.pace_of({}, None, AT), held) == ""

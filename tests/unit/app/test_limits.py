"""The pace of reading: what holds, why nothing is read, and what a form changes."""

from app.view import limits
from engine.settings import Throttle

SPEC = Throttle(max_rows_per_s=5000, hours=("22:00-06:00",)).model_dump()


def test_what_operators_set_is_over_the_spec() -> None:
    """And it is said what is theirs."""
    now = limits.pace_of(
        SPEC, {"throttle": {"max_rows_per_s": 100, "readers": 1}, "snapshot": False, "tables": ["d.t"]}
    )
    assert (now.settings["max_rows_per_s"], now.own) == (100, ("max_rows_per_s", "readers"))
    assert limits.described(now) == "100 rows/s; 1 reader; hours (UTC) 22:00-06:00"
    loads = {
        "max_load": {"Threads_running": 50.0},
        "critical_load": {"Threads_running": 200.0},
        "max_bytes_per_s": 2_000_000,
    }
    assert limits.described(limits.pace_of(loads, None)) == (
        "2 MB/s of files; waits above Threads_running 50; pauses above Threads_running 200"
    )
    assert limits.described(limits.pace_of({}, None)) == "no limit"


def test_why_nothing_is_read_is_said() -> None:
    """The runner's own reason first; nothing when all is read as fast as can be."""
    assert limits.lines(limits.pace_of(SPEC, None), None) == []
    held = limits.pace_of(SPEC, {"snapshot": True, "tables": ["d.t", "d.u"]})
    assert limits.lines(held, None)[0].startswith("The reading of tables is paused")
    assert limits.lines(held, "paused by command") == [
        "Reading of tables waits: paused by command",
        "Paused: d.t, d.u; the log goes on",
    ]


def test_a_rate_is_one_line_for_as_long_as_tables_are_read() -> None:
    """Whether a group waits at this moment or not: a line that comes and goes moves the page."""
    slow = limits.pace_of(SPEC, {"throttle": {"max_rows_per_s": 750}})
    for waiting in (None, "", "at most 750 rows/s"):
        assert limits.lines(slow, waiting, copying=True) == ["Tables are read no faster than 750 rows/s"]
    assert limits.lines(slow, "Threads_running is 90 (limit 50)", copying=True) == [
        "Reading of tables waits: Threads_running is 90 (limit 50)"
    ]
    assert limits.lines(slow, None) == []


def test_a_form_changes_what_was_changed_in_it() -> None:
    """No more than that, so that two operators do not undo each other."""
    now = limits.pace_of(SPEC, {"throttle": {"max_bytes_per_s": 1_500_000}})
    assert limits.megabytes(now) == 1.5
    assert limits.changes(now, 5000, 1.5, 0, "22:00-06:00") == {}
    assert limits.changes(now, 0, 1.5, 2, "") == {"max_rows_per_s": 0, "readers": 2, "hours": []}
    assert limits.changes(limits.pace_of({}, None), 0, 0.0, 0, " ") == {}


def test_tables_are_paused_and_resumed_by_difference() -> None:
    """Those that are paused and stay so are left alone."""
    now = limits.pace_of(SPEC, {"tables": ["d.a", "d.b"]})
    assert limits.pauses(now, ["d.b", "d.c"]) == (["d.c"], ["d.a"])

"""Events about Iceberg tables that fall behind."""

from engine.destination.capabilities import FormatState
from engine.journal.verification_events import FormatBehind, FormatWritten
from engine.run.monitors.format_news import format_news


def state(behind_s: float = 0.0, failure: str = "", table: str = "d.t", *commits: str) -> FormatState:
    """How far a table is."""
    return FormatState(table, f"/lake/{table}", 3, behind_s, failure, "Do this." if failure else "", commits)


def test_a_table_is_reported_once_until_it_has_all_commits() -> None:
    """A failure sooner than slowness; a new failure again; a table that is nearly there is not there."""
    reported = dict[str, str]()
    assert not list(format_news(reported, [state(), state(9.0, "full"), state(50.0)]))
    (event,) = format_news(reported, [state(), state(11.0, "full")])
    assert isinstance(event, FormatBehind)
    assert (event.table, event.place, event.failure, event.hint) == ("d.t", "/lake/d.t", "full", "Do this.")
    assert event.since
    assert not list(format_news(reported, [state(20.0, "full")]))
    (event,) = format_news(reported, [state(30.0, "gone")])
    assert isinstance(event, FormatBehind)
    assert event.failure == "gone"
    assert not list(format_news(reported, [state(2.0)]))
    assert list(format_news(reported, [state()])) == [FormatBehind(table="d.t")]
    assert not reported
    (event,) = format_news(reported, [state(61.0)])
    assert isinstance(event, FormatBehind)
    assert event.failure == ""


def test_an_alert_of_an_earlier_run_is_cleared() -> None:
    """Also if the table is published no more."""
    assert list(format_news({"d.t": ""}, [])) == [FormatBehind(table="d.t")]


def test_commits_of_other_programs_are_reported() -> None:
    """With the place."""
    events = list(format_news({}, [state(0.0, "", "d.t", "a commit by spark")]))
    assert events == [FormatWritten(table="d.t", place="/lake/d.t", commit="a commit by spark")]

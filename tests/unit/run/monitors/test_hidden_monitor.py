"""Which hidden changes are reported."""

from engine.journal.events import SourceAway, SourceBack
from engine.run.monitors.hidden_monitor import Refusals, ReportedChanges

A, B, FILTER = ("cascade", "d.a"), ("cascade", "d.b"), ("binlog_filter", None)
News = list[tuple[str, str | None, tuple[str, ...]]]


def news(known: ReportedChanges, found: dict[tuple[str, str | None], tuple[str, ...]]) -> News:
    """The events of a look: kind, table, names."""
    return [(one.kind, one.table, tuple(one.names)) for one in known.news(found)]


def test_what_was_there_at_the_start_is_not_reported() -> None:
    """A new foreign key of the same table is, and one that was gone in between. Nothing is reported twice."""
    known = ReportedChanges([])
    known.begin({"d.a": ("x",)})
    assert news(known, {A: ("x",)}) == []
    assert news(known, {A: ("x", "y"), B: ("z",)}) == [(*A, ("y",)), (*B, ("z",))]
    assert news(known, {A: ("x", "y"), B: ("z",)}) == []
    assert news(known, {B: ("z",)}) == [(*A, ())]
    assert news(known, {A: ("x",), B: ("z",)}) == [(*A, ("x",))]


def test_a_filter_is_always_reported() -> None:
    """No run starts with one, so it is new."""
    known = ReportedChanges([])
    assert news(known, {FILTER: ("d",)}) == [(*FILTER, ("d",))]
    assert news(known, {FILTER: ("d", "e")}) == [(*FILTER, ("d", "e"))]
    assert news(known, {}) == [(*FILTER, ())]
    assert news(known, {}) == []


def test_an_alert_of_an_earlier_run_stays_until_its_cause_is_gone() -> None:
    """It may have gone while no runner was alive."""
    known = ReportedChanges([A, B, FILTER, ("lag", None)])
    known.begin({"d.a": ("x",)})
    assert news(known, {A: ("x",)}) == [(*FILTER, ()), (*A, ("x",)), (*B, ())]
    assert news(known, {A: ("x",)}) == []
    assert news(known, {}) == [(*A, ())]


def test_the_foreign_keys_of_a_removed_table_are_gone() -> None:
    """Its alert may have been raised by the look during which it was removed.

    If it comes back, it is reported again.
    """
    known = ReportedChanges([])
    assert news(known, {B: ("z",)}) == [(*B, ("z",))]
    assert news(known, {}) == [(*B, ())]
    assert news(known, {B: ("z",)}) == [(*B, ("z",))]


def test_a_privilege_that_the_run_lacks_too_is_not_reported_twice() -> None:
    """The run says what to do; the helper would say that nothing is to be done, and that the pipeline continues."""
    refusals = Refusals()
    assert not refusals.refused(), "the run may notice next"
    refusals.hear(SourceAway(since="", attempt=1, retry_in_s=1.0, message="", refused=True))
    assert not refusals.refused()
    refusals.hear(SourceBack(since="", seconds=1.0))
    refusals.allowed()
    assert [refusals.refused(), refusals.refused()] == [False, True], "one of the look's own"

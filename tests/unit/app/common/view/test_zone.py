"""Times in UTC and in the browser's time zone."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from app.common.view import words, zone
from app.common.view.figure import iso
from app.live.view import timeline_figure
from tests.unit.app.support import NOW


@pytest.fixture
def berlin() -> Iterator[None]:
    """A browser in Berlin."""
    zone.show_in("Europe/Berlin")
    yield
    zone.show_in(None)


def test_every_time_has_its_zone_and_charts_agree_with_texts(berlin: None) -> None:
    """Texts, axes, tooltips and headings are in the same zone."""
    assert words.time_of_day(NOW) == "16:30:17 CET"
    assert words.date_time(NOW) == "2026-01-31 16:30:17 CET"
    assert iso(NOW) == "2026-01-31T16:30:17.000"
    figure = timeline_figure.figure([], [], [], [], NOW, NOW)
    assert figure["layout"]["xaxis"]["hoverformat"] == "%H:%M:%S Europe/Berlin"
    assert zone.heading("Asked") == "Asked (Europe/Berlin)"


def test_a_chart_over_a_clock_change_has_no_fold(berlin: None) -> None:
    """The chart uses the UTC offset of its end, so an hour that exists twice does not overlap itself."""
    until = datetime(2026, 10, 25, 1, 2, tzinfo=UTC)
    since = until - timedelta(hours=2)
    with zone.steady(until):
        assert (iso(since), iso(until)) == ("2026-10-25T00:02:00.000", "2026-10-25T02:02:00.000")
        assert zone.name() == "Europe/Berlin"
    assert iso(since) == "2026-10-25T01:02:00.000"


def test_the_default_zone_is_utc() -> None:
    """It is the same for everyone."""
    assert (zone.name(), words.time_of_day(NOW), zone.heading("Started")) == ("UTC", "15:30:17 UTC", "Started (UTC)")


@pytest.mark.parametrize(
    ("name", "known"), [("Europe/Berlin", True), (None, False), ("", False), ("Nowhere/At all", False)]
)
def test_an_unknown_zone_of_a_browser_is_not_used(name: str | None, known: bool) -> None:
    """Its times would be wrong."""
    assert zone.exists(name) is known


def test_a_time_is_entered_in_the_chosen_zone(berlin: None) -> None:
    """A time that exists twice or never is refused."""
    assert zone.read("2026-07-01", "12:00") == datetime(2026, 7, 1, 10, tzinfo=UTC)
    for typed, fault in (
        ("2026-10-25T02:30", "twice"),
        ("2026-03-29T02:30", "does not exist"),
        ("2026-03-29Tnoon", "15:30:17"),
        ("2026-03-29T12:00+02:00", "zone is chosen"),
    ):
        with pytest.raises(ValueError, match=fault):
            zone.read(*typed.split("T"))

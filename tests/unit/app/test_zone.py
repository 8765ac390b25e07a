"""Times in UTC and in the zone of whoever looks."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from app.view import again, curves, words, zone
from app.view.figure import iso
from engine.history.redumps import Redumped
from tests.unit.app.support import NOW, lag


@pytest.fixture
def berlin() -> Iterator[None]:
    """A browser in Berlin."""
    zone.show_in("Europe/Berlin")
    yield
    zone.show_in(None)


def test_every_time_says_its_zone_and_charts_agree_with_texts(berlin: None) -> None:
    """A text, an axis, a hover and a heading never mix two zones."""
    local = zone.local(NOW)
    assert local == NOW
    assert words.time_of_day(NOW) == f"{local:%H:%M:%S} {zone.abbreviation(NOW)}"
    assert words.date_time(NOW).endswith(("CET", "CEST"))
    assert iso(NOW) == f"{local:%Y-%m-%dT%H:%M:%S}.000"
    figure = curves.lag_figure([lag(1.0)], [], NOW, NOW, 2000)
    assert "Europe/Berlin" in figure["data"][0]["hovertemplate"]
    asked = Redumped("c", NOW, None, None, None, "done", None, 1, 1, 0, None, 0.1)
    assert next(iter(again.past_rows([asked])[0])) == "Asked (Europe/Berlin)"


def test_nothing_is_shown_in_a_zone_that_nobody_chose() -> None:
    """UTC is what all see alike."""
    assert (zone.name(), zone.abbreviation(NOW), zone.heading("Started")) == ("UTC", "UTC", "Started (UTC)")


@pytest.mark.parametrize(
    ("name", "known"), [("Europe/Berlin", True), (None, False), ("", False), ("Nowhere/At all", False)]
)
def test_a_zone_of_a_browser_is_used_only_when_it_can_be_computed(name: str | None, known: bool) -> None:
    """A name that this machine does not know would show wrong times."""
    assert zone.known(name) is known


def test_a_typed_time_is_read_in_the_zone_that_is_shown(berlin: None) -> None:
    """One hour of a year happens twice and one never: these are refused, not guessed."""
    assert zone.read("2026-07-01", "12:00") == datetime(2026, 7, 1, 10, tzinfo=UTC)
    for typed, fault in (
        ("2026-10-25T02:30", "twice"),
        ("2026-03-29T02:30", "never"),
        ("2026-03-29Tnoon", "15:30:17"),
        ("2026-03-29T12:00+02:00", "zone is chosen"),
    ):
        with pytest.raises(ValueError, match=fault):
            zone.read(*typed.split("T"))

"""Numbers, times and names as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.common.view import words
from tests.unit.app.support import NOW


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "—"), (0, "0"), (42, "42"), (999, "999"), (1000, "1k"), (812_345, "812k"), (5_900_000, "5.9M"),
    (0.4, "0.4"),
     (999_960, "1M"), (12_300_000_000, "12.3G")],
)  # fmt: skip
def test_counts(value: float | None, text: str) -> None:
    """At most three digits; unknown is not 0."""
    assert words.count(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "—"), (0, "0 B"), (12_000, "12 KB"), (1_400_000_000, "1.4 GB"), (512, "512 B")]
)
def test_sizes(value: float | None, text: str) -> None:
    """Powers of 1000, with a unit."""
    assert words.size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "—"), (0, "0 s"), (0.02, "20 ms"), (0.4, "0.4 s"), (9.97, "10 s"), (59.7, "1 min"), (200, "3 min 20 s"),
     (18_720, "5 h 12 min"), (205_200, "2 d 9 h"), (86_400, "1 d")],
)  # fmt: skip
def test_durations(value: float | None, text: str) -> None:
    """Two units at most."""
    assert words.duration(value) == text


@given(st.floats(0, 1e12))
def test_any_number_has_a_short_text(value: float) -> None:
    """Never empty, and at most 16 characters."""
    for text in (words.count(value), words.size(value), words.duration(value)):
        assert 1 <= len(text) <= 16


def test_less_than_all_is_not_100_percent() -> None:
    """99.999 % is not done."""
    assert words.percent(0.99999) == "99.9%"
    assert words.percent(1.0) == "100%"
    assert words.percent(None) == "—"


def test_names_are_shown_literally() -> None:
    """A table called `**x**` or `:material/x:` must not become bold or an icon."""
    assert words.escape("**x** [a](b) :material/x: $1$ <b> a_b") == (
        r"\*\*x\*\* \[a\]\(b\) \:material/x\: \$1\$ \<b\> a\_b"
    )


def test_times_are_utc_and_ranges_half_open() -> None:
    """The operator never guesses a zone, nor whether a bound belongs to the chunk."""
    assert words.time_of_day(NOW) == "15:30:17 UTC"
    assert words.date_time(None) == "—"
    assert words.span("1", "500", "id") == "1 ≤ id < 500"
    assert words.span(None, "500", "id") == "id < 500"
    assert words.span("500", None, "id") == "500 ≤ id"
    assert words.span(None, None) == "every key"
    assert (words.plural(1, "chunk"), words.plural(1248, "chunk")) == ("1 chunk", "1,248 chunks")
    assert words.rate(None, "rows") == "—"


def test_a_message_of_several_lines_is_no_heading() -> None:
    """An empty item of a list below a line would make it one."""
    text = words.three_parts("It failed\n\n  - one thing\n\nanother\n", "Nothing is lost", "Try again")
    assert text.splitlines() == [
        "**It failed**",
        r"- \- one thing",
        "- another",
        "",
        "**What it means** Nothing is lost",
        "",
        "**What to do** Try again",
    ]


def test_an_age_has_whole_seconds() -> None:
    """A clock that is behind gives no negative age."""
    now_s = NOW.timestamp()
    assert [words.ago(at_s, NOW) for at_s in (now_s - 42.4, now_s + 3, None)] == ["42 s ago", "0 s ago", "—"]

"""The choice of the time zone, which the browser keeps."""

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest


def page() -> None:
    """A page that shows its time zone."""
    import streamlit as st

    from app.common import times
    from app.common.view import zone

    times.choose()
    st.text(zone.name())


def opened(monkeypatch: pytest.MonkeyPatch, timezone: str | None, **cookies: str) -> AppTest:
    """The page in a new session of a browser with these cookies."""
    monkeypatch.setattr(type(st.context), "cookies", cookies)
    monkeypatch.setattr(type(st.context), "timezone", timezone)
    return AppTest.from_function(page).run(timeout=30)


def test_a_reload_shows_times_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new session of the same browser starts with the last choice."""
    first = opened(monkeypatch, "Europe/Berlin")
    assert first.text[0].value == "UTC"
    first.segmented_control(key="times").set_value("Local").run(timeout=30)
    assert first.text[0].value == "Europe/Berlin"
    (kept,) = first.get("bidi_component")
    assert "Local" in str(kept.proto)
    again = opened(monkeypatch, "Europe/Berlin", tidemark_times="Local")
    assert again.text[0].value == "Europe/Berlin"
    again.segmented_control(key="times").set_value("UTC").run(timeout=30)
    assert again.text[0].value == "UTC"


@pytest.mark.parametrize(("timezone", "cookie"), [(None, "Local"), ("Nowhere/At all", "Local"), ("Europe/Berlin", "?")])
def test_an_impossible_choice_becomes_utc(monkeypatch: pytest.MonkeyPatch, timezone: str | None, cookie: str) -> None:
    """Whatever the cookie is. If there is no choice, the cookie is not overwritten."""
    shown = opened(monkeypatch, timezone, tidemark_times=cookie)
    assert (shown.text[0].value, shown.segmented_control(key="times").value) == ("UTC", "UTC")
    assert bool(shown.get("bidi_component")) == (timezone == "Europe/Berlin")

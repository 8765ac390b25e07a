"""The list of tables that can be added."""

from streamlit.testing.v1 import AppTest


def page() -> None:
    """A list that was read six minutes ago."""
    import time
    from datetime import timedelta

    from app.common import jobs
    from app.live import membership
    from engine.base import clock

    job = jobs._jobs().start("survey", lambda: 1)
    while job.ended is None:
        time.sleep(0.01)
    job.ended = clock.utc_now() - timedelta(minutes=6)
    membership._age("survey")


def test_a_list_says_when_it_was_read() -> None:
    """Tables that appeared since are not in it."""
    run = AppTest.from_function(page).run(timeout=30)
    assert not run.exception
    assert ", read 6 min ago. Tables that appeared since are not in it" in run.caption[0].value

"""The lag that `status` and the console say."""

import pytest

from engine.pipeline.known_lag import known_lag


@pytest.mark.parametrize(
    ("lag_s", "age_s", "followed", "words"),
    [
        (0.4, 1.0, True, "0.4 s"),
        (0.4, 9.0, True, "up to 9.0 s"),
        (0.4, 1.0, False, "up to 1.0 s"),
        (3.0, 600.0, False, "up to 10 min 3 s"),
        (None, 1.0, True, "unknown"),
        (None, 600.0, False, "unknown"),
        (None, None, True, "unknown"),
        (0.4, -1.0, False, "up to 0 s"),
    ],
)
def test_a_lag_that_is_not_measured_now_is_an_upper_bound(
    lag_s: float | None, age_s: float | None, followed: bool, words: str
) -> None:
    """From the first second of an outage. A lag that was never measured has no bound."""
    assert known_lag(lag_s, age_s, followed=followed).words == words

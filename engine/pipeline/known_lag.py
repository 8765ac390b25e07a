"""What is known of the lag: one decision for `status` and the console.

The runner measures every two seconds, and not while its source is away or it is gone. Without a current measurement,
everything that was committed since may be lacking: the lag is known only as an upper bound.
"""

from dataclasses import dataclass

from engine.base.wording import duration

NOT_MEASURED = "not measured yet"
"""What is said of a lag before its first measurement."""
LAG_STALE_S = 8.0
"""An older measurement is not current."""


@dataclass(frozen=True)
class KnownLag:
    """The lag at one instant."""

    seconds: float | None
    """None if it is not known."""
    at_most: bool
    """Whether `seconds` is an upper bound, for lack of a current measurement."""

    @property
    def words(self) -> str:
        """`0.4 s`, `up to 48 s`, `unknown`."""
        if self.seconds is None:
            return "unknown"
        return f"up to {duration(round(self.seconds))}" if self.at_most else duration(self.seconds)


def known_lag(lag_s: float | None, age_s: float | None, *, followed: bool) -> KnownLag:
    """The lag now.

    lag_s: as it was last measured; None if the source had not said. age_s: of that measurement; None without any.
    followed: whether a live runner reaches its source.
    """
    current = age_s is not None and is_current(age_s, followed=followed)
    if age_s is None or lag_s is None or current:
        return KnownLag(lag_s if current else None, at_most=not current)
    return KnownLag(lag_s + max(age_s, 0.0), at_most=True)


def is_current(age_s: float, *, followed: bool) -> bool:
    """Whether a measurement of this age says what the lag is now. followed: as of `known_lag`."""
    return followed and age_s <= LAG_STALE_S

"""The only place that reads the time, so that tests can control every use of it."""

import time
from datetime import UTC, datetime


def utc_now() -> datetime:
    """The current time, timezone-aware, in UTC."""
    return datetime.now(UTC)


def utc_text(at: datetime | None = None) -> str:
    """A time (default: now) as `2026-01-31T00:00:00.000000Z`, which sorts as text."""
    return (at or utc_now()).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_utc(text: str) -> datetime:
    """The inverse of `utc_text`."""
    return datetime.fromisoformat(text)


def monotonic_s() -> float:
    """Seconds that never go backwards; only differences mean something."""
    return time.monotonic()


def unix_s() -> float:
    """Seconds since 1970 by this machine's clock."""
    return time.time()


def sleep(seconds: float) -> None:
    """Wait for some seconds."""
    time.sleep(seconds)

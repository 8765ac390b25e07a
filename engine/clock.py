"""The only place that asks for the time, so that tests can see every use of it."""

import time
from datetime import UTC, datetime


def utc_now() -> datetime:
    """The present instant, aware, in UTC."""
    return datetime.now(UTC)


def utc_text(at: datetime | None = None) -> str:
    """An instant (now, when none is given) as `2026-01-31T00:00:00.000000Z`, which sorts as text."""
    return (at or utc_now()).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_utc(text: str) -> datetime:
    """The inverse of `utc_text`."""
    return datetime.fromisoformat(text)


def monotonic_s() -> float:
    """Seconds that never run backwards; only differences mean something."""
    return time.monotonic()


def unix_s() -> float:
    """Seconds since 1970 by this machine's clock."""
    return time.time()


def sleep(seconds: float) -> None:
    """Do nothing for a while."""
    time.sleep(seconds)

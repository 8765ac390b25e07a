"""The `[throttle]` of a spec, and the changes that operators make to it."""

import re
import tomllib
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field, ValidationError, field_validator

from engine.base import clock
from engine.base.errors import SpecError
from engine.spec.periods import period_s
from engine.spec.section import Section

FOR = "for"
"""The argument of the command `throttle` with the period for which the settings are in force."""
_HOURS = re.compile(r"([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-4]):[0-5]\d")


class Throttle(Section):
    """How fast chunks are read, and when.

    `tidemark throttle` changes it at runtime. Only `critical_load` pauses the binlog too.
    """

    readers: int = Field(0, ge=0, le=256)
    """Chunk tasks that run at the same time. 0: as in `snapshot.readers`. With a rate limit, one slot stays free for
    the binlog."""
    max_rows_per_s: int = Field(0, ge=0)
    """Maximum rows per second across all readers. 0: no limit. A change applies to chunks started afterwards."""
    max_bytes_per_s: int = Field(0, ge=0)
    """Maximum bytes per second written to data files. 0: no limit. Converted to rows by the size of the table's rows so
    far."""
    hours: tuple[str, ...] = ()
    """Hours in which chunks may be read, in UTC, such as `22:00-06:00`. Empty: always."""
    max_load: dict[str, float] = Field(default_factory=dict)
    """Limits for status variables of the source, such as `Threads_running`. Above a limit, no new chunk starts."""
    critical_load: dict[str, float] = Field(default_factory=dict)
    """Limits for status variables of the source. Above a limit, the whole pipeline pauses."""
    replicas: tuple[str, ...] = ()
    """Replicas to watch, as `host:port`. No chunk is read while one lags, does not replicate or cannot be queried."""
    max_replica_lag_s: float = Field(10.0, gt=0)
    """The replica lag above which no chunk is read."""

    @field_validator("hours")
    @classmethod
    def _hours(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for hours in value:
            if not _HOURS.fullmatch(hours):
                raise ValueError(f"{hours!r} is not of the form 22:00-06:00 (UTC)")
        return value

    @field_validator("replicas")
    @classmethod
    def _replicas(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for replica in value:
            if not re.fullmatch(r"\S+:\d{1,5}", replica):
                raise ValueError(f"{replica!r} is not of the form host:port")
        return value

    @field_validator("max_load", "critical_load")
    @classmethod
    def _variables(cls, value: dict[str, float]) -> dict[str, float]:
        for name in value:
            if not re.fullmatch(r"\w+", name):
                raise ValueError(f"{name!r} is not the name of a status variable")
        return value


def throttle_changes(settings: Throttle, texts: Iterable[str], period: str = "") -> dict[str, Any]:
    """The arguments of the command `throttle`: changes of these settings as lines of TOML, and a period.

    Raises SpecError.
    """
    try:
        changes = tomllib.loads("\n".join(texts))
    except tomllib.TOMLDecodeError as error:
        raise SpecError(
            f"The settings are not valid TOML: {error}.",
            detail="Nothing was changed.",
            hint="For example max_load.Threads_running=50, or, with quotes for the shell: 'hours=[\"22:00-06:00\"]'",
        ) from None
    throttled(settings, changes)
    end_of_throttle(period or None, clock.utc_now())
    return {**changes, FOR: period} if period else changes


def end_of_throttle(period: Any, now: datetime) -> str:
    """The end of a throttle for a period such as `2h`, as UTC text; "" without a period. Raises SpecError."""
    if period is None:
        return ""
    try:
        return clock.utc_text(now + timedelta(seconds=period_s(period)))
    except (ValueError, TypeError, OverflowError) as error:
        raise SpecError(
            f"No such time: {error}.", detail="Nothing was changed.", hint="For example 2h or 30m."
        ) from None


def throttled(settings: Throttle, changes: dict[str, Any]) -> Throttle:
    """The settings with some changes. Raises SpecError with every fault found."""
    try:
        return Throttle.model_validate({**settings.model_dump(), **changes})
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, e['loc']))}: {e['msg'].removeprefix('Value error, ')}" for e in error.errors()
        )
        names = ", ".join(Throttle.model_fields)
        raise SpecError(
            f"No such throttle: {faults}.", detail="Nothing was changed.", hint=f"Settings: {names}."
        ) from None


def within_hours(hours: tuple[str, ...], time: datetime) -> bool:
    """Whether a UTC time is within any of the hours, ends excluded. True if there are none."""
    now = f"{time:%H:%M}"
    ends = [tuple(part.split("-")) for part in hours]
    return not hours or any(a <= now < b if a <= b else now >= a or now < b for a, b in ends)

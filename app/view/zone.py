"""In what zone times are shown: UTC, or that of whoever looks.

Journals, commands, specs and files are in UTC; this is about the eye alone. The zone belongs to the drawing of one page for
one browser, so it stands in a context variable: every drawing has a thread of its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

_shown: ContextVar[tzinfo] = ContextVar("shown", default=UTC)


def known(name: str | None) -> bool:
    """Whether a browser's zone, by its name in the IANA database, can be computed with."""
    try:
        return bool(name and ZoneInfo(name))
    except (KeyError, OSError, ValueError):
        return False


def show_in(name: str | None) -> None:
    """From here on this drawing shows times in this zone; None: in UTC."""
    _shown.set(ZoneInfo(name) if name else UTC)


def name() -> str:
    """The zone's name: `UTC`, `Europe/Berlin`."""
    return str(_shown.get())


def heading(label: str) -> str:
    """The head of a column of times: `Started (UTC)`."""
    return f"{label} ({name()})"


def local(at: datetime) -> datetime:
    """An instant in the zone that is shown."""
    return at.astimezone(_shown.get())


@contextmanager
def steady(at: datetime) -> Iterator[None]:
    """Within this the zone is as far from UTC as it is at one instant.

    A chart over a change of the clocks has no fold and no gap then.
    """
    before = _shown.set(timezone(local(at).utcoffset() or timedelta(0), name()))
    try:
        yield
    finally:
        _shown.reset(before)


def read(day: str, time_of_day: str) -> datetime:
    """The instant, in UTC, of a time that was typed in the zone that is shown.

    Raises ValueError with a sentence when it is no time, or when clocks that were put forward or back show it never or twice.
    """
    try:
        typed = datetime.fromisoformat(f"{day}T{time_of_day}")
    except ValueError:
        raise ValueError("A time is written 15:30 or 15:30:17.") from None
    if typed.tzinfo is not None:
        raise ValueError("The zone is chosen above; a time is written 15:30 or 15:30:17.")
    first, second = (typed.replace(tzinfo=_shown.get(), fold=fold) for fold in (0, 1))
    if first.utcoffset() != second.utcoffset():
        how = "never" if first.astimezone(UTC).astimezone(_shown.get()).replace(tzinfo=None) != typed else "twice"
        raise ValueError(f"Clocks in {name()} showed this time {how}: choose UTC above, and give the time in UTC.")
    return first.astimezone(UTC)

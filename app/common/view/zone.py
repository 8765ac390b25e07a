"""The time zone in which a page shows times: UTC, or the browser's.

Journals, commands, specs and files are in UTC; the zone only affects what is shown. It belongs to one run of a page for
one browser, and each such run has its own thread, so it is a context variable.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

_zone: ContextVar[tzinfo] = ContextVar("zone", default=UTC)


def exists(name: str | None) -> bool:
    """Whether this is the name of a zone in the IANA database."""
    try:
        return bool(name and ZoneInfo(name))
    except (KeyError, OSError, ValueError):
        return False


def show_in(name: str | None) -> None:
    """Show times in this zone from here on in this run of the page; None means UTC."""
    _zone.set(ZoneInfo(name) if name else UTC)


def name() -> str:
    """The zone's name: `UTC`, `Europe/Berlin`."""
    return str(_zone.get())


def heading(label: str) -> str:
    """The heading of a column of times: `Started (UTC)`."""
    return f"{label} ({name()})"


def local(at: datetime) -> datetime:
    """A time in the chosen time zone."""
    return at.astimezone(_zone.get())


@contextmanager
def steady(at: datetime) -> Iterator[None]:
    """Use the zone's UTC offset at one instant for all times in the block.

    A chart over a clock change then has no fold and no gap.
    """
    before = _zone.set(timezone(local(at).utcoffset() or timedelta(0), name()))
    try:
        yield
    finally:
        _zone.reset(before)


def read(day: str, time_of_day: str) -> datetime:
    """The instant, in UTC, of a time that was entered in the chosen time zone.

    Raises ValueError with a message if it is not a time, or if it does not exist or exists twice because of a clock
    change.
    """
    try:
        local_time = datetime.fromisoformat(f"{day}T{time_of_day}")
    except ValueError:
        raise ValueError("Enter a time such as 15:30 or 15:30:17.") from None
    if local_time.tzinfo is not None:
        raise ValueError("The time zone is chosen above. Enter a time such as 15:30 or 15:30:17.")
    first, second = (local_time.replace(tzinfo=_zone.get(), fold=fold) for fold in (0, 1))
    if first.utcoffset() != second.utcoffset():
        how = (
            "does not exist"
            if first.astimezone(UTC).astimezone(_zone.get()).replace(tzinfo=None) != local_time
            else "exists twice"
        )
        raise ValueError(
            f"Because of a clock change, this time {how} in {name()}. Choose UTC above, and enter the time in UTC."
        )
    return first.astimezone(UTC)

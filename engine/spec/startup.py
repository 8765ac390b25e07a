"""Startup modes: where a pipeline begins (`source.startup`)."""

import difflib
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

_MODES = ("initial", "snapshot", "latest", "earliest")
_GTID_SET = re.compile(r"(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}((:[a-z_][a-z0-9_]{0,31})?(:\d+(-\d+)?)+)+")
_GTID_POSITION = re.compile(r"\d+-\d+-\d+")


def startup_time(text: str) -> datetime:
    """The time of `timestamp:<RFC 3339 UTC>`. Raises ValueError if it is invalid."""
    with suppress(ValueError):
        time = datetime.fromisoformat(text)
        if "T" in text and time.utcoffset() == timedelta(0):
            return time
    raise ValueError(f"timestamp: {text!r} is not a time in UTC such as 2026-01-31T00:00:00Z")


def startup_position(text: str) -> tuple[str, int]:
    """File and offset of `position:<file>:<offset>`. Raises ValueError if it is invalid."""
    match = re.fullmatch(r"(\S+\.\d+):(\d+)", text)
    if match is None:
        raise ValueError(f"position: {text!r} is not a binlog file and an offset such as mysql-bin.000003:4")
    return match[1], int(match[2])


def _check_gtids(text: str) -> None:
    """Raises ValueError for what is neither MySQL's GTID set nor MariaDB's position.

    The server's flavor is not known here.
    """
    parts = [re.sub(r"\s+", "", part) for part in text.split(",")]
    if not any(all(map(form.fullmatch, parts)) for form in (_GTID_SET, _GTID_POSITION)):
        raise ValueError(
            f"gtid: {text!r} is neither a GTID set such as 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5 nor a position of "
            "MariaDB such as 0-1-5"
        )


_MODES_AT: dict[str, Callable[[str], object]] = {
    "timestamp": startup_time,
    "position": startup_position,
    "gtid": _check_gtids,
}
"""Startup modes with an argument, and the function that checks it."""


def checked_startup(mode: str) -> str:
    """Return the mode. Raises ValueError if it does not exist, or its argument is invalid."""
    name, colon, argument = mode.partition(":")
    if colon and name in _MODES_AT:
        _MODES_AT[name](argument)
    elif mode not in _MODES:
        modes = (*_MODES, "timestamp:…", "position:…", "gtid:…")
        nearest = difflib.get_close_matches(mode, modes, 1, 0.0)[0]
        raise ValueError(f"{mode!r} is not a startup mode this version knows ({', '.join(modes)}); nearest: {nearest}")
    return mode

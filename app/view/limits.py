"""How fast tables are read and why not faster: what the spec says, what operators have set, what a form changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.view import words

UNITS = {"max_rows_per_s": "rows/s", "max_bytes_per_s": "MB/s", "readers": "readers"}
_MB = 1_000_000
_RATE = "at most "
"""How the runner begins when it waits for nothing but its rate."""


@dataclass(frozen=True)
class Pace:
    """What holds now. settings: of the throttle, the spec's with what is set. own: those that are not the spec's."""

    settings: Mapping[str, Any]
    own: tuple[str, ...]
    snapshot: bool
    tables: tuple[str, ...]


def pace_of(spec: Mapping[str, Any], controls: Mapping[str, Any] | None) -> Pace:
    """The spec's [throttle] under what `controls.json` holds."""
    controls = controls or {}
    changed = dict(controls.get("throttle") or {})
    return Pace(
        {**spec, **changed}, tuple(sorted(changed)), bool(controls.get("snapshot")), tuple(controls.get("tables") or ())
    )


def lines(pace: Pace, waiting_for: str | None, *, copying: bool = False) -> list[str]:
    """What a person must know of it, a sentence each; none when tables are read as fast as can be.

    copying: tables are being read. Under a rate each group of chunks waits for a moment: that is said of all the time, as a line
    that came and went would move the page under the hand.
    """
    most = (
        rate(pace.settings)
        if copying and not pace.snapshot and (not waiting_for or waiting_for.startswith(_RATE))
        else ""
    )
    if most:
        found = [f"Tables are read no faster than {most}"]
    else:
        found = [f"Reading of tables waits: {waiting_for}"] if waiting_for else []
    if pace.snapshot and not waiting_for:
        found.append("The reading of tables is paused; the log goes on")
    if pace.tables:
        found.append(f"Paused: {', '.join(pace.tables)}; the log goes on")
    return found


def described(pace: Pace) -> str:
    """Every limit that holds, in words."""
    told = [most] if (most := rate(pace.settings)) else []
    if pace.settings.get("readers"):
        told.append(words.plural(pace.settings["readers"], "reader"))
    for name, title in (("hours", "hours (UTC)"), ("replicas", "replicas")):
        if pace.settings.get(name):
            told.append(f"{title} {', '.join(pace.settings[name])}")
    for name, verb in (("max_load", "waits above"), ("critical_load", "pauses above")):
        told += [f"{verb} {variable} {limit:g}" for variable, limit in (pace.settings.get(name) or {}).items()]
    return "; ".join(told) or "no limit"


def rate(settings: Mapping[str, Any]) -> str:
    """The limits of rows and bytes in words; empty without one."""
    told = []
    if settings.get("max_rows_per_s"):
        told.append(f"{settings['max_rows_per_s']:,} rows/s")
    if settings.get("max_bytes_per_s"):
        told.append(f"{words.size(settings['max_bytes_per_s'])}/s of files")
    return "; ".join(told)


def changes(pace: Pace, rows_s: int, mb_s: float, readers: int, hours: str) -> dict[str, Any]:
    """What a form changes, as the command `throttle` takes it; empty when it changes nothing."""
    wanted = {
        "max_rows_per_s": rows_s,
        "max_bytes_per_s": round(mb_s * _MB),
        "readers": readers,
        "hours": [part.strip() for part in hours.split(",") if part.strip()],
    }
    usual: dict[str, Any] = {"hours": []}
    return {
        name: value for name, value in wanted.items() if value != _plain(pace.settings.get(name, usual.get(name, 0)))
    }


def megabytes(pace: Pace) -> float:
    """The limit of bytes, as a form shows it."""
    return round(float(pace.settings.get("max_bytes_per_s", 0)) / _MB, 3)


def pauses(pace: Pace, chosen: Sequence[str]) -> tuple[list[str], list[str]]:
    """Tables to pause and to resume, so that those chosen are paused."""
    before, after = set(pace.tables), set(chosen)
    return sorted(after - before), sorted(before - after)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value

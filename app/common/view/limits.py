"""The throttle: the limits of the spec and of the operators, and the changes that a form makes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.common.view import words
from engine.pipeline.state_words import WRITE_REASONS

_MB = 1_000_000
_RATE = "at most "
"""The beginning of the runner's reason when it only waits for the rate limit."""


@dataclass(frozen=True)
class CurrentLimits:
    """The limits and pauses in force."""

    settings: Mapping[str, Any]
    """The spec's [throttle], overridden by the operators' settings."""
    own: tuple[str, ...]
    """The names of the settings that operators have made."""
    snapshot: bool
    """Whether the whole snapshot is paused."""
    tables: tuple[str, ...]
    """The tables that are paused."""
    until: datetime | None = None
    """When the operators' settings end; None: they stay."""


def pace_of(
    spec: Mapping[str, Any], controls: Mapping[str, Any] | None = None, now: datetime | None = None
) -> CurrentLimits:
    """The spec's [throttle], overridden by `controls.json` as of this time.

    Without a runner, a throttle stays in that file after its end.
    """
    controls = controls or {}
    until = datetime.fromisoformat(controls["until"]) if controls.get("until") else None
    ended = until is not None and now is not None and until <= now
    overrides = dict(controls.get("later" if ended else "throttle") or {})
    own, paused = tuple(sorted(overrides)), tuple(controls.get("tables") or ())
    return CurrentLimits({**spec, **overrides}, own, bool(controls.get("snapshot")), paused, None if ended else until)


@dataclass(frozen=True)
class Preset:
    """A choice of limits."""

    label: str
    help: str
    settings: Mapping[str, Any]


def presets(rows_s: float | None) -> list[Preset]:
    """What an operator is likely to want. rows_s: how many rows are read a second now; None if none are."""
    gentle = {"max_rows_per_s": 2000, "max_bytes_per_s": 0, "readers": 1}
    choices = [Preset("Gentle", "One reader, at most 2,000 rows a second", gentle)]
    if rows_s is not None and rows_s >= 2:
        half = round(rows_s / 2)
        choices.append(
            Preset("Half", f"At most {half:,} rows a second, half of what is read now", {"max_rows_per_s": half})
        )
    free = {"max_rows_per_s": 0, "max_bytes_per_s": 0, "readers": 0}
    return [*choices, Preset("Full speed", "No limits of rows, bytes and readers", free)]


def effect(pace: CurrentLimits, rows_s: float | None) -> str:
    """How fast rows are read, and the share of the limit; "" if none are read. rows_s: rows a second."""
    if rows_s is None:
        return ""
    most = pace.settings.get("max_rows_per_s")
    return f"{rows_s:,.0f} rows/s are read now" + (f", {rows_s / most:.0%} of the limit" if most else "")


def checks(pace: CurrentLimits, waiting_for: str | None) -> str:
    """What the runner polls on the source and on replicas, with the limits; "" if nothing.

    It reports a value above its limit.
    """
    loads = {**(pace.settings.get("max_load") or {}), **(pace.settings.get("critical_load") or {})}
    measures = [*loads, *(f"the lag of {replica}" for replica in pace.settings.get("replicas") or ())]
    if not measures:
        return ""
    over_limit = waiting_for and any(name in waiting_for for name in (*loads, "replica"))
    return f"The runner polls {', '.join(measures)}: {waiting_for if over_limit else 'all within their limits'}."


def notices(pace: CurrentLimits, waiting_for: str | None, *, copying: bool = False) -> list[str]:
    """One sentence per limit or pause that slows the snapshot; none if nothing does.

    copying: tables are being read. With a rate limit, each group of chunks waits for a moment. The notice stays all the
    time, since a line that appears and disappears moves the page.
    """
    most = (
        rate(pace.settings)
        if copying and not pace.snapshot and (not waiting_for or waiting_for.startswith(_RATE))
        else ""
    )
    sentences = [f"Tables are read no faster than {most}"] if most else []
    if waiting_for and not most and not waiting_for.startswith(WRITE_REASONS):  # that has a panel of its own
        sentences.append(f"The snapshot waits: {waiting_for}")
    if pace.snapshot and not waiting_for:
        sentences.append("The snapshot is paused; the binlog is still read")
    if pace.tables:
        sentences.append(f"Paused: {', '.join(pace.tables)}; the binlog is still read")
    return sentences


PERIODS = {"Until changed": None, "1 h": "1h", "2 h": "2h", "8 h": "8h", "24 h": "24h"}
"""For how long limits are set."""


def described(pace: CurrentLimits) -> str:
    """All limits in words."""
    parts = [most] if (most := rate(pace.settings)) else []
    if pace.settings.get("readers"):
        parts.append(words.plural(pace.settings["readers"], "reader"))
    for name, title in (("hours", "hours (UTC)"), ("replicas", "replicas")):
        if pace.settings.get(name):
            parts.append(f"{title} {', '.join(pace.settings[name])}")
    for name, verb in (("max_load", "waits above"), ("critical_load", "pauses above")):
        parts += [f"{verb} {variable} {limit:g}" for variable, limit in (pace.settings.get(name) or {}).items()]
    return "; ".join(parts) or "no limit"


def rate(settings: Mapping[str, Any]) -> str:
    """The rate limits in words; empty without one."""
    parts = []
    if settings.get("max_rows_per_s"):
        parts.append(f"{settings['max_rows_per_s']:,} rows/s")
    if settings.get("max_bytes_per_s"):
        parts.append(f"{words.size(settings['max_bytes_per_s'])}/s of files")
    return "; ".join(parts)


def changes(pace: CurrentLimits, rows_s: int, mb_s: float, readers: int, hours: str) -> dict[str, Any]:
    """The settings that a form changes, as arguments of the command `throttle`."""
    values = {
        "max_rows_per_s": rows_s,
        "max_bytes_per_s": round(mb_s * _MB),
        "readers": readers,
        "hours": [part.strip() for part in hours.split(",") if part.strip()],
    }
    usual: dict[str, Any] = {"hours": []}
    return {
        name: value for name, value in values.items() if value != _plain(pace.settings.get(name, usual.get(name, 0)))
    }


def megabytes(pace: CurrentLimits) -> float:
    """The byte rate for the form."""
    return round(float(pace.settings.get("max_bytes_per_s", 0)) / _MB, 3)


def pauses(pace: CurrentLimits, selected_tables: Sequence[str]) -> tuple[list[str], list[str]]:
    """The tables to pause and to resume, so that exactly the chosen ones are paused."""
    before, after = set(pace.tables), set(selected_tables)
    return sorted(after - before), sorted(before - after)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value

"""The settings that a run follows and those in the spec's file: where they differ, and how the file's take effect."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ABSENT = "not set"
THROTTLE = "throttle"
APPLY = "Apply"
"""The effect of settings that a runner takes over at once."""
_RESTART = "Needs a restart"
_EFFECTS = {
    "source.tables": "Needs a restart; or add and remove tables under Tables",
    "sink.mirror": "Needs a restart, and for mirrors that exist a resnapshot",
    "sink.tables": "Needs a restart, and for mirrors that exist a resnapshot",
    "tables": "Needs a restart, which resnapshots the tables whose columns or rows change",
}


@dataclass(frozen=True)
class Unapplied:
    """A setting of the file that the run does not follow. The values are JSON."""

    setting: str
    in_force: str
    in_file: str
    effect: str
    """How the file's value takes effect."""


def unapplied(in_force: Mapping[str, Any], file: Mapping[str, Any]) -> list[Unapplied]:
    """The settings that differ, by name."""
    now, then = flat(in_force), flat(file)
    values = [(name, now.get(name, ABSENT), then.get(name, ABSENT)) for name in sorted(now.keys() | then.keys())]
    return [Unapplied(name, old, new, _effect(name)) for name, old, new in values if old != new]


def to_apply(changes: Sequence[Unapplied], file: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the command `throttle` that puts the file's limits in force."""
    names = dict.fromkeys(one.setting.split(".")[1] for one in changes if one.setting.startswith(f"{THROTTLE}."))
    return {name: file[THROTTLE][name] for name in names if name in file.get(THROTTLE, {})}


def flat(value: Any, prefix: str = "") -> dict[str, str]:
    """Settings by their names with dots, such as `snapshot.readers`, as JSON."""
    if not isinstance(value, Mapping) or not value:
        return {prefix: json.dumps(value, ensure_ascii=False)}
    return {k: v for key, inner in value.items() for k, v in flat(inner, f"{prefix}.{key}" if prefix else key).items()}


def _effect(setting: str) -> str:
    if setting.startswith(f"{THROTTLE}."):
        return APPLY
    return next((text for name, text in _EFFECTS.items() if f"{setting}.".startswith(f"{name}.")), _RESTART)

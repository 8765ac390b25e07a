"""A spec as TOML: the file that the command line takes."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ORDER = ("name", "source", "snapshot", "throttle", "sink", "spark")
"""Sections in the order in which one reads them; all others follow as they are."""


def toml(values: Mapping[str, Any]) -> str:
    """The TOML of nested dictionaries of texts, numbers, truths and lists; `tomllib` reads the same back."""
    first = {name: values[name] for name in _ORDER if name in values}
    return "\n".join(_section((), {**first, **values})).strip("\n") + "\n"


def _section(path: tuple[str, ...], values: Mapping[str, Any]) -> list[str]:
    """Its own values first, then the sections below it; a section without any value needs no head."""
    own = [f"{_key(name)} = {_value(value)}" for name, value in values.items() if not isinstance(value, Mapping)]
    head = ["", f"[{'.'.join(map(_key, path))}]"] if path and (own or not values) else []
    lines = [*head, *own]
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines += _section((*path, name), value)
    return lines


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {_value(part)}" for name, part in value.items()) + " }"
    if isinstance(value, Sequence):
        return _list([_value(part) for part in value])
    return repr(value) if isinstance(value, int | float) else _text(str(value))


def _list(parts: Sequence[str]) -> str:
    line = "[" + ", ".join(parts) + "]"
    return line if len(line) <= 100 else "[\n" + "".join(f"  {part},\n" for part in parts) + "]"


def _text(value: str) -> str:
    """A TOML basic string: JSON's escapes are a part of TOML's, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

"""A spec as TOML, the file that the command line takes."""

import tomllib
from collections.abc import Mapping, MutableMapping
from typing import Any

import tomlkit
from tomlkit.items import Array, InlineTable, Table

_ORDER = ("name", "source", "snapshot", "throttle", "sink", "spark")
"""The order of the first sections; all others follow as they are."""
_LONG = 100
"""A longer list is written with one line per element."""


def toml(values: Mapping[str, Any], written: str = "") -> str:
    """The TOML of nested dictionaries of strings, numbers, booleans and lists; `tomllib` reads the same values back.

    written: TOML by hand. Its comments, order and layout are kept; its values are replaced.
    """
    text = _edited(values, written)
    # If the layout by hand would change a value, the comments are dropped.
    return text if tomllib.loads(text) == values else _edited(values, "")


def _edited(values: Mapping[str, Any], written: str) -> str:
    document = tomlkit.parse(written)
    _update(document, {name: values[name] for name in (*_ORDER, *values) if name in values})
    return tomlkit.dumps(document).strip("\n") + "\n"


def _update(kept: MutableMapping[str, Any], values: Mapping[str, Any]) -> None:
    """Equal values are not touched, because a comment belongs to its value."""
    for name in [name for name in kept if name not in values]:
        del kept[name]
    for name, value in sorted(values.items(), key=lambda item: isinstance(item[1], Mapping)):
        if isinstance(value, Mapping):
            section = kept.get(name)
            if isinstance(section, MutableMapping):
                _update(section, value)
            else:
                kept[name] = _section(value, inline=isinstance(kept, InlineTable))
        elif isinstance(array := kept.get(name), Array) and isinstance(value, list):
            _update_list(array, value)
        elif name not in kept or not _same(kept[name], value):
            kept[name] = _list(value) if isinstance(value, list) else value


def _update_list(kept: Array, values: list[Any]) -> None:
    for at in reversed(range(len(kept))):
        if kept[at] not in values:
            del kept[at]
    kept.extend(value for value in values if value not in kept)
    if not _same(kept, values):  # another order, or duplicates
        kept.clear()
        kept.extend(values)


def _section(values: Mapping[str, Any], *, inline: bool) -> Table | InlineTable:
    made = tomlkit.inline_table() if inline else tomlkit.table()
    _update(made, values)
    return made


def _list(values: list[Any]) -> Array:
    array = tomlkit.array()
    array.extend(values)
    array.multiline(multiline=len(array.as_string()) > _LONG)
    return array


def _same(kept: Any, value: Any) -> bool:
    """Equal in value and type. To Python, 1, 1.0 and True are equal."""
    return repr(kept.unwrap() if hasattr(kept, "unwrap") else kept) == repr(value)

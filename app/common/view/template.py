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


def _update(container: MutableMapping[str, Any], values: Mapping[str, Any]) -> None:
    """Equal values are not touched, because a comment belongs to its value."""
    for name in [name for name in container if name not in values]:
        del container[name]
    for name, value in sorted(values.items(), key=lambda item: isinstance(item[1], Mapping)):
        if isinstance(value, Mapping):
            section = container.get(name)
            if isinstance(section, MutableMapping):
                _update(section, value)
            else:
                container[name] = _section(value, inline=isinstance(container, InlineTable))
        elif isinstance(array := container.get(name), Array) and isinstance(value, list):
            _update_list(array, value)
        elif name not in container or not _same(container[name], value):
            container[name] = _list(value) if isinstance(value, list) else value


def _update_list(array: Array, values: list[Any]) -> None:
    for at in reversed(range(len(array))):
        if array[at] not in values:
            del array[at]
    array.extend(value for value in values if value not in array)
    if not _same(array, values):  # another order, or duplicates
        array.clear()
        array.extend(values)


def _section(values: Mapping[str, Any], *, inline: bool) -> Table | InlineTable:
    table = tomlkit.inline_table() if inline else tomlkit.table()
    _update(table, values)
    return table


def _list(values: list[Any]) -> Array:
    array = tomlkit.array()
    array.extend(values)
    array.multiline(multiline=len(array.as_string()) > _LONG)
    return array


def _same(item: Any, value: Any) -> bool:
    """Equal in value and type. To Python, 1, 1.0 and True are equal."""
    return repr(item.unwrap() if hasattr(item, "unwrap") else item) == repr(value)

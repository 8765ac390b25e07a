"""A spec as TOML: the file that the command line takes."""

import tomllib
from collections.abc import Mapping, MutableMapping
from typing import Any

import tomlkit
from tomlkit.items import Array, InlineTable, Table

_ORDER = ("name", "source", "snapshot", "throttle", "sink", "spark")
"""Sections in the order in which one reads them; all others follow as they are."""
_LONG = 100
"""A list longer than this has a line for each part."""


def toml(values: Mapping[str, Any], written: str = "") -> str:
    """The TOML of nested dictionaries of texts, numbers, truths and lists; `tomllib` reads the same back.

    written: TOML that somebody wrote. Its comments, order and layout are kept; its values become these.
    """
    text = _edited(values, written)
    # No layout that a hand can think of may change a value: rather the comments go.
    return text if tomllib.loads(text) == values else _edited(values, "")


def _edited(values: Mapping[str, Any], written: str) -> str:
    document = tomlkit.parse(written)
    _update(document, {name: values[name] for name in (*_ORDER, *values) if name in values})
    return tomlkit.dumps(document).strip("\n") + "\n"


def _update(kept: MutableMapping[str, Any], values: Mapping[str, Any]) -> None:
    """What is equal already is not touched: a comment belongs to its value."""
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
    if not _same(kept, values):  # they stand in another order, or twice
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
    """Also in type: 1, 1.0 and true are equal to Python."""
    return repr(kept.unwrap() if hasattr(kept, "unwrap") else kept) == repr(value)

"""Frozen dataclasses from the JSON objects of files, also of those that earlier and later versions wrote."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Any, ClassVar, Protocol, TypeVar


class Record(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


T = TypeVar("T", bound=Record)


def record_from(kind: type[T], value: object) -> T | None:
    """The dataclass with the values of a JSON object; None if it is no object, or lacks a field without a default.

    Keys that the dataclass has no field for are left out.
    """
    if not isinstance(value, Mapping):
        return None
    with suppress(TypeError):
        return kind(**{one.name: value[one.name] for one in fields(kind) if one.name in value})
    return None


def records_from(kind: type[T], values: object) -> tuple[T, ...]:
    """The dataclasses of a JSON list, without those that cannot be read; empty if it is no list."""
    records = (record_from(kind, value) for value in values) if isinstance(values, list | tuple) else ()
    return tuple(one for one in records if one is not None)

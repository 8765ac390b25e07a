"""Converts MySQL's binary JSON in row images to the text that the server returns for `CAST(j AS CHAR)`.

A document is a type byte and a value (MySQL source, sql-common/json_binary.h). All numbers are little-endian. Objects
and arrays are

    members, size, [an entry per key: offset, length], [an entry per value: type, offset], keys, values

Members, size and offsets have two bytes in small containers and four in large ones; key lengths always have two.
Offsets count from the container's start. Literals, 16-bit integers and, in large containers, 32-bit integers are stored
in the value's entry instead of an offset. A string starts with its length, seven bits per byte; an opaque value with a
column type and such a length. Keys are in the order in which the server prints them: by length, then by bytes. A server
that updates documents in place leaves unused bytes anywhere after the entries, so keys and values need not be adjacent.

A document is not trusted. A value must lie in its container, and the values of a container together must not take more
bytes than it has for them. So no byte is visited twice, and a document with overlapping offsets cannot grow without
bounds while it is printed.

This code runs for every single document. So the loop over a container's members is flat, and the keys that objects have
in common are cached.
"""

import json
import re
import struct
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, NamedTuple

from engine.base.errors import DecodeError
from engine.decode.binary_json_text import double_text, malformed, opaque_text, quote

_LITERAL, _INT16, _UINT16, _INT32, _UINT32, _DOUBLE, _STRING, _OPAQUE = 4, 5, 6, 7, 8, 11, 12, 15
_LITERALS = ("null", "true", "false")
_NUMBERS = {
    kind: (struct.Struct("<" + code).unpack_from, struct.calcsize(code))
    for kind, code in zip(range(_INT16, _DOUBLE + 1), "hHiIqQd", strict=True)
}
_DEEPEST = 100
"""The server's JSON_DOCUMENT_MAX_DEPTH."""
_REPLACE, _INSERT, _REMOVE = 0, 1, 2
_MOST_KNOWN, _LARGEST_KNOWN = 4096, 512
"""The number of cached key sections, and the maximum size of each in bytes."""


class _Layout(NamedTuple):
    """A kind of container.

    head, key, entry: bytes of its head, of a key's entry (0 in arrays) and of a value's entry. inline: the last of the
    types, from _LITERAL on, whose values are stored in their entries. prefix_cache: the results of `_prefixes`.
    """

    head: int
    key: int
    entry: int
    inline: int
    keys: struct.Struct
    entries: Callable[[bytes], Iterable[tuple[int, int]]]
    prefix_cache: dict[bytes, list[str]]


_SMALL, _LARGE = struct.Struct("<BH"), struct.Struct("<BI")
_SMALL_KEY, _LARGE_KEY = struct.Struct("<HH"), struct.Struct("<IH")
_LAYOUTS = (
    _Layout(4, 4, 3, _UINT16, _SMALL_KEY, _SMALL.iter_unpack, {}),
    _Layout(8, 6, 5, _UINT32, _LARGE_KEY, _LARGE.iter_unpack, {}),
    _Layout(4, 0, 3, _UINT16, _SMALL_KEY, _SMALL.iter_unpack, {}),
    _Layout(8, 0, 5, _UINT32, _LARGE_KEY, _LARGE.iter_unpack, {}),
)
_HEADS = (struct.Struct("<HH").unpack_from, struct.Struct("<II").unpack_from) * 2


def text_of(document: bytes | memoryview) -> str:
    """The server's text of a document.

    An empty document, which INSERT IGNORE leaves for a missing value, is the JSON null.

    Raises DecodeError for anything that the server does not write.
    """
    data = document if isinstance(document, bytes) else bytes(document)
    if not data:
        return "null"
    kind, end = data[0], len(data)
    try:
        return (_scalar(data, kind, 1, end) if kind >= _LITERAL else _container(data, kind, 1, end, end, 1))[0]
    except (struct.error, IndexError):
        raise _outside() from None
    except UnicodeDecodeError:
        raise malformed("a text is not valid UTF-8") from None


def _outside() -> DecodeError:
    return malformed("a value lies outside its container")


def _too_deep() -> DecodeError:
    return malformed(f"it is more than {_DEEPEST} levels deep")


# One function, for speed.
def _container(  # noqa: C901, PLR0912
    data: bytes, kind: int, at: int, limit: int, room: int, depth: int
) -> tuple[str, int]:
    """The text and size of the object or array at `data[at]`.

    It may have at most `room` bytes and must end by `limit`.
    """
    members, size = _HEADS[kind](data, at)
    head, key, width, inline, _, entries, _ = _LAYOUTS[kind]
    end, first = at + size, at + head + members * key
    stop = first + members * width
    if end > limit or stop > end or size > room:
        raise _outside()
    if depth > _DEEPEST:
        raise _too_deep()
    room, least = end - stop, stop - at
    prefixes = _prefixes(data, kind, at, members, first, stop, end) if key and members else repeat("")
    parts = []
    for prefix, (type_, value) in zip(prefixes, entries(data[first:stop]), strict=False):
        text: str | int
        if type_ == _STRING:
            start = at + value
            length = data[start]
            if length < 0x80:
                start += 1
            else:
                length, start = _length(data, start)
            room -= length
            if start + length > end or room < 0 or value < least:
                raise _outside()
            text = quote(data[start : start + length].decode())
        elif type_ == _INT16:
            text = (value & 0x7FFF) - (value & 0x8000)
        elif type_ == _LITERAL:
            text = _LITERALS[value]
        elif type_ < _LITERAL:
            if value < least:
                raise _outside()
            text, length = _container(data, type_, at + value, end, room, depth + 1)
            room -= length
        elif type_ <= inline:
            text = (value & 0x7FFFFFFF) - (value & 0x80000000) if type_ == _INT32 else value
        else:
            text, length = _scalar(data, type_, at + value, end)
            room -= length
            if room < 0 or value < least:
                raise _outside()
        parts.append(f"{prefix}{text}")
    return f"{{{', '.join(parts)}}}" if key else f"[{', '.join(parts)}]", size


def _prefixes(data: bytes, kind: int, at: int, members: int, first: int, stop: int, end: int) -> list[str]:
    """The keys of an object as JSON literals, each followed by a colon and a blank.

    The object is `data[at:end]`, and the entries of its values are `data[first:stop]`. The keys' entries come before
    those, the keys after them.
    """
    layout = _LAYOUTS[kind]
    offset, length = layout.keys.unpack_from(data, first - layout.key)
    last = at + offset + length
    if last > end:
        raise _outside()
    section = data[at + layout.head : first] + data[stop:last]
    prefixes = layout.prefix_cache.get(section)
    if prefixes is None or len(prefixes) != members:
        prefixes = _read_prefixes(layout.keys, section, members, stop - at)
        if len(section) <= _LARGEST_KNOWN:
            if len(layout.prefix_cache) >= _MOST_KNOWN:
                layout.prefix_cache.clear()
            layout.prefix_cache[section] = prefixes
    return prefixes


def _read_prefixes(entry: struct.Struct, section: bytes, members: int, offset: int) -> list[str]:
    """As `_prefixes`, from the keys' entries and the bytes up to the end of the last key.

    The bytes start at `offset` in the object.
    """
    prefixes, keys = [], members * entry.size
    room = len(section) - keys
    for start, length in entry.iter_unpack(section[:keys]):
        begin = keys + start - offset
        room -= length
        if begin < keys or begin + length > len(section) or room < 0:
            raise _outside()
        prefixes.append(f"{quote(section[begin : begin + length].decode())}: ")
    return prefixes


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Read a length of seven bits per byte, lowest first; the highest bit says that more follow.

    Also returns the next offset.
    """
    length = 0
    for shift in range(0, 35, 7):
        byte = data[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return length, at
    raise malformed("a length has more than five bytes")


def _scalar(data: bytes, kind: int, at: int, end: int) -> tuple[str, int]:
    """The text of the non-container value at `data[at]`, which must end by `end`, and its size in bytes."""
    if kind in _NUMBERS:
        unpack, size = _NUMBERS[kind]
        if at + size > end:
            raise _outside()
        (value,) = unpack(data, at)
        return (double_text(value) if kind == _DOUBLE else str(value)), size
    if kind == _LITERAL:
        return _LITERALS[data[at]], 1
    if kind not in (_STRING, _OPAQUE):
        raise malformed(f"a value has the unknown type {kind}")
    length, start = _length(data, at + (kind == _OPAQUE))
    stop = start + length
    if stop > end:
        raise _outside()
    body = data[start:stop]
    return quote(body.decode()) if kind == _STRING else opaque_text(data[at], body), stop - at


def apply_diffs(document: bytes | memoryview, diffs: bytes | memoryview) -> str:
    """The server's text of a document after applying a diff vector, as in PARTIAL_UPDATE_ROWS events.

    A vector is a sequence of diffs: the operation (one byte: 0 replace, 1 insert, 2 remove), the path and, except for a
    removal, the new value as a document. Path and value have a length-encoded length (MySQL source,
    sql-common/json_diff.cc). An empty vector means that the value did not change. Raises DecodeError for a malformed
    document or diff and, as the server does, for a diff that does not fit the document.
    """
    text = text_of(document)
    if not diffs:
        return text
    data = bytes(diffs)
    tree = json.loads(text, parse_int=_Number, parse_float=_Number)
    changed: dict[int, dict[str, Any]] = {}
    at = 0
    try:
        while at < len(data):
            operation = data[at]
            path, at = _counted(data, at + 1)
            value = None
            if operation < _REMOVE:
                body, at = _counted(data, at)
                value = json.loads(text_of(body), parse_int=_Number, parse_float=_Number)
            _apply(tree, operation, _legs(path.decode()), value, changed)
        for members in changed.values():
            ordered = sorted(members.items(), key=_key_order)
            members.clear()
            members.update(ordered)
    except IndexError:
        raise malformed("a diff is truncated") from None
    except (UnicodeError, json.JSONDecodeError):
        raise malformed("a diff's path is not valid text") from None
    return _dump(tree, 1)


class _Number(str):
    """A number in a tree, as the server printed it."""

    __slots__ = ()


class _ArrayIndex(NamedTuple):
    """An array index, counted from the first element or back from the last."""

    number: int
    back: bool

    def place(self, size: int) -> tuple[int, bool]:
        """The index in an array of `size` elements, clamped to the array, and whether the element exists."""
        inside = self.number < size
        if self.back:
            return (size - 1 - self.number if inside else 0), inside
        return min(self.number, size), inside


_LEG = re.compile(
    r'\.(?P<name>[^\s\[.*"\\]+)|\.(?P<quoted>"(?:[^"\\]|\\.)*")|'
    r"\[(?:last(?:-(?P<back>\d{1,10}))?|(?P<index>\d{1,10}))\]",
    re.ASCII | re.DOTALL,
)


def _legs(path: str) -> list[str | _ArrayIndex]:
    """The keys and indexes of a path as the server writes it.

    That is `$`, then `.name`, `."quoted"`, `[n]`, `[last]` or `[last-n]`.
    """
    legs: list[str | _ArrayIndex] = []
    at = 1
    while at < len(path):
        leg = _LEG.match(path, at)
        if leg is None:
            break
        at = leg.end()
        if leg["name"]:
            legs.append(leg["name"])
        elif leg["quoted"]:
            legs.append(json.loads(leg["quoted"]))
        else:
            legs.append(_ArrayIndex(int(leg["index"] or leg["back"] or 0), back=leg["index"] is None))
    if path[:1] != "$" or at < len(path) or not legs:
        raise malformed(f"a diff has the path {path[:100]!r}")
    return legs


def _apply(
    tree: Any, operation: int, legs: list[str | _ArrayIndex], value: Any, changed: dict[int, dict[str, Any]]
) -> None:
    """Apply one diff. An object that gets a new key is added to `changed`."""
    parent = tree
    for leg in legs[:-1]:
        place = _existing(parent, leg)
        if place is None:
            raise _no_fit(legs)
        parent = parent[place]
    leg = legs[-1]
    place = _existing(parent, leg)
    if operation == _REPLACE and place is not None:
        parent[place] = value
    elif operation == _REMOVE and place is not None:
        del parent[place]
    elif operation == _INSERT and isinstance(parent, list) and isinstance(leg, _ArrayIndex):
        parent.insert(leg.place(len(parent))[0], value)
    elif operation == _INSERT and isinstance(parent, dict) and isinstance(leg, str) and place is None:
        parent[leg] = value
        changed[id(parent)] = parent
    else:
        raise _no_fit(legs)


def _existing(parent: Any, leg: str | _ArrayIndex) -> Any:
    """The key or index of a leg if the container has it, otherwise None."""
    if isinstance(parent, dict):
        return leg if isinstance(leg, str) and leg in parent else None
    if isinstance(parent, list) and isinstance(leg, _ArrayIndex):
        place, inside = leg.place(len(parent))
        return place if inside else None
    return None


def _no_fit(legs: list[str | _ArrayIndex]) -> DecodeError:
    return malformed(f"a diff does not fit its document, at {legs[:10]}")


def _counted(data: bytes, at: int) -> tuple[bytes, int]:
    """Bytes after a length-encoded length, and the offset after them."""
    length, start = data[at], at + 1
    if length > 0xFA:
        width = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(length, 0)
        if not width or start + width > len(data):
            raise malformed("a diff has an invalid length")
        length, start = int.from_bytes(data[start : start + width], "little"), start + width
    if length > len(data) - start:
        raise malformed("a diff is truncated")
    return data[start : start + length], start + length


def _key_order(member: tuple[str, Any]) -> tuple[int, bytes]:
    key = member[0].encode()
    return len(key), key


def _dump(node: Any, depth: int) -> str:
    if isinstance(node, _Number):
        return node
    if isinstance(node, str):
        return quote(node)
    if isinstance(node, (dict, list)):
        if depth > _DEEPEST:
            raise _too_deep()
        if isinstance(node, dict):
            return "{" + ", ".join([f"{quote(key)}: {_dump(value, depth + 1)}" for key, value in node.items()]) + "}"
        return "[" + ", ".join([_dump(value, depth + 1) for value in node]) + "]"
    return "null" if node is None else "true" if node else "false"

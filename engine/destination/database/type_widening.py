"""Whether a column of a database can have another declared type and keep each of its values."""

import re

_INTEGERS = {"tinyint": 1, "smallint": 2, "int": 4, "integer": 4, "bigint": 8}
_DIGITS = {1: 3, 2: 5, 4: 10, 8: 19}
_DECIMAL = re.compile(r"(?:numeric|decimal)\((\d+),(\d+)\)")
_SIZED = re.compile(r"(varchar|varbinary|datetime|timestamp|time)\((\d+)\)")
_UNSIZED = {"varchar": "longtext", "varbinary": "longblob"}


def is_wider(before: str, after: str) -> bool:
    """Whether a type has every value of the type before."""
    if before in _INTEGERS:
        size = _INTEGERS[before]
        if wide := _DECIMAL.fullmatch(after):
            return int(wide[1]) - int(wide[2]) >= _DIGITS[size]
        return _INTEGERS.get(after, 0) > size
    if (narrow := _DECIMAL.fullmatch(before)) and (wide := _DECIMAL.fullmatch(after)):
        before_scale, after_scale = int(narrow[2]), int(wide[2])
        return after_scale >= before_scale and int(wide[1]) - after_scale >= int(narrow[1]) - before_scale
    if sized := _SIZED.fullmatch(before):
        if (other := _SIZED.fullmatch(after)) is not None:
            return other[1] == sized[1] and int(other[2]) >= int(sized[2])
        return after == _UNSIZED.get(sized[1])
    return (before, after) in (("real", "double precision"), ("float", "double"))

"""Arrow columns as columns of JSON texts, without a Python object a value where Arrow can do it.

Decimals are texts: readers take JSON's numbers for floats. So are integers beyond 64 bits, which are decimals in Arrow.
"""

import base64
import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_CONTROLS = "[\\x00-\\x1f]"
_PLAIN_DIGITS = 6
"""Arrow prints smaller decimals with an exponent."""


def json_values(column: pa.ChunkedArray, *, iso: bool) -> pa.ChunkedArray:
    """The values of a column as JSON; NULL as `null`. iso: how times are written (`sink.kafka.timestamps`)."""
    return pc.fill_null(_texts(column, iso=iso), "null")


def json_objects(rows: pa.Table, names: Sequence[str], *, iso: bool) -> pa.ChunkedArray:
    """For each row, a JSON object with these columns."""
    if not names:
        return pa.chunked_array([pa.array(["{}"] * rows.num_rows, pa.string())])
    parts: list[Any] = []
    for number, name in enumerate(names):
        parts += [f"{',' if number else '{'}{json_text(name)}:", json_values(rows[name], iso=iso)]
    return joined(*parts, "}")


def joined(*parts: Any) -> pa.ChunkedArray:
    """Columns of texts and constants, side by side."""
    scalars = [pa.scalar(part, pa.string()) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*scalars, "")


def json_text(text: str) -> str:
    """A text in JSON."""
    return json.dumps(text, ensure_ascii=False)


def quoted(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts in JSON."""
    text = pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(text, _CONTROLS)).as_py():
        for code in range(0x20):
            text = pc.replace_substring(text, chr(code), f"\\u{code:04x}")
    return joined('"', text, '"')


def _texts(column: pa.ChunkedArray, *, iso: bool) -> pa.ChunkedArray:
    type_ = column.type
    if pa.types.is_integer(type_) or pa.types.is_boolean(type_) or pa.types.is_floating(type_):
        return column.cast(pa.string())
    if pa.types.is_decimal(type_) or pa.types.is_date(type_):
        return joined('"', _decimals(column) if pa.types.is_decimal(type_) else column.cast(pa.string()), '"')
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return quoted(column.cast(pa.string()))
    if pa.types.is_timestamp(type_):
        text = column.cast(pa.string())
        text = pc.replace_substring_regex(text, r"\.?0+(Z?)$", r"\1") if type_.unit != "s" else text
        return joined('"', pc.replace_substring(text, " ", "T") if iso else text, '"')
    return _of_bytes_or_lists(column)


def _of_bytes_or_lists(column: pa.ChunkedArray) -> pa.ChunkedArray:
    type_ = column.type
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return _by_value(column, lambda value: f'"{base64.b64encode(value).decode()}"')
    if pa.types.is_list(type_):
        return _by_value(column, _numbers)
    raise AssertionError(f"no JSON for {type_}")  # docs/types.md lists the types of a lake


def _numbers(values: list[float]) -> str:
    """A list of numbers. JSON has no infinite ones, so those are texts."""
    return json.dumps([one if math.isfinite(one) else str(one) for one in values])


def _decimals(column: pa.ChunkedArray) -> pa.ChunkedArray:
    text = column.cast(pa.string())
    if column.type.scale <= _PLAIN_DIGITS:
        return text
    return _by_value(column, lambda value: f"{value:f}") if _has_exponents(text) else text


def _has_exponents(text: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.match_substring(text, "E")).as_py())


def _by_value(column: pa.ChunkedArray, text: Any) -> pa.ChunkedArray:
    values: list[bytes | Decimal | list[float] | None] = column.to_pylist()
    return pa.chunked_array([pa.array([None if one is None else text(one) for one in values], pa.string())])

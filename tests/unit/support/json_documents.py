"""Documents of binary JSON, byte for byte as the server writes them, with the texts that the server shows."""

import json
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st


class TooLargeError(Exception):
    """An offset or a size needs more than two bytes."""


@dataclass(frozen=True)
class Stored:
    """A value that Python cannot represent: its type, bytes and text."""

    type: int
    data: bytes
    text: str


def length_of(size: int) -> bytes:
    """A length in seven bits per byte, lowest first."""
    data = bytearray()
    while size > 0x7F:
        data.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*data, size])


def scalar(value: Any) -> tuple[int, bytes]:
    """The type and the bytes of a value that is no container."""
    if isinstance(value, Stored):
        return value.type, value.data
    if value is None or isinstance(value, bool):
        return 4, bytes([(None, True, False).index(value)])
    if isinstance(value, str):
        data = value.encode()
        return 12, length_of(len(data)) + data
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    for type_, code, low, high in ((5, "<h", -(2**15), 2**15), (7, "<i", -(2**31), 2**31), (9, "<q", -(2**63), 2**63)):
        if low <= value < high:
            return type_, struct.pack(code, value)
    return 10, struct.pack("<Q", value)


def valued(value: Any, *, small_parent: bool = False) -> tuple[int, bytes]:
    """Type and bytes of any value; containers are small if possible."""
    if not isinstance(value, (dict, list)):
        return scalar(value)
    type_ = 0 if isinstance(value, dict) else 2
    try:
        return type_, container(value, large=False)
    except TooLargeError:
        if small_parent:
            raise
        return type_ + 1, container(value, large=True)


def container(value: dict[str, Any] | list[Any], *, large: bool) -> bytes:
    """An object or array: member count, size, key entries, value entries, keys, values."""
    width = 4 if large else 2

    def number(size: int) -> bytes:
        if size >= 1 << 8 * width:
            raise TooLargeError
        return size.to_bytes(width, "little")

    members = sorted(((k.encode(), v) for k, v in value.items()), key=key_order) if isinstance(value, dict) else []
    keys, values = [key for key, _ in members], [v for _, v in members] if isinstance(value, dict) else value
    at = 2 * width + len(keys) * (width + 2) + len(values) * (width + 1)
    key_entries, value_entries, bodies = b"", b"", b"".join(keys)
    for key in keys:
        key_entries += number(at) + len(key).to_bytes(2, "little")
        at += len(key)
    for member in values:
        type_, data = valued(member, small_parent=not large)
        if type_ in (4, 5, 6) or (large and type_ in (7, 8)):
            sign = b"\xff" if type_ in (5, 7) and data[-1] > 0x7F else b"\0"
            value_entries += bytes([type_]) + data.ljust(width, sign)
        else:
            value_entries += bytes([type_]) + number(at)
            bodies += data
            at += len(data)
    return number(len(values)) + number(at) + key_entries + value_entries + bodies


def key_order(member: tuple[bytes, Any]) -> tuple[int, bytes]:
    """Shorter keys first, then by bytes."""
    return len(member[0]), member[0]


def encoded(value: Any) -> bytes:
    """A document."""
    type_, data = valued(value)
    return bytes([type_]) + data


def printed(value: Any) -> str:
    """The expected text of a value."""
    if isinstance(value, Stored):
        return value.text
    if isinstance(value, float):
        return printed_double(value)
    if isinstance(value, dict):
        members = sorted(((k.encode(), v) for k, v in value.items()), key=key_order)
        return "{" + ", ".join(f"{printed(k.decode())}: {printed(v)}" for k, v in members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(printed, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def printed_double(value: float) -> str:
    """Follows `my_gcvt`: shortest digits and position of the point, 0.DIGITS × 10^point."""
    sign, all_digits, exponent = Decimal(repr(value)).as_tuple()
    digits = "".join(map(str, all_digits)).lstrip("0")
    point = len(digits) + int(exponent)
    digits = digits.rstrip("0")
    minus = "-" if sign else ""
    if not digits:
        return minus + "0.0"
    if point < -14 or (point > 15 and len(digits) <= point):
        return f"{minus}{digits[0]}{'.' if len(digits) > 1 else ''}{digits[1:]}e{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    return f"{minus}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"


def opaque(type_: int, data: bytes, text: str) -> Stored:
    """An opaque value of a column type."""
    return Stored(15, bytes([type_]) + length_of(len(data)) + data, text)


def packed_decimal(digits: str, scale: int, *, negative: bool) -> bytes:
    """Precision, scale and digits in groups of nine, as DECIMAL stores them."""
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    groups = [whole[: len(whole) % 9]] + [whole[n : n + 9] for n in range(len(whole) % 9, len(whole), 9)]
    groups += [fraction[n : n + 9] for n in range(0, scale, 9)]
    data = bytearray(b"".join(int(g).to_bytes((0, 1, 1, 2, 2, 3, 3, 4, 4, 4)[len(g)], "big") for g in groups if g))
    data[0] ^= 0x80
    return bytes([len(digits), scale]) + (bytes(b ^ 0xFF for b in data) if negative else bytes(data))


@st.composite
def decimals(draw: st.DrawFn) -> Stored:
    """Decimals of any precision and scale."""
    digits = draw(st.text("0123456789", min_size=1, max_size=65))
    scale, negative = draw(st.integers(0, min(30, len(digits)))), draw(st.booleans())
    whole = digits[: len(digits) - scale].lstrip("0") or "0"
    text = ("-" if negative else "") + whole + ("." + digits[len(digits) - scale :] if scale else "")
    return opaque(246, packed_decimal(digits, scale, negative=negative), text)


@st.composite
def times(draw: st.DrawFn) -> Stored:
    """Times, dates, and dates with times."""
    hour, minute, second = draw(st.integers(0, 838)), draw(st.integers(0, 59)), draw(st.integers(0, 59))
    micros = draw(st.sampled_from([0, 1, 999_999]) | st.integers(0, 999_999))
    type_ = draw(st.sampled_from([7, 10, 11, 12]))
    if type_ == 11:
        packed, negative = (hour << 12 | minute << 6 | second) << 24 | micros, draw(st.booleans())
        text = f'"{"-" * (negative and packed > 0)}{hour:02}:{minute:02}:{second:02}.{micros:06}"'
        return opaque(11, struct.pack("<q", -packed if negative else packed), text)
    year, month, day = draw(st.integers(0, 9999)), draw(st.integers(0, 12)), draw(st.integers(0, 31))
    hour %= 24
    packed = ((((year * 13 + month) << 5 | day) << 17) | hour << 12 | minute << 6 | second) << 24 | micros
    clock = "" if type_ == 10 else f" {hour:02}:{minute:02}:{second:02}.{micros:06}"
    return opaque(type_, struct.pack("<q", packed), f'"{year:04}-{month:02}-{day:02}{clock}"')


texts = (
    st.text(max_size=12)
    | st.text('"\\\b\n\t\0\x1f\x7fé\u2028日😀/', max_size=12)
    | st.integers(120, 140).map("x".__mul__)
)
integers = st.integers(-40_000, 70_000) | st.integers(-(2**63), 2**64 - 1) | st.integers(0, 63).map(lambda n: 2**n - 1)
unsigned = st.one_of(
    st.integers(0, 2**16 - 1).map(lambda n: Stored(6, struct.pack("<H", n), str(n))),
    st.integers(0, 2**32 - 1).map(lambda n: Stored(8, struct.pack("<I", n), str(n))),
    st.integers(0, 2**64 - 1).map(lambda n: Stored(10, struct.pack("<Q", n), str(n))),
)
doubles = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.one_of(st.none(), st.booleans(), integers, unsigned, doubles, texts, decimals(), times())
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(texts, inner, max_size=6), max_leaves=25
)

"""Formats single values of MySQL's binary JSON as the server prints them.

Doubles (MySQL source, strings/dtoa.cc, `my_gcvt` with JSON's width; measured): the shortest digits that read back as
the same double, which are those of `repr`. With the value written as 0.DIGITS × 10^p, it is printed in full if -14 <= p
<= 15, or if p is 16 and there is a 17th digit after the point; otherwise as D.DDDe±N, without a plus sign or leading
zeros. A number with neither point nor exponent then gets ".0".

Opaque values (sql-common/json_dom.cc, `wrapper_to_string`) contain the number of a column type. DECIMAL is printed as a
number, dates and times as strings with six fractional digits, VAR_STRING as its text, and all others as
"base64:typeN:…" in lines of 76 characters, where the line end is the two characters backslash and n.
"""

from binascii import b2a_base64
from functools import lru_cache
from json.encoder import encode_basestring

from engine.base.errors import DecodeError

quote = encode_basestring
"""A string as a JSON literal. Only control characters below 0x20, quotes and backslashes are escaped, in the same way
as by the server's `double_quote`."""

_TIMESTAMP, _DATE, _TIME, _DATETIME, _NEWDECIMAL, _VAR_STRING = 7, 10, 11, 12, 246, 253
_LINE = 76
_GROUP_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_LARGEST_PRECISION = 81
_LARGEST_HOUR = 838


def malformed(what: str) -> DecodeError:
    """The error for bytes that the server does not write."""
    return DecodeError(
        f"A JSON value in the binlog is malformed: {what}.",
        detail="Nothing of it was used.",
        hint="Report this with the server's version; SELECT the value to see whether the server itself can read it.",
    )


def double_text(value: float) -> str:
    """The text of a double. Raises DecodeError for infinity and NaN, which JSON does not have."""
    text = repr(value)
    if -1e15 < value < 1e15 and "e" not in text:
        return text
    return _extreme(text)


def _extreme(text: str) -> str:
    """Convert the text that `repr` returned for a double which it prints, or may print, differently than the server."""
    mantissa, _, power = text.partition("e")
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    sign = "-" if text[0] == "-" else ""
    if not whole.isdigit():
        raise malformed(f"a number is {text}")
    if not power:  # 16 digits before the point
        if fraction != "0":
            return text
        digits = whole.rstrip("0")
        return f"{sign}{digits[0]}.{digits[1:]}e15" if len(digits) > 1 else f"{sign}{digits}e15"
    exponent = int(power)
    if -15 <= exponent < 0:
        return f"{sign}0.{'0' * (-1 - exponent)}{whole}{fraction}"
    return f"{mantissa}e{exponent}"


def opaque_text(type_: int, data: bytes) -> str:
    """The text of an opaque value of a column type, quoted if it is a string.

    Raises DecodeError if `data` is not of that type.
    """
    if type_ == _NEWDECIMAL:
        return _decimal(data)
    if type_ in (_DATE, _TIME, _DATETIME, _TIMESTAMP):
        if len(data) != 8:
            raise malformed(f"a date or time has {len(data)} bytes")
        packed = int.from_bytes(data, "little", signed=True)
        return f'"{_time(packed) if type_ == _TIME else _datetime(packed, date=type_ == _DATE)}"'
    if type_ == _VAR_STRING:
        return quote(data.decode())
    text = b2a_base64(data, newline=False).decode("ascii")
    if len(text) > _LINE:
        text = "\\n".join([text[n : n + _LINE] for n in range(0, len(text), _LINE)])
    return f'"base64:type{type_}:{text}"'


@lru_cache(maxsize=256)
def _groups(precision: int, scale: int) -> tuple[int, tuple[tuple[int, int, int], ...]]:
    """The bytes of a packed decimal and, for each group of digits, its start, its end and its number of digits."""
    whole = precision - scale
    digits = [whole % 9] * (whole % 9 > 0) + [9] * (whole // 9) + [9] * (scale // 9) + [scale % 9] * (scale % 9 > 0)
    at, groups = 0, []
    for count in digits:
        groups.append((at, at + _GROUP_BYTES[count], count))
        at += _GROUP_BYTES[count]
    return at, tuple(groups)


def _decimal(data: bytes) -> str:
    """Precision (1 byte), scale (1) and the packed digits.

    `engine.decode.types.decimals` describes the format.
    """
    precision, scale = data[0], data[1]
    if not scale <= precision <= _LARGEST_PRECISION or not precision:
        raise malformed(f"a decimal has {precision} digits, {scale} of them after the point")
    width, groups = _groups(precision, scale)
    if len(data) != 2 + width:
        raise malformed(f"a decimal of {precision} digits has {len(data) - 2} bytes")
    negative = data[2] < 0x80
    bits = int.from_bytes(data[2:], "big") ^ (1 << 8 * width - 1)
    if negative:
        bits ^= (1 << 8 * width) - 1
    packed = bits.to_bytes(width, "big")
    digits = "".join([f"{int.from_bytes(packed[start:end], 'big'):0{count}d}" for start, end, count in groups])
    if len(digits) != precision:
        raise malformed("a group of a decimal's digits is out of range")
    whole = digits[: precision - scale].lstrip("0") or "0"
    return f"{'-' if negative else ''}{whole}{'.' if scale else ''}{digits[precision - scale :]}"


def _time(packed: int) -> str:
    """Microseconds in the low 24 bits, then seconds and minutes with 6 bits each, then hours; negative as a whole."""
    clock, microseconds = divmod(abs(packed), 1 << 24)
    hour, minute, second = clock >> 12, clock >> 6 & 63, clock & 63
    if hour > _LARGEST_HOUR or minute > 59 or second > 59 or microseconds > 999_999:
        raise malformed("a time is out of range")
    return f"{'-' if packed < 0 else ''}{hour:02d}:{minute:02d}:{second:02d}.{microseconds:06d}"


def _datetime(packed: int, *, date: bool) -> str:
    """As a time with 5 bits of hours; above them the day in 5 bits, then year × 13 + month.

    date: return only the date.
    """
    seconds, microseconds = divmod(packed, 1 << 24)
    days, clock = divmod(seconds, 1 << 17)
    year, month = divmod(days >> 5, 13)
    hour, minute, second = clock >> 12, clock >> 6 & 63, clock & 63
    if not 0 <= year <= 9999 or hour > 23 or minute > 59 or second > 59 or microseconds > 999_999:
        raise malformed("a date is out of range")
    text = f"{year:04d}-{month:02d}-{days & 31:02d}"
    return text if date else f"{text} {hour:02d}:{minute:02d}:{second:02d}.{microseconds:06d}"

"""Binary JSON becomes exactly the server's text. Input that no server writes is an error, soon, and nothing else.

The expected texts were printed by MySQL 9.7. The encoder here writes documents byte for byte as the server does.
"""

import json
import random
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decode.binary_json import apply_diffs, text_of
from engine.decode.binary_json_text import double_text
from engine.errors import DecodeError
from tests.support.depth import depth


class _TooLargeError(Exception):
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
    except _TooLargeError:
        if small_parent:
            raise
        return type_ + 1, container(value, large=True)


def container(value: dict[str, Any] | list[Any], *, large: bool) -> bytes:
    """An object or array: member count, size, key entries, value entries, keys, values."""
    width = 4 if large else 2

    def number(size: int) -> bytes:
        if size >= 1 << 8 * width:
            raise _TooLargeError
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


@given(documents)
@settings(max_examples=depth(100, 1000))
def test_any_document_has_its_text(value: Any) -> None:
    """Any nesting of containers, from bytes and from a memory view."""
    document = encoded(value)
    assert text_of(document) == printed(value)
    assert text_of(memoryview(b"before" + document + b"behind")[6 : 6 + len(document)]) == printed(value)


@given(documents, st.integers(0, 2))
def test_large_containers_have_their_text(value: Any, place: int) -> None:
    """The same values beside a long text, which makes all enclosing containers large."""
    members = [
        value,
        -1,
        65_535,
        -(2**31),
        2**31,
        Stored(6, b"\xfe\xff", "65534"),
        Stored(8, b"\xfe\xff\xff\xff", "4294967294"),
    ]
    members.insert(place, "x" * 70_000)
    document = encoded({"key": members, "other": value})
    assert document[0] == 1
    assert text_of(document) == printed({"key": members, "other": value})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (0.1, "0.1"), (-0.5, "-0.5"), (1e14, "100000000000000.0"), (1e15, "1e15"),
        (1.5e15, "1.5e15"), (1e16, "1e16"), (1e20, "1e20"), (-1e20, "-1e20"), (123456789012345.0, "123456789012345.0"),
        (1234567890123456.0, "1.234567890123456e15"), (1234567890123456.5, "1234567890123456.5"),
        (-9007199254740991.0, "-9.007199254740991e15"), (12345678901234567.0, "1.2345678901234568e16"), (0.00001, "0.00001"),
        (1.5e-5, "0.000015"), (1e-15, "0.000000000000001"), (-1.25e-15, "-0.00000000000000125"), (1e-16, "1e-16"),
        (5e-324, "5e-324"), (2.2250738585072014e-308, "2.2250738585072014e-308"), (1e-100, "1e-100"),
        (1.7976931348623157e308, "1.7976931348623157e308"), (18446744073709551616.0, "1.8446744073709552e19"),
    ],
)  # fmt: skip
def test_doubles(value: float, text: str) -> None:
    """Printed in full between 10^-15 and 10^15, otherwise with an exponent."""
    assert text_of(encoded(value)) == text
    assert double_text(value) == printed_double(value) == text


@given(
    st.one_of(
        doubles, st.integers(0, 2**53).map(lambda n: n / 2), st.integers(-324, 308).map(lambda n: float(f"1e{n}"))
    )
)
@settings(max_examples=depth(150, 1500))
def test_any_double_reads_back(value: float) -> None:
    """The text follows the rule and parses to the same number."""
    assert double_text(value) == printed_double(value)
    assert struct.pack("<d", float(double_text(value))) == struct.pack("<d", value)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("", "null"), ("0400", "null"), ("0401", "true"), ("0402", "false"), ("0000000400", "{}"), ("0200000400", "[]"),
        ("050000", "0"), ("05ffff", "-1"), ("06ffff", "65535"), ("0a4ef330a64b9bb601", "123456789012345678"),
        ("0501007a7a7a", "1"), ("02000004007a7a", "[]"),
        ("0c08001f7fe280a82f22", '"\\u0000\\u001f\x7f\u2028/\\""'), ("0c0408090a0d", '"\\b\\t\\n\\r"'),
        ("0203000d00040100040100040000", "[true, true, null]"),
        ("02010011000f07000b080000000591cbffff", '["-838:59:59.000000"]'),
        ("0f0b08e05ef8ffffffffff", '"-00:00:00.500000"'), ("0f0a080000000000bab219", '"2024-02-29"'),
        ("0f0c0840f5068310bab219", '"2024-02-29 01:02:03.456000"'), ("0f07080000000000bab219", '"2024-02-29 00:00:00.000000"'),
        ("0f0a080000000000000000", '"0000-00-00"'), ("0ff60402018000", "0.0"), ("0ff60402017fff", "-0.0"),
        ("0ff603010185", "0.5"), ("0ff603020285", "0.05"), ("0ff6080d04800000011388", "1.5000"), ("0ff60404048d05", "0.3333"),
        ("0f0f04cafebabe", '"base64:type15:yv66vg=="'), ("0f0f00", '"base64:type15:"'), ("0f0d0105", '"base64:type13:BQ=="'),
        ("0f100207ff", '"base64:type16:B/8="'), ("0ffd0361220a", '"a\\"\\n"'), ("0ffe03616263", '"base64:type254:YWJj"'),
        ("0f0f39" + "ff" * 57, '"base64:type15:' + "/" * 76 + '"'),
        ("0f0f3a" + "ff" * 58, '"base64:type15:' + "/" * 76 + '\\n/w=="'),
        ("0f0fe501" + "00" * 229, '"base64:type15:' + ("A" * 76 + "\\n") * 4 + 'AA=="'),
        ("00010013000b0002000c0f006b31000003616263", '{"k1": "abc"}'),
    ],
)  # fmt: skip
def test_single_documents(document: str, text: str) -> None:
    """Bytes and texts from a server: opaque values, escapes, base64 line breaks, trailing bytes."""
    assert text_of(bytes.fromhex(document)) == text


def test_keys_of_objects_seen_before_are_not_mixed_up() -> None:
    """Objects with the same keys, the same key bytes split differently, and more kinds than are cached."""
    for value in (
        {"ab": 1, "abc": 2},
        {"a": 1, "babc": 2},
        {"ababc": 1},
        {"ab": 3, "abc": "x"},
        {"a": 1, "bb": 2, "abc": 3},
    ):
        for wrapped in (value, [value, value], {"in": value, "ab": value}):
            assert text_of(encoded(wrapped)) == printed(wrapped)
    for n in range(6000):
        value = {f"k{n}": n, "same": {"a": None}}
        assert text_of(encoded(value)) == printed(value)
    # One key whose entry, with the unused bytes in front of it, is what two keys of another object are.
    two, one = encoded({"a": 1, "bbb": 2}), bytes.fromhex("0001001300120001000507001300030061626262")
    for _ in range(2):
        assert text_of(two) == '{"a": 1, "bbb": 2}'
        assert text_of(one) == '{"b": 7}'


def nested(depth: int) -> Any:
    """Alternating objects and arrays, `depth` levels."""
    value: Any = 7
    for n in range(depth):
        value = {"k": value} if n % 3 else [value]
    return value


def test_a_hundred_levels_and_no_more() -> None:
    """The server's own limit."""
    assert text_of(encoded(nested(100))) == printed(nested(100))
    with pytest.raises(DecodeError, match="100 levels"):
        text_of(encoded(nested(101)))


def test_documents_of_several_mebibytes() -> None:
    """Many members, long texts and long keys."""
    rows = [{"id": n, "name": f"n{n}", "value": n / 4} for n in range(8000)]
    for value in (rows, {f"{n:06}": n for n in range(12_000)}, ["y" * 3_000_000], {"k" * 65_535: "v" * 16_384}):
        assert text_of(encoded(value)) == printed(value)


@pytest.mark.parametrize(
    "document",
    [
        "03", "00", "02", "04", "0403", "0500", "07000000", "0b00000000000000", "0c", "0c0261", "0c80", "0cffffffffff01",
        "0d00", "0e00", "1000", "ff00", "0f", "0f0f", "0f0f0200", "0f0b0700000000000000", "0f0c09000000000000000000",
        "0200000500", "0200000300", "0201000400", "0201000700080000", "0201000700040300", "02010007000c0700",
        "02010007000204", "0100000000", "0300000000", "03ffffffff08000000", "02ffffffff", "0202000e000c0a000c0a0003616263",
        "0001000c000b000100040000ff", "0001000c000b0002000400006b", "0001000c00030001000400006b",
        "0b000000000000f07f", "0b000000000000f0ff", "0b000000000000f87f", "0c02fffe", "0c03edb080", "0ffd02fffe",
        "0f0b080000000000503f00", "0f0b08000000000f000000", "0f0b080000003c00000000", "0f0a08ffffffffffffff7f",
        "0f0c080000000000000080",
        "0f0c0800000000f0bbb219", "0f0c0840420f0000bab219", "0ff600", "0ff60100", "0ff6020000", "0ff60401008000",
        "0ff603020180", "0ff603010290", "0ff6030100e3", "0ff603800080",
    ],
)  # fmt: skip
def test_what_no_server_writes_is_an_error(document: str) -> None:
    """Truncated, out of bounds, overlapping, of unknown type, out of range or not UTF-8."""
    with pytest.raises(DecodeError):
        text_of(bytes.fromhex(document))


@given(documents)
def test_cut_off_documents_are_errors(value: Any) -> None:
    """Truncated at every byte, except to zero bytes, which is a document."""
    document = encoded(value)
    for end in range(1, len(document)):
        with pytest.raises(DecodeError):
            text_of(document[:end])


@given(documents, st.randoms(use_true_random=False))
@settings(max_examples=depth(100, 1000))
def test_damaged_documents_are_texts_or_errors(value: Any, chance: random.Random) -> None:
    """Any change of some bytes gives a text in proportion to the document, or a DecodeError."""
    for _ in range(10):
        document = bytearray(encoded(value))
        for _ in range(chance.choice((1, 1, 2, 5))):
            at = chance.randrange(min(len(document), chance.choice((4, 30, 10_000))))
            document[at] = chance.choice(
                (0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256), document[at] ^ 1 << chance.randrange(8))
            )
        if chance.random() < 0.2:
            del document[chance.randrange(len(document)) :]
        with suppress(DecodeError):
            assert len(text_of(bytes(document))) <= 64 + 8 * len(document)


@given(st.binary(max_size=80), st.integers(0, 16))
@settings(max_examples=depth(100, 1000))
def test_any_bytes_are_a_text_or_an_error(data: bytes, kind: int) -> None:
    """As a document and as a diff vector."""
    with suppress(DecodeError):
        text_of(bytes([kind]) + data)
    with suppress(DecodeError):
        apply_diffs(encoded({"a": [1, {"b": 2}]}), data)


def small_array(entries: list[tuple[int, int]], size: int, body: bytes = b"") -> bytes:
    """An array with arbitrary entries and size."""
    return struct.pack("<HH", len(entries), size) + b"".join(struct.pack("<BH", *entry) for entry in entries) + body


def test_overlapping_values_do_not_blow_up() -> None:
    """Each level refers twice to the next, or thousands of entries to one value: an error, at once."""
    levels = b""
    for level in range(90):
        size = 10 + len(levels)
        levels = small_array([(2, 10), (2, 10)], size, levels) if level else small_array([(5, 1), (5, 2)], 10)
    assert len(levels) == 900
    many, long = 10_000, length_of(30_000) + b"x" * 30_000
    same_text = small_array([(12, 4 + 3 * many)] * many, 4 + 3 * many + len(long), long)
    count, key = 5000, b"k" * 30_000
    first = 4 + 7 * count
    same_key = struct.pack("<HH", count, first + len(key)) + struct.pack("<HH", first, len(key)) * count
    same_key += struct.pack("<BH", 5, 1) * count + key
    same_blob = small_array([(15, 4 + 3 * many)] * many, 4 + 3 * many + 1 + len(long), b"\x0f" + long)
    itself = small_array([(2, 0)], 7)
    parent = small_array([(2, 7)], 14, small_array([(2, 0)], 7))
    begun = time.perf_counter()
    for kind, body in ((2, levels), (2, same_text), (0, same_key), (2, same_blob), (2, itself), (2, parent)):
        with pytest.raises(DecodeError):
            text_of(bytes([kind]) + body)
    assert time.perf_counter() - begun < 5


REPLACE, INSERT, REMOVE = 0, 1, 2


def lenenc(data: bytes) -> bytes:
    """Bytes with a length-encoded length in front."""
    size = len(data)
    if size < 0xFB:
        return bytes([size]) + data
    return (b"\xfc" + struct.pack("<H", size) if size < 0x10000 else b"\xfd" + struct.pack("<I", size)[:3]) + data


def diff(operation: int, path: str, *value: Any) -> bytes:
    """One diff, with the new value unless it removes."""
    return bytes([operation]) + lenenc(path.encode()) + b"".join(lenenc(encoded(v)) for v in value)


def path_of(legs: list[str | int], chance: random.Random) -> str:
    """A path, its keys quoted where they need it and some places as `last`."""
    text = "$"
    for leg in legs:
        if isinstance(leg, int):
            text += f"[{leg}]"
        else:
            bare = leg.isascii() and leg.isidentifier() and chance.random() < 0.5
            text += "." + (leg if bare else json.dumps(leg, ensure_ascii=False))
    return text


def places(value: Any, legs: tuple[str | int, ...] = ()) -> list[tuple[Any, tuple[str | int, ...]]]:
    """Every container of a document, with its path."""
    if not isinstance(value, (dict, list)):
        return []
    found = [(value, legs)]
    for place, inner in value.items() if isinstance(value, dict) else enumerate(value):
        found += places(inner, (*legs, place))
    return found


KEYS = ("a", "b", "cc", "", "b c", 'q"\\\n', "é", "😀", "x.y[0]", "last")
keys = st.sampled_from(KEYS)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)


@given(
    st.lists(trees, max_size=4) | st.dictionaries(keys, trees, max_size=5), st.data(), st.randoms(use_true_random=False)
)
@settings(max_examples=120)
def test_any_differences_apply(value: Any, data: st.DataObject, chance: random.Random) -> None:
    """Replacing, inserting and removing anywhere gives the text of the resulting document."""
    before, diffs = encoded(value), b""
    for _ in range(chance.randrange(6)):
        inside, legs = chance.choice(places(value))
        new = data.draw(trees)
        operation = chance.choice((REPLACE, INSERT, REMOVE) if inside else (INSERT,))
        if operation != INSERT:
            place: Any = chance.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
        elif isinstance(inside, list):
            place = chance.randrange(len(inside) + 3)
        else:
            place = chance.choice(sorted({*KEYS, "new"} - set(inside)) or ["newer"])
        path = path_of([*legs, place], chance)
        if isinstance(inside, list) and place < len(inside) and chance.random() < 0.3:
            back = len(inside) - 1 - place
            path = path_of(list(legs), chance) + (f"[last-{back}]" if back else "[last]")
        diffs += diff(operation, path, *([] if operation == REMOVE else [new]))
        if operation == REMOVE:
            del inside[place]
        elif operation == INSERT and isinstance(inside, list):
            inside.insert(place, new)
        else:
            inside[place] = new
    assert apply_diffs(before, diffs) == printed(value)


@pytest.mark.parametrize(
    ("diffs", "text"),
    [
        (b"", '{"a": 1, "l": [1, 2, 3], "b c": {"x": 1.50}}'),
        (diff(REPLACE, "$.a", {}), '{"a": {}, "l": [1, 2, 3], "b c": {"x": 1.50}}'),
        (diff(INSERT, "$.z", None) + diff(INSERT, '$."\\u0000"', 0),
         '{"\\u0000": 0, "a": 1, "l": [1, 2, 3], "z": null, "b c": {"x": 1.50}}'),
        (diff(INSERT, '$."b c".é', "é"), '{"a": 1, "l": [1, 2, 3], "b c": {"x": 1.50, "é": "é"}}'),
        (diff(INSERT, "$.l[0]", 0), '{"a": 1, "l": [0, 1, 2, 3], "b c": {"x": 1.50}}'),
        (diff(INSERT, "$.l[99]", 0), '{"a": 1, "l": [1, 2, 3, 0], "b c": {"x": 1.50}}'),
        (diff(INSERT, "$.l[last]", 0), '{"a": 1, "l": [1, 2, 0, 3], "b c": {"x": 1.50}}'),
        (diff(INSERT, "$.l[last-99]", 0), '{"a": 1, "l": [0, 1, 2, 3], "b c": {"x": 1.50}}'),
        (diff(REMOVE, "$.l[1]") + diff(REMOVE, "$.l[last]"), '{"a": 1, "l": [1], "b c": {"x": 1.50}}'),
        (diff(REPLACE, "$.l[last-1]", [0.1]), '{"a": 1, "l": [1, [0.1], 3], "b c": {"x": 1.50}}'),
        (diff(REMOVE, '$."b c"') + diff(REPLACE, "$.l", "x" * 300), '{"a": 1, "l": "' + "x" * 300 + '"}'),
        (diff(REPLACE, "$.a", "y" * 70_000), '{"a": "' + "y" * 70_000 + '", "l": [1, 2, 3], "b c": {"x": 1.50}}'),
        (b"\x00\x03$.a\x00", '{"a": null, "l": [1, 2, 3], "b c": {"x": 1.50}}'),
    ],
)  # fmt: skip
def test_single_differences(diffs: bytes, text: str) -> None:
    """Positions at the start, the end and from the end; keys are sorted as the server does; numbers keep their text."""
    price = opaque(246, packed_decimal("150", 2, negative=False), "1.50")
    assert apply_diffs(encoded({"a": 1, "l": [1, 2, 3], "b c": {"x": price}}), diffs) == text


@pytest.mark.parametrize(
    "diffs",
    [
        diff(REPLACE, "$.x", 1), diff(REMOVE, "$.x"), diff(INSERT, "$.a", 1), diff(INSERT, "$.a.b", 1),
        diff(INSERT, "$.a[0]", 1), diff(REPLACE, "$.l[3]", 1), diff(REMOVE, "$.l[last-3]"), diff(REPLACE, "$.l.x", 1),
        diff(REPLACE, "$[0]", 1), diff(INSERT, "$[0]", 1), diff(INSERT, "$.l[9].x", 1), diff(3, "$.a", 1), diff(255, "$.a"),
        diff(REPLACE, "$", 1), diff(REMOVE, "$"), diff(REPLACE, "", 1), diff(REPLACE, "a", 1), diff(REPLACE, "$.", 1),
        diff(REPLACE, "$a", 1), diff(REPLACE, "$.*", 1), diff(REPLACE, "$**.a", 1), diff(REPLACE, "$.l[*]", 1),
        diff(REPLACE, "$.l[0 to 1]", 1), diff(REPLACE, "$.l[-1]", 1), diff(REPLACE, "$.l[", 1), diff(REPLACE, "$.l[]", 1),
        diff(REPLACE, "$.l[99999999999]", 1), diff(REPLACE, '$."a', 1), diff(REPLACE, '$."\\q"', 1),
        diff(INSERT, '$."\\ud800"', 1), diff(INSERT, '$."\n"', 1), diff(REPLACE, "$.a\\u0062", 1),
        diff(REPLACE, "$.a", 1) + b"\x07", diff(REPLACE, "$.a", nested(100)),
        b"\x00", b"\x02", b"\x00\x03$.a", b"\x00\x03$.a\x02\x04", b"\x00\x03$.", b"\x00\xfb$.a", b"\x00\xff$.a",
        b"\x00\xfc\x03", b"\x02\xfe" + b"\xff" * 8, b"\x00\x02\xff\xfe\x02\x04\x00", b"\x00\x03$.a\x02\x04\x07",
    ],
)  # fmt: skip
def test_differences_that_do_not_fit_are_errors(diffs: bytes) -> None:
    """Truncated, with an invalid path, at a missing position, or at an occupied one."""
    with pytest.raises(DecodeError):
        apply_diffs(encoded({"a": 1, "l": [1, 2, 3]}), diffs)


def test_differences_do_not_blow_up() -> None:
    """Many keys into one object, and nesting until it is too deep, take a moment."""
    begun = time.perf_counter()
    inserted = b"".join(diff(INSERT, f"$.k{n}", n) for n in range(5000))
    assert apply_diffs(encoded({}), inserted) == printed({f"k{n}": n for n in range(5000)})
    deeper = b"".join(diff(REPLACE, "$" + "[0]" * n, [1]) for n in range(1, 300))
    with pytest.raises(DecodeError, match="100 levels"):
        apply_diffs(encoded([1]), deeper)
    assert time.perf_counter() - begun < 5

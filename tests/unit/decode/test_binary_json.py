"""Binary JSON becomes exactly the server's text. Input that no server writes is an error, soon, and nothing else.

The expected texts were printed by MySQL 9.7. `json_documents` writes them byte for byte as the server does.
"""

import json
import random
import struct
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import DecodeError
from engine.decode.binary_json import apply_diffs, text_of
from engine.decode.binary_json_text import double_text
from tests.support.depth import depth
from tests.unit.support.json_documents import (
    Stored,
    documents,
    doubles,
    encoded,
    length_of,
    opaque,
    packed_decimal,
    printed,
    printed_double,
    scalars,
)


@given(documents)
@settings(max_examples=depth(40, 1000))
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
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (0.1, "0.1"), (-0.5, "-0.5"), (1e14, "100000000000000.0"),
        (1e15, "1e15"),
        (1.5e15, "1.5e15"), (1e16, "1e16"), (1e20, "1e20"), (-1e20, "-1e20"), (123456789012345.0, "123456789012345.0"),
        (1234567890123456.0, "1.234567890123456e15"), (1234567890123456.5, "1234567890123456.5"),
        (-9007199254740991.0, "-9.007199254740991e15"), (12345678901234567.0, "1.2345678901234568e16"),
        (0.00001, "0.00001"),
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
@settings(max_examples=depth(60, 1500))
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
        ("0f0c0840f5068310bab219", '"2024-02-29 01:02:03.456000"'),
        ("0f07080000000000bab219", '"2024-02-29 00:00:00.000000"'),
        ("0f0a080000000000000000", '"0000-00-00"'), ("0ff60402018000", "0.0"), ("0ff60402017fff", "-0.0"),
        ("0ff603010185", "0.5"), ("0ff603020285", "0.05"), ("0ff6080d04800000011388", "1.5000"),
        ("0ff60404048d05", "0.3333"),
        ("0f0f04cafebabe", '"base64:type15:yv66vg=="'), ("0f0f00", '"base64:type15:"'),
        ("0f0d0105", '"base64:type13:BQ=="'),
        ("0f100207ff", '"base64:type16:B/8="'), ("0ffd0361220a", '"a\\"\\n"'),
        ("0ffe03616263", '"base64:type254:YWJj"'),
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
        "03", "00", "02", "04", "0403", "0500", "07000000", "0b00000000000000", "0c", "0c0261", "0c80",
        "0cffffffffff01",
        "0d00", "0e00", "1000", "ff00", "0f", "0f0f", "0f0f0200", "0f0b0700000000000000", "0f0c09000000000000000000",
        "0200000500", "0200000300", "0201000400", "0201000700080000", "0201000700040300", "02010007000c0700",
        "02010007000204", "0100000000", "0300000000", "03ffffffff08000000", "02ffffffff",
        "0202000e000c0a000c0a0003616263",
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
@settings(max_examples=depth(40, 1000))
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
@settings(max_examples=depth(40, 1000))
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
@settings(max_examples=depth(40, 400))
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
        diff(REPLACE, "$[0]", 1), diff(INSERT, "$[0]", 1), diff(INSERT, "$.l[9].x", 1), diff(3, "$.a", 1),
        diff(255, "$.a"),
        diff(REPLACE, "$", 1), diff(REMOVE, "$"), diff(REPLACE, "", 1), diff(REPLACE, "a", 1), diff(REPLACE, "$.", 1),
        diff(REPLACE, "$a", 1), diff(REPLACE, "$.*", 1), diff(REPLACE, "$**.a", 1), diff(REPLACE, "$.l[*]", 1),
        diff(REPLACE, "$.l[0 to 1]", 1), diff(REPLACE, "$.l[-1]", 1), diff(REPLACE, "$.l[", 1),
        diff(REPLACE, "$.l[]", 1),
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

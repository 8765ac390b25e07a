"""Character sets: whole columns become UTF-8 as the servers convert them, value by value."""

import zlib
from collections.abc import Iterator
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decode.charsets import CHARSETS, code_tables, columns, east_asian, single, to_utf8
from tests.support.depth import depth

REFUSED = (UnicodeDecodeError, pa.ArrowInvalid)
UNICODE = {"utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be", "ucs2": "utf-16-be"}
ALL = sorted(CHARSETS)

_LIKELY = st.lists(st.sampled_from(b"\x8e\x8f\xa0\xa1\x810a@\xd8\xdc\0"), max_size=30).map(bytes)
"""Bytes that go together in one set or another."""

# Asked of the servers: bytes, and what SELECT gave.
ASKED = [
    ("latin1", b"Stra\xdfe \x80\x81", "Straße €\x81"),
    ("ascii", b"a\x80\xff", "a??"),
    ("swe7", b"@[\\]^`{|}~\x7f\x80", "ÉÄÖÅÜéäöåü??"),
    ("cp1256", b"\xc7\x8a\xff", "ا??"),
    ("cp866", b"\xfb\xfc\xfd", "√ⁿ²"),
    ("greek", b"\xa1\xa2\xa4\xe1", "ʽʼ?α"),
    ("hebrew", b"\xaf\xe0\xfb", "‾א?"),
    ("koi8u", b"\x95\xa4", "•є"),
    ("armscii8", b"\xa1\xb2\xfe", "❁Ա’"),
    ("dec8", b"\xa8\xd7\xdd\xa4", "¤ŒŸ?"),
    ("geostd8", b"\x80\xc0\xe4\xfd", "€აჰ№"),
    ("keybcs2", b"\x80\x9b\xe1", "ČŠß"),
    ("tis620", b"\xa1\xdb\xff", "ก\ufffd\ufffd"),
    ("hp8", b"\xa1\xff", "À?"),
    ("big5", b"\xa4\xa4\xa1\x5a\xa3\xe1\xf9\xd6", "中\ufffd?碁"),
    ("gbk", b"\xd6\xd0\xa2\xe3\xfe\x7e", "中??"),
    ("gb2312", b"\xd6\xd0\xa2\xa1", "中?"),
    (
        "gb18030",
        b"\xa8\xbc\x81\x35\xf4\x37\x81\x30\x81\x30\x90\x30\x81\x30\x84\x32\x81\x30a",
        "ḿ\ue7c7\x80\U00010000?a",
    ),
    ("euckr", b"\xb0\xa1\x81\x41\xa2\xe8", "가갂?"),
    ("sjis", b"\\~\x81\x5f\xb1\x93\xfa\x87\x40\x81\xad", "\\~\\ｱ日??"),
    ("cp932", b"\\~\x81\x5f\xb1\x93\xfa\x87\x40\x81\xad", "\\~＼ｱ日①?"),
    ("ujis", b"\xc6\xfc\x8e\xb1\xa1\xc0\xf5\xa1\x8f\xb0\xa1\x8f\xf5\xa1\x8e\xa0\xad\xa1a", "日ｱ\\\ue000丂\ue3ac???a"),
    ("eucjpms", b"\xc6\xfc\x8e\xb1\xa1\xc0\xf5\xa1\x8f\xb0\xa1\x8f\xf3\xf3\x8e\xa0\xad\xa1a", "日ｱ＼\ue000丂ⅰ??①a"),
    ("ucs2", b"\xfe\xff\x00a\x4e\x2d", "\ufeffa中"),
    ("utf16", b"\xfe\xff\x00a\xd8\x3d\xde\x00", "\ufeffa😀"),
    ("utf16le", b"\xff\xfea\x00\x3d\xd8\x00\xde", "\ufeffa😀"),
    ("utf32", b"\x00\x00\xfe\xff\x00\x01\xf6\x00", "\ufeff😀"),
    ("utf8mb4", "ä中😀".encode(), "ä中😀"),
    ("utf8mb3", "ä中".encode(), "ä中"),
]

# What no column holds.
MALFORMED = [
    ("utf8mb4", b"\xff"), ("utf8mb4", b"\xed\xa0\x80"), ("utf8mb4", b"\xc0\x80"), ("utf8mb4", b"\xf4\x90\x80\x80"),
    ("utf8mb3", b"\xe4"),
    ("gbk", b"\xd6"), ("gbk", b"\xd6\x30"), ("gbk", b"\x80"), ("gbk", b"\xff\x40"), ("gbk", b"\xd6\x7f"),
    ("big5", b"\xfa\x40"), ("big5", b"\xa4\x80"), ("gb2312", b"\xf8\xa1"), ("gb2312", b"\xd6\x40"),
    ("euckr", b"\xb0\x5b"), ("sjis", b"\xa0"), ("sjis", b"\xfd\x40"), ("sjis", b"\x81\x7f"), ("cp932", b"\x80"),
    ("ujis", b"\x8f"), ("ujis", b"\x8f\xa1"), ("ujis", b"\x8f\x8f\xb0\xa1"), ("ujis", b"\x8e\xe0"), ("ujis", b"\xa0"),
    ("ujis", b"\xa0\xa1"),
    ("eucjpms", b"\x8fa"), ("eucjpms", b"\xa1\x8e"), ("eucjpms", b"\x8e"), ("eucjpms", b"\x8f\x8e\xa0"),
    ("gb18030", b"\x81\x30"), ("gb18030", b"\x81\x30\x81"), ("gb18030", b"\x81\x30\x81\x40"), ("gb18030", b"\x81\x30a"),
    ("gb18030", b"\x81\x30\x81\x30\x81\x30"),
    ("ucs2", b"a"), ("ucs2", b"\xd8\x00"), ("utf16", b"\xd8\x00"), ("utf16", b"\xde\x00\xd8\x3d"),
    ("utf16", b"\x00a\x00"),
    ("utf16le", b"\x00\xd8"), ("utf32", b"\x00\x11\x00\x00"), ("utf32", b"\x00\x00\xd8\x00"),
    ("utf32", b"\x00\x00\x00"),
]  # fmt: skip


def _text_of(raw: bytes, charset: str) -> str:
    """One text."""
    (text,) = to_utf8(pa.array([raw], pa.binary()), charset).to_pylist()
    return str(text)


@pytest.mark.parametrize(("charset", "raw", "text"), ASKED)
def test_examples_from_the_servers(charset: str, raw: bytes, text: str) -> None:
    """Corrections, unassigned codes and other peculiarities decode as the servers send them."""
    assert _text_of(raw, charset) == text


@pytest.mark.parametrize(("charset", "raw"), MALFORMED)
def test_malformed_bytes_are_refused(charset: str, raw: bytes) -> None:
    """Bytes that no column can hold, and surrogates, are an error, alone and beside other texts."""
    for values in ([raw], [b"", raw, None], [None, "ab".encode(UNICODE.get(charset, "ascii")), raw]):
        with pytest.raises(REFUSED):
            to_utf8(pa.array(values, pa.binary()), charset)


@pytest.mark.parametrize(("charset", "first", "second"), [
    ("gbk", b"\xd6", b"\xd0"), ("ujis", b"\x8f\xb0", b"\xa1"), ("ujis", b"\x8f", b"\xb0\xa1"),
    ("ujis", b"\x8e", b"\xa0"),
    ("gb18030", b"\x81\x30", b"\x81\x30"), ("utf16", b"\xd8\x3d", b"\xde\x00"), ("utf16", b"\x00", b"a"),
    ("utf8mb4", b"\xc3", b"\xa4"),
])  # fmt: skip
def test_a_character_does_not_reach_over_two_values(charset: str, first: bytes, second: bytes) -> None:
    """Two values that are valid only when joined are refused."""
    assert _text_of(first + second, charset)
    with pytest.raises(REFUSED):
        to_utf8(pa.array([first, second], pa.binary()), charset)


def test_an_error_names_the_set_and_the_bytes() -> None:
    """The error shows the invalid bytes, and none of the text around them."""
    with pytest.raises(UnicodeDecodeError) as caught:
        to_utf8(pa.array([b"secret", b"\xd6\xd0\xd6\x20secret"], pa.binary()), "gbk")
    assert (caught.value.encoding, caught.value.object) == ("gbk", b"\xd6\x20")
    with pytest.raises(UnicodeDecodeError) as caught:
        to_utf8(pa.array([b"secret\xd6", b"\xd0secret"], pa.binary()), "gbk")
    assert caught.value.object == b"\xd6\xd0"


@pytest.mark.parametrize("charset", ALL)
def test_empty_columns_and_columns_of_nulls(charset: str) -> None:
    """Columns without values, with empty values and with NULLs."""
    for values in ([], [None], [b""], [b"", None, b""]):
        decoded = to_utf8(pa.array(values, pa.binary()), charset)
        assert decoded.type == pa.string()
        assert decoded.to_pylist() == [None if v is None else "" for v in values]


def test_bytes_under_nulls_are_not_looked_at() -> None:
    """Arrow allows any bytes under a NULL: they are neither decoded nor refused."""
    for charset in ("gbk", "latin1", "utf8mb4", "ascii"):
        buffers = [pa.py_buffer(b"\x05"), pa.py_buffer(np.array([0, 1, 3, 4], np.int32)), pa.py_buffer(b"a\xff\xffb")]
        values = pa.Array.from_buffers(pa.binary(), 3, buffers)
        decoded = to_utf8(values, charset)
        decoded.validate(full=True)
        assert decoded.to_pylist() == ["a", None, "b"]


def test_a_column_over_two_gib_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets of 32 bits never wrap around: too much text is an error."""
    monkeypatch.setattr(columns, "_LONGEST", 5)
    assert to_utf8(pa.array([b"\xe4", b"\xe4a"], pa.binary()), "latin1").to_pylist() == ["ä", "äa"]
    with pytest.raises(pa.ArrowCapacityError):
        to_utf8(pa.array([b"\xe4\xe4", b"\xe4"], pa.binary()), "latin1")


FINGERPRINTS = {
    "armscii8": 0x5D747105, "ascii": 0x595BAB8D, "big5": 0x299A900F, "cp1250": 0xFF79F064, "cp1251": 0xB65226FB,
    "cp1256": 0x2B463039, "cp1257": 0x9AAFE8AA, "cp850": 0x3C57DB7E, "cp852": 0xE98B5CDE, "cp866": 0x61149CE1,
    "cp932": 0xCF7DB001, "dec8": 0x2453A83F, "eucjpms": 0xB6909275, "euckr": 0x5CDB9927, "gb18030": 0xE33D0827,
    "gb2312": 0x9A35AD93, "gbk": 0xA3E70001, "geostd8": 0xD6F6304D, "greek": 0x29732872, "hebrew": 0x45161F41,
    "hp8": 0x30781C16, "keybcs2": 0xB2CD760F, "koi8r": 0x4C6B86EB, "koi8u": 0x5A38B755, "latin1": 0x040EC49F,
    "latin2": 0xEC22F3A0, "latin5": 0xC188A953, "latin7": 0xFE9A6B74, "macce": 0x4778E750, "macroman": 0xE21E6838,
    "sjis": 0xD8FAC353, "swe7": 0xB60E6A1E, "tis620": 0x022A3D12, "ujis": 0x460F0E06,
}  # fmt: skip


@pytest.mark.parametrize("charset", sorted(single.CHARSETS | east_asian.CHARSETS))
def test_the_tables_are_the_ones_that_were_proved_on_servers(charset: str) -> None:
    """The decoded text of all codes has the checksum of the live test; another Python codec would change it."""
    assert zlib.crc32(_text_of(b"".join(_codes(charset)), charset).encode()) == FINGERPRINTS[charset]


@pytest.mark.parametrize("charset", ALL)
def test_windows_end_anywhere(charset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text longer than a window decodes alike for any window size, wherever characters are split."""
    codes = _codes(charset)
    text = b"".join(codes[:: len(codes) // 50 or 1] + codes[-9:] + codes[:9])
    column = pa.array([text, b"", text], pa.binary())
    expected = to_utf8(column, charset)
    for size in range(16, 41):
        monkeypatch.setattr(columns, "_WINDOW", size)
        assert to_utf8(column, charset).equals(expected)


@pytest.mark.parametrize("charset", ALL)
def test_long_texts_of_strange_bytes_are_text_or_refused(charset: str) -> None:
    """Lead bytes for longer than a window raise no foreign error."""
    for unit in (b"\x8f", b"\x8e", b"\x81\x30\x81", b"\x81", b"\xfe", b"\xd8", b"\xdc\x00\xd8", b"\x8f\xa1"):
        start = unit * 2002
        try:
            expected = _naive(start, charset)
        except UnicodeDecodeError:
            with pytest.raises(REFUSED):
                _text_of(unit * (columns._WINDOW + 1), charset)
        else:
            assert _text_of(start, charset) == expected


@st.composite
def _columns(draw: st.DrawFn) -> tuple[str, list[bytes | None]]:
    charset = draw(st.sampled_from(ALL))
    codes = _codes(charset)
    text = st.lists(st.sampled_from(codes) | st.sampled_from(codes[:128]), max_size=12).map(b"".join)
    return charset, draw(st.lists(st.none() | text, max_size=12))


@given(_columns(), st.data())
@settings(max_examples=depth(75, 600))
def test_columns_equal_a_naive_model(column: tuple[str, list[bytes | None]], data: st.DataObject) -> None:
    """Any texts, NULLs and slices, in windows of any size, equal a decoder that goes value by value."""
    charset, values = column
    start = data.draw(st.integers(0, len(values)))
    count = data.draw(st.integers(0, len(values) - start))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "_WINDOW", data.draw(st.sampled_from([16, 17, 24, 40, 1 << 16])))
        decoded = to_utf8(pa.array(values, pa.binary()).slice(start, count), charset)
    decoded.validate(full=True)
    assert decoded.to_pylist() == [None if v is None else _naive(v, charset) for v in values[start : start + count]]


@given(st.sampled_from(ALL), st.lists(st.binary(max_size=9) | _LIKELY, max_size=5), st.sampled_from([16, 1 << 16]))
@settings(max_examples=depth(200, 2000))
def test_any_bytes_are_text_or_refused(charset: str, values: list[bytes], window: int) -> None:
    """Random bytes decode as in the naive model, or raise the named error exactly where the model does."""
    try:
        expected = [_naive(value, charset) for value in values]
    except UnicodeDecodeError:
        expected = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "_WINDOW", window)
        try:
            decoded = to_utf8(pa.array(values, pa.binary()), charset).to_pylist()
        except REFUSED:
            decoded = None
    assert decoded == expected


@cache
def _codes(charset: str) -> tuple[bytes, ...]:
    """Valid codes of a set: all single-byte and East Asian ones, ASCII first."""
    if charset in single.CHARSETS:
        return tuple(bytes([a]) for a in range(256))
    if charset in east_asian.CHARSETS:
        return tuple(_east_asian_codes(code_tables.SETS[charset]))
    astral = [0x10000, 0x1F600, 0x10FFFF] if charset not in ("ucs2", "utf8mb3", "utf8") else []
    points = [*range(0xD800), *range(0xE000, 0x10000), *astral * 1000]
    return tuple(chr(point).encode(UNICODE.get(charset, "utf-8")) for point in points)


def _east_asian_codes(this: code_tables.Set) -> Iterator[bytes]:
    yield from (bytes([a]) for a in (*range(128), *(range(0xA1, 0xE0) if this.kana else ())))
    yield from (bytes([a, b]) for first, second in this.areas for a in first for b in second)
    if this.prefixed:
        yield b"\x8e\xa0"
        yield from (bytes([0x8F, a, b]) for a in range(0xA1, 0xFF) for b in range(0xA1, 0xFF))
    if this.halves:
        halves = [bytes([a, b]) for a in range(0x81, 0xFF) for b in range(0x30, 0x3A)]
        # All up to U+FFFF, and around U+10000 and U+10FFFF.
        edges = (*range(39_430), *range(188_990, 1260 * 1260, 997), *range(1_237_570, 1_237_580))
        yield from (halves[n // 1260] + halves[n % 1260] for n in edges)


def _naive(raw: bytes, charset: str) -> str:
    """Decode one value, character by character."""
    if charset in single.CHARSETS:
        codec, corrections = single._SETS[charset]
        own = {first + n: character for first, run in corrections.items() for n, character in enumerate(run)}
        return "".join(own.get(byte) or _or_question_mark(bytes([byte]), codec) for byte in raw)
    if charset in east_asian.CHARSETS:
        return _naive_east_asian(raw, charset)
    text = raw.decode(UNICODE.get(charset, "utf-8"))
    if charset == "ucs2" and any(ord(character) > 0xFFFF for character in text):
        raise UnicodeDecodeError(charset, raw, 0, len(raw), "surrogates")
    return text


def _naive_east_asian(raw: bytes, charset: str) -> str:
    this, at, text = code_tables.SETS[charset], 0, ""
    while at < len(raw):
        width = 1
        if this.prefixed and raw[at] == 0x8F:
            width = 3
        elif raw[at] >= 0x80 and not (this.kana and 0xA1 <= raw[at] <= 0xDF):
            width = 4 if this.halves and raw[at + 1 : at + 2].isdigit() else 2
        code = raw[at : at + width]
        if code not in _code_set(charset) and not (width == 4 and _is_four_bytes(code)):
            raise UnicodeDecodeError(charset, raw, at, at + width, "no character")
        own = this.points.get(int.from_bytes(code, "big"))
        text += (
            "??" if code == b"\x8e\xa0" and this.prefixed else chr(own) if own else _or_question_mark(code, this.codec)
        )
        at += width
    return text


@cache
def _code_set(charset: str) -> frozenset[bytes]:
    return frozenset(_codes(charset))


def _is_four_bytes(code: bytes) -> bool:
    return len(code) == 4 and all(0x81 <= b <= 0xFE for b in code[::2]) and code[1::2].isdigit()


def _or_question_mark(code: bytes, codec: str) -> str:
    try:
        return code.decode(codec)
    except UnicodeDecodeError:
        return "?"

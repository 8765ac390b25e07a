"""MySQL character sets to UTF-8, exactly as the server converts them."""

import codecs

import pyarrow as pa

_UTF8 = frozenset({"utf8mb4", "utf8mb3", "utf8", "ascii"})
CHARSETS = _UTF8 | {"latin1"}


def _latin1_table() -> str:
    """MySQL's latin1: Windows-1252 with its five undefined bytes passed through.

    Source: MySQL manual, "West European Character Sets".
    """
    table = []
    for byte in range(256):
        try:
            table.append(bytes([byte]).decode("cp1252"))
        except UnicodeDecodeError:
            table.append(chr(byte))
    return "".join(table)


_LATIN1 = _latin1_table()


def to_utf8(values: pa.Array, charset: str) -> pa.Array:
    """Binary values in `charset` as UTF-8 strings.

    Raises pyarrow.ArrowInvalid or UnicodeDecodeError for bytes that are not text in that character set.
    """
    if charset in _UTF8:
        return values.cast(pa.string())
    if _ascii(values):
        return values.cast(pa.string())
    # Each distinct value is decoded once.
    encoded = values.dictionary_encode()
    decoded = [
        None if v is None else codecs.charmap_decode(v, "strict", _LATIN1)[0] for v in encoded.dictionary.to_pylist()
    ]
    return pa.array(decoded, pa.string()).take(encoded.indices)


def _ascii(values: pa.Array) -> bool:
    """Whether no byte of any value is above 0x7F."""
    data = values.buffers()[2]
    return data is None or memoryview(data).tobytes().isascii()

"""MariaDB's UUID, INET4 and INET6: texts in rows, fixed-size binaries without trailing zero bytes in images.

The texts are the server's own (MariaDB source, plugin/type_uuid and plugin/type_inet): lower case; in an INET6 the
first longest run of two or more zero groups is `::`. An address that begins with 96 zero bits, or 80 and then ffff,
ends like an INET4.
"""

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.decode.framing import Offsets
from engine.decode.schema import Column
from engine.decode.types.base import Mapped, Nulls, RecordBuffer, ValueType
from engine.decode.types.strings import image_padded, row_texts

_STRING = 254
_GROUPS = (4, 2, 2, 2, 6)


@cache
def _bytes(form: str) -> pa.Array:
    """The text of each byte.

    Created when first needed, because a process's first array from a list makes PyArrow import pandas.
    """
    return pa.array([format(n, form) for n in range(256)])


def _columns(value: pa.Array, width: int) -> list[pa.Array]:
    """The n-th byte of every value, for each n; NULL if the value is NULL."""
    filled = pc.fill_null(value, b"\0" * width)
    raw = np.frombuffer(b"".join(filled.to_pylist()), np.uint8).reshape(-1, width)
    nulls = value.is_null().to_numpy(zero_copy_only=False) if value.null_count else None
    return [pa.array(raw[:, n], mask=nulls) for n in range(width)]


def _inet4(value: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*(_bytes("d").take(column) for column in _columns(value, 4)), ".")


def _uuid(value: pa.Array) -> pa.Array:
    pairs = [_bytes("02x").take(column) for column in _columns(value, 16)]
    groups, at = [], 0
    for size in _GROUPS:
        groups.append(pc.binary_join_element_wise(*pairs[at : at + size], ""))
        at += size
    return pc.binary_join_element_wise(*groups, "-")


def inet6_text(address: bytes) -> str:
    """Sixteen bytes as MariaDB prints them."""
    groups = [int.from_bytes(address[n : n + 2], "big") for n in range(0, 16, 2)]
    first = length = 0
    for n in range(8):
        run = next((k for k in range(n, 8) if groups[k]), 8) - n
        if run > length:
            first, length = n, run
    texts = [f"{group:x}" for group in groups]
    if first == 0 and (length == 6 or (length == 5 and groups[5] == 0xFFFF)):
        texts[6:] = [".".join(str(byte) for byte in address[12:])]
    if not length:
        return ":".join(texts)
    return ":".join(texts[:first]) + "::" + ":".join(texts[first + length :])


def _inet6(value: pa.Array) -> pa.Array:
    distinct = value.dictionary_encode()
    texts = [inet6_text(address) for address in distinct.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(distinct.indices)


def _images(
    width: int,
    text: Callable[[pa.Array], pa.Array],
    records: RecordBuffer,
    at: Offsets,
    null: Nulls,
    column: Column,
    mapped: Mapped,
) -> tuple[pa.Array, Offsets]:
    value, after = image_padded(width, records, at, null, column, mapped)
    return text(value), after


def _fixed(width: int, text: Callable[[pa.Array], pa.Array]) -> ValueType:
    return ValueType(
        arrow=lambda _: pa.string(),
        row=row_texts,
        image=partial(_images, width, text),
        protocol=frozenset({_STRING}),
        binlog=frozenset({_STRING}),
        fits=lambda _, mapped: mapped.metadata == bytes((_STRING, width)),
    )


TYPES = {"uuid": _fixed(16, _uuid), "inet4": _fixed(4, _inet4), "inet6": _fixed(16, _inet6)}

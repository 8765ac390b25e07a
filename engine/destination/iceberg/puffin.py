"""Puffin files: the deletion vectors of a commit. Their bytes are those of Delta's deletion vectors.

Behind each blob is a gap of its length. DuckDB (1.5.5) keeps the parts of a file that it has read, and answers a
request for a part that begins within twice the length of a kept one with the beginning of that one: a data file would
get the deletes of another one. Measured with vectors of many sizes: a gap of nine tenths was not enough, one of the
length always was.

Source: Puffin spec (iceberg.apache.org/puffin-spec), "File structure", "deletion-vector-v1 blob type".
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from engine import __version__

_MAGIC = b"PFA1"
_POSITIONS_FIELD = 2147483645
"""The identifier that the spec reserves for the position of a row."""


@dataclass(frozen=True)
class Blob:
    """A deletion vector with its length and checksum, as both formats frame it."""

    data_file: str
    """The URI of the file whose rows it deletes."""
    content: bytes
    rows: int


def puffin(blobs: Sequence[Blob]) -> tuple[bytes, list[int]]:
    """The file, and where each blob begins in it."""
    offsets, position = list[int](), len(_MAGIC)
    for blob in blobs:
        offsets.append(position)
        position += 2 * len(blob.content)
    entries = [
        {
            "type": "deletion-vector-v1",
            "fields": [_POSITIONS_FIELD],
            "snapshot-id": -1,  # inherited
            "sequence-number": -1,
            "offset": offset,
            "length": len(blob.content),
            "properties": {"referenced-data-file": blob.data_file, "cardinality": str(blob.rows)},
        }
        for blob, offset in zip(blobs, offsets, strict=True)
    ]
    footer = json.dumps({"blobs": entries, "properties": {"created-by": f"Tidemark {__version__}"}}).encode()
    flags = bytes(4)
    end = _MAGIC + footer + struct.pack("<i", len(footer)) + flags + _MAGIC
    padded = (blob.content + bytes(len(blob.content)) for blob in blobs)
    return b"".join([_MAGIC, *padded, end]), offsets

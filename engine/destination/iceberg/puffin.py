"""Puffin files: the deletion vectors of a commit. Their bytes are those of Delta's deletion vectors.

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
        position += len(blob.content)
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
    return b"".join([_MAGIC, *(blob.content for blob in blobs), end]), offsets

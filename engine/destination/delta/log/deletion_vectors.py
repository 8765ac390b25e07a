"""Delta deletion vectors: files that name rows of data files, by position, which no longer belong to the table.

A vector file is a version byte (1), then for each vector: its size (big-endian int32), the vector, and its CRC32
(big-endian). A vector is a magic number (little-endian int32), a count of bitmaps (int64), then per bitmap the upper 32
bits of its positions and a Roaring bitmap in the portable format. Source: Delta transaction log protocol, "Deletion
Vector Format" (github.com/delta-io/delta, PROTOCOL.md).

We write storage type `u` alone: Spark's VACUUM fails on inline vectors. Our vector files are in a folder of their own,
because `vacuum(full=True)` of deltalake deletes those in the table's root.
"""

import base64
import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from engine.base.durable import discarding
from engine.base.errors import DestinationError
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.store.folder import Folder

FOLDER = "_dv"
_MAGIC = 1681511377
_VERSION = 1
_UUID_CHARACTERS = 20
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85, _FROM_Z85 = str.maketrans(_B85, _Z85), str.maketrans(_Z85, _B85)

Positions = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Descriptor:
    """Where the deletion vector of a data file is: the `deletionVector` of an `add` action."""

    storage: str
    """`u`: in a file named by a UUID; `i`: inline; `p`: in a file at an absolute path."""
    path: str
    """The encoded UUID with the file's folder in front, the encoded vector, or the path."""
    offset: int | None
    """Where the vector begins in its file, in bytes."""
    size: int
    """The vector's bytes."""
    cardinality: int
    """The number of deleted rows."""

    @property
    def end(self) -> int:
        """Where the vector ends in its file, with the length before it and the checksum behind it, in bytes."""
        return (self.offset or 0) + self.size + 8

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """From an action's `deletionVector`."""
        offset = fields.get("offset")
        return cls(
            fields["storageType"],
            fields["pathOrInlineDv"],
            None if offset is None else int(offset),
            int(fields["sizeInBytes"]),
            int(fields["cardinality"]),
        )

    def to_json(self) -> dict[str, Any]:
        """The inverse of `from_json`."""
        place = {} if self.offset is None else {"offset": self.offset}
        names = {"storageType": self.storage, "pathOrInlineDv": self.path}
        return {**names, **place, "sizeInBytes": self.size, "cardinality": self.cardinality}

    @cached_property
    def file(self) -> str | None:
        """The vector file, relative to the table's folder; None if the vector is elsewhere."""
        if self.storage != "u":
            return None
        folder, name = self.path[:-_UUID_CHARACTERS], self.path[-_UUID_CHARACTERS:]
        return f"{folder}{'/' if folder else ''}deletion_vector_{uuid.UUID(bytes=_decoded(name))}.bin"


def read_vector(folder: Folder, descriptor: Descriptor, contents: dict[str, bytes] | None = None) -> BitMap:
    """The deleted positions of a data file. Raises DestinationError when the vector is missing, damaged or elsewhere.

    contents: keeps the files that were read, by name, for who reads many vectors of one commit, which are in one file.
    """
    if descriptor.storage == "i":
        return _parsed(_decoded(descriptor.path)[: descriptor.size], descriptor, "inline")
    if descriptor.file is None:
        raise _unreadable(folder.url, descriptor.path, "it is outside of the table's folder")
    try:
        data = _content(folder, descriptor.file, descriptor.offset or 0, descriptor.size + 8, contents)
    except (StoreAwayError, StoreAccessError):
        raise
    except OSError as error:
        raise _unreadable(folder.url, descriptor.file, str(error)) from error
    vector = data[4:-4]
    framed = len(data) == descriptor.size + 8 and struct.unpack(">i", data[:4]) == (descriptor.size,)
    if not framed or struct.unpack(">I", data[-4:]) != (zlib.crc32(vector),):
        raise _unreadable(folder.url, descriptor.file, "its size or checksum is wrong")
    return _parsed(vector, descriptor, descriptor.file)


def _content(folder: Folder, name: str, offset: int, size: int, contents: dict[str, bytes] | None) -> bytes:
    if contents is None:
        return folder.read(name, offset, size)
    if name not in contents:
        contents[name] = folder.read(name)
    return contents[name][offset : offset + size]


def _parsed(vector: bytes, descriptor: Descriptor, name: str) -> BitMap:
    rows = BitMap()
    magic, bitmaps = struct.unpack_from("<iq", vector)
    begin = struct.calcsize("<iq")
    for _ in range(bitmaps if magic == _MAGIC else 0):
        (upper,) = struct.unpack_from("<I", vector, begin)
        bitmap = BitMap.deserialize(vector[begin + 4 :])
        begin += 4 + (len(bitmap.serialize()) if bitmaps > 1 else 0)
        if upper and bitmap:
            raise _unreadable("the table", name, "it names rows beyond 2³²")
        rows |= bitmap
    if len(rows) != descriptor.cardinality:
        raise _unreadable("the table", name, f"it has {len(rows)} of {descriptor.cardinality} rows")
    return rows


def positions(rows: BitMap) -> Positions:
    """A bitmap's members in order."""
    return np.asarray(rows.to_array(), dtype=np.uint32)


def framed(rows: BitMap) -> bytes:
    """A vector with its size in front and its checksum behind, as a vector file has it."""
    vector = struct.pack("<iq", _MAGIC, 1) + struct.pack("<I", 0) + rows.serialize()
    return struct.pack(">i", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))


def unframed(data: bytes) -> BitMap:
    """The inverse of `framed`. Raises ValueError."""
    vector = data[4:-4]
    if struct.unpack(">i", data[:4]) != (len(vector),) or struct.unpack(">I", data[-4:]) != (zlib.crc32(vector),):
        raise ValueError("the size or the checksum of a deletion vector is wrong")
    begin = struct.calcsize("<iqI")
    return BitMap.deserialize(vector[begin:])


def write_vectors(folder: Folder, vectors: Sequence[BitMap]) -> list[Descriptor]:
    """Write the vectors of a commit to one synced file. Returns their descriptors, in order."""
    name, data, descriptors = uuid.uuid4(), bytearray([_VERSION]), list[Descriptor]()
    for rows in vectors:
        rows.run_optimize()
        vector = framed(rows)
        descriptors.append(Descriptor("u", FOLDER + _encoded(name.bytes), len(data), len(vector) - 8, len(rows)))
        data += vector
    if not descriptors:
        return []
    upload = folder.upload(str(descriptors[0].file))
    with discarding(upload.discard):
        upload.write(bytes(data))
        upload.close()
    return descriptors


def _encoded(data: bytes) -> str:
    """ZeroMQ's Base85 (Z85) is Python's with another alphabet."""
    return base64.b85encode(data).decode().translate(_TO_Z85)


def _decoded(text: str) -> bytes:
    return base64.b85decode(text.translate(_FROM_Z85))


def _unreadable(folder: str, name: str, why: str) -> DestinationError:
    return DestinationError(
        f"The deletion vector {name} of {folder} cannot be read: {why}.",
        detail="Without it, deleted rows would reappear; nothing was written.",
        hint="Resnapshot the table: tidemark redump SPEC --table … (Or restore the file from a copy, "
        "unless the table stopped.)",
    )

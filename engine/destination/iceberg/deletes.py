"""The deleted rows of a snapshot, in the way of its table's version.

In version 3, each data file has one deletion vector at most: a new one replaces the earlier one. In version 2, each
commit adds a file with the new positions of all data files; when there are many such files, they are merged.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from engine.base.parallel import map_parallel
from engine.destination.iceberg.changes import Vector, VersionChange
from engine.destination.iceberg.manifest_files import (
    ADDED,
    DATA,
    DELETES,
    POSITION_DELETES,
    PUFFIN,
    FileRecord,
    ManifestEntry,
)
from engine.destination.iceberg.manifest_set import ManifestSet, NextSnapshot
from engine.destination.iceberg.position_deletes import PATH_FIELD, RowPositions, content_of, united
from engine.destination.iceberg.puffin import Blob, puffin

MOST_DELETE_FILES = 20
"""The most files of position deletes; then they are merged."""


def change_deletes(files: ManifestSet, change: VersionChange, following: NextSnapshot) -> None:
    """Give the next snapshot its deletes, after its data files."""
    if files.format == 3:
        _change_vectors(files, change, following)
    else:
        _change_positions(files, change, following)


@dataclass(frozen=True)
class DeletedRows:
    """The deleted rows of a data file in a snapshot."""

    rows: int
    """How many."""
    positions: Callable[[], RowPositions]
    """Reads which, in order."""


def deleted_rows(
    files: ManifestSet, live: Collection[str], unpack: Callable[[bytes], RowPositions]
) -> dict[str, DeletedRows]:
    """The deleted rows of a snapshot, by data file. Vectors are read when they are asked for.

    live: its data files. unpack: the positions of a vector, from its content. Raises MetadataGoneError.
    """
    entries = [entry.file for entry in files.live_entries(DELETES)]
    if files.format == 3:
        return {one.name: DeletedRows(one.rows, partial(_vector_of, files, one, unpack)) for one in entries}
    contents = map_parallel(files.read_file, [one.path for one in entries], files.folder.at_once)
    positions = {uri: rows for uri, rows in united(contents).items() if uri in live}
    return {uri: DeletedRows(len(rows), partial(np.asarray, rows)) for uri, rows in positions.items()}


def _vector_of(files: ManifestSet, record: FileRecord, unpack: Callable[[bytes], RowPositions]) -> RowPositions:
    return unpack(files.read_part(record.path, record.offset or 0, record.length or 0))


def _change_vectors(files: ManifestSet, change: VersionChange, following: NextSnapshot) -> None:
    vectors = {uri: vector for uri, vector in change.vectors.items() if vector is not None}
    if not (vectors or change.vectors or change.removed or change.is_whole):
        return
    before = {entry.file.name for entry in files.live_entries(DELETES)}
    replaced = before if change.is_whole else before & (change.removed | change.vectors.keys())
    files.change(following, DELETES, replaced, _vector_entries(files, vectors, following))


def _vector_entries(files: ManifestSet, vectors: Mapping[str, Vector], following: NextSnapshot) -> list[ManifestEntry]:
    if not vectors:
        return []
    contents = map_parallel(lambda vector: vector.content(), vectors.values(), files.folder.at_once)
    pairs = zip(vectors.items(), contents, strict=True)
    blobs = [Blob(uri, content, vector.rows) for (uri, vector), content in pairs]
    content, offsets = puffin(blobs)
    path = files.add_file(f"{following.prefix}-dv.puffin", content)
    records = [
        FileRecord(
            path,
            blob.rows,
            len(content),
            format=PUFFIN,
            content=POSITION_DELETES,
            referenced=blob.data_file,
            offset=offset,
            length=len(blob.content),
        )
        for blob, offset in zip(blobs, offsets, strict=True)
    ]
    return [ManifestEntry(ADDED, following.id, None, record) for record in records]


def _change_positions(files: ManifestSet, change: VersionChange, following: NextSnapshot) -> None:
    before = {entry.file.path for entry in files.live_entries(DELETES)}
    if change.is_whole:
        positions = {uri: vector.positions() for uri, vector in change.vectors.items() if vector is not None}
        files.change(following, DELETES, before, _position_entries(files, positions, following))
        return
    positions, reset = dict[str, RowPositions](), set[str]()
    for uri, vector in change.vectors.items():
        now, earlier = _empty() if vector is None else vector.positions(), _earlier(vector)
        positions[uri] = np.setdiff1d(now, earlier, assume_unique=True)
        if vector is None or len(now) != len(earlier) + len(positions[uri]):
            reset.add(uri)  # a position in an earlier file of deletes cannot be taken back
            positions[uri] = now
    replaced = set[str]()
    if before and (reset or len(before) >= MOST_DELETE_FILES):
        replaced = before
        live = {entry.file.path for entry in files.live_entries(DATA)}
        contents = map_parallel(files.read_file, sorted(before), files.folder.at_once)
        for uri, earlier in united(contents).items():
            if uri in live and uri not in reset:
                positions[uri] = np.union1d(earlier, positions.get(uri, _empty()))
    positions = {uri: rows for uri, rows in positions.items() if len(rows)}
    files.change(following, DELETES, replaced, _position_entries(files, positions, following))


def _earlier(vector: Vector | None) -> RowPositions:
    return _empty() if vector is None else vector.earlier_positions()


def _empty() -> RowPositions:
    return np.empty(0, np.uint32)


def _position_entries(
    files: ManifestSet, positions: Mapping[str, RowPositions], following: NextSnapshot
) -> list[ManifestEntry]:
    if not positions:
        return []
    content = content_of(positions)
    path = files.add_file(f"{following.prefix}-deletes.parquet", content)
    rows = sum(len(of_file) for of_file in positions.values())
    low, high = ({PATH_FIELD: end(positions).encode()} for end in (min, max))
    record = FileRecord(path, rows, len(content), low, high, content=POSITION_DELETES)
    return [ManifestEntry(ADDED, following.id, None, record)]

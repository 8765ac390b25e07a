"""The manifests of a snapshot, made from those of the one before it.

A manifest is kept as long as all its files are; else what is left of it is written again, with what is new. Small
manifests are merged as in a log-structured tree: ten of one size make one of the next. So a commit writes about as much
as it changes, an entry is written a few times in its life, and a snapshot of many files has few manifests.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from engine.base.parallel import map_parallel
from engine.destination.iceberg.manifest_files import (
    DATA,
    DELETED,
    EXISTING,
    Format,
    ManifestEntry,
    ManifestFile,
    entries_of,
    manifest_content,
    manifest_of,
)
from engine.destination.iceberg.schemas import IcebergSchema
from engine.store.folder import Folder

MOST_ENTRIES = 1000
"""The most files in a manifest: a commit that removes one of them writes the others again."""
_TIER = 10


class MetadataGoneError(Exception):
    """A metadata file of the newest snapshot is gone."""


class OutOfStepError(Exception):
    """The newest snapshot does not have the files that the next one removes."""


@dataclass(frozen=True)
class NextSnapshot:
    """What the files of a new snapshot have in common."""

    id: int
    sequence: int
    schema: IcebergSchema
    prefix: str
    """Of their names: unique to this attempt to commit it."""


class ManifestSet:
    """The manifests of the newest snapshot, and the files of the next ones that are not stored yet.

    folder: of metadata files.
    """

    def __init__(self, folder: Folder, format_version: Format, manifests: Iterable[ManifestFile]) -> None:
        self.folder = folder
        self.format = format_version
        self.manifests = list(manifests)
        self.new_files: dict[str, bytes] = {}
        """Their content, by name."""
        self._entries: dict[str, list[ManifestEntry]] = {}
        """The live files of manifests that were read or written, by path."""

    def of(self, content: int) -> list[ManifestFile]:
        """The manifests of data, or of deletes."""
        return [one for one in self.manifests if one.content == content]

    def live_entries(self, content: int) -> list[ManifestEntry]:
        """The live files of a kind."""
        return [entry for _, entries in self._read(self.of(content)) for entry in entries]

    def add_file(self, name: str, content: bytes) -> str:
        """Take a file of the next snapshot. Returns its URI."""
        self.new_files[name] = content
        return f"{self.folder.url}/{name}"

    def read_file(self, uri: str) -> bytes:
        """A metadata file, which may not be stored yet."""
        name = uri.rpartition("/")[2]
        content = self.new_files.get(name)
        if content is not None:
            return content
        try:
            return self.folder.read(name)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MetadataGoneError(uri) from error

    def read_part(self, uri: str, offset: int, length: int) -> bytes:
        """Part of a metadata file that is stored. Raises MetadataGoneError."""
        try:
            return self.folder.read(uri.rpartition("/")[2], offset, length)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MetadataGoneError(uri) from error

    def change(
        self, following: NextSnapshot, content: int, removed: AbstractSet[str], added: Sequence[ManifestEntry]
    ) -> None:
        """Remove and add files of a kind.

        removed: by name (`FileRecord.name`). Raises OutOfStepError if one of these is not there.
        """
        if not removed and not added:
            return
        manifests = self.of(content)
        affected = _with(removed, self._read(manifests)) if removed else set[str]()
        affected |= _merged(one for one in manifests if one.path not in affected)
        pairs = self._read([one for one in manifests if one.path in affected])
        rewritten = [entry for _, entries in pairs for entry in entries]
        gone = [entry for entry in rewritten if entry.file.name in removed]
        if {entry.file.name for entry in gone} != removed:
            raise OutOfStepError
        entries = [
            *added,
            *(replace(entry, status=EXISTING) for entry in rewritten if entry.file.name not in removed),
            *(replace(entry, status=DELETED, snapshot=following.id) for entry in gone),
        ]
        new = [
            self._written(following, content, number, entries[first : first + MOST_ENTRIES])
            for number, first in enumerate(range(0, len(entries), MOST_ENTRIES))
        ]
        others = (one for one in self.manifests if one.path not in affected)
        remaining = [one for one in others if one.content != content or one.live_files]
        self.manifests = [*remaining, *new]

    def assign_row_ids(self, next_row_id: int) -> int:
        """Give the rows of new data files identifiers. Returns the next one that is free."""
        for number, manifest in enumerate(self.manifests):
            if manifest.content != DATA or manifest.first_row_id is not None:
                continue
            self.manifests[number] = replace(manifest, first_row_id=next_row_id)
            row_id, entries = next_row_id, self._entries[manifest.path]
            for index, entry in enumerate(entries):
                if entry.file.first_row_id is None:
                    entries[index] = replace(entry, file=replace(entry.file, first_row_id=row_id))
                    row_id += entry.file.rows
            next_row_id += manifest.added_rows + manifest.existing_rows
        return next_row_id

    def forget_others(self) -> None:
        """Forget what the newest snapshot does not have, and the new files, which are stored."""
        paths = {one.path for one in self.manifests}
        self._entries = {path: entries for path, entries in self._entries.items() if path in paths}
        self.new_files = {}

    def _written(
        self, following: NextSnapshot, content: int, number: int, entries: Sequence[ManifestEntry]
    ) -> ManifestFile:
        data = manifest_content(self.format, content, following.schema, entries)
        path = self.add_file(f"{following.prefix}-{'dm'[content == DATA]}{number}.avro", data)
        live = (entry for entry in entries if entry.is_live)
        sequence = following.sequence
        self._entries[path] = [replace(one, sequence=sequence) if one.sequence is None else one for one in live]
        return manifest_of(path, len(data), content, sequence, following.id, entries)

    def _read(self, manifests: Sequence[ManifestFile]) -> list[tuple[ManifestFile, list[ManifestEntry]]]:
        missing = [one for one in manifests if one.path not in self._entries]
        contents = map_parallel(lambda one: self.read_file(one.path), missing, self.folder.at_once)
        for manifest, content in zip(missing, contents, strict=True):
            self._entries[manifest.path] = entries_of(content, manifest)
        return [(one, self._entries[one.path]) for one in manifests]


def _with(names: AbstractSet[str], manifests: Iterable[tuple[ManifestFile, list[ManifestEntry]]]) -> set[str]:
    """The paths of manifests that have one of these files."""
    return {one.path for one, entries in manifests if any(entry.file.name in names for entry in entries)}


def _merged(manifests: Iterable[ManifestFile]) -> set[str]:
    """The paths of manifests that are merged because ten are of one size, which leaves fewer of the next size."""
    tiers = defaultdict[int, list[ManifestFile]](list)
    for one in manifests:
        if one.live_files < MOST_ENTRIES:
            tiers[len(str(one.live_files))].append(one)
    paths = set[str]()
    for size in sorted(tiers):
        if len(tiers[size]) >= _TIER:
            paths |= {one.path for one in tiers[size]}
    return paths

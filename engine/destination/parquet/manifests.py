"""The manifests of a Parquet destination: which files are published. A file that no manifest names does not exist.

`_manifests/<epoch>.json` is created whole, and by one runner alone (`store.Folder.create`). It names the files of the
epochs since the one before, and what each of their tables has then:

    {"format": 1, "ledger": "…", "lineage": "", "term": 3, "epoch": 12, "position": "binlog.000002:1234",
     "committed_at": "2026-11-27T12:00:00.000000Z",
     "tables": {"shop.orders": {"generation": 0, "begun": -1, "chunks": 9, "changes": 12, "largest_seq": 5120}},
     "files": [{"table": "shop.orders", "generation": 0, "content": "changes", "epoch": 12,
                "path": "shop/orders/date=2026-11-27/hour=11/….parquet", "rows": 10, "bytes": 2048}]}

Their number is bounded: the oldest thousand of two thousand are merged into one, under the name of the last of them
(`from_epoch` is the first one). It takes that name before the others are deleted, so a reader may find a file named
twice, never too few of them. A merged manifest has the state of all tables, so that a start reads it and what follows.

An earlier runner may be about to create a manifest when a later one takes over. The later one creates those names
first, as empty manifests (`take_names`). They are never deleted: the earlier runner may wake up after a thousand
epochs. Names are never used twice: the second manifest of an epoch is `12_1.json`, which a run creates that continues
after a table's failure, or after its own placeholder.
"""

import json
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.base.errors import DestinationError
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.destination.destination_protocol import CHUNKS, EpochEnd, Guard
from engine.ledger.state import Owner
from engine.store.folder import Folder

FOLDER = "_manifests"
FORMAT = 1
MANIFESTS_PER_MERGE = 1000
"""How many manifests become one, once there are twice as many."""
_NAME = re.compile(r"^(\d+)(?:_(\d+))?(?:\.(.+))?\.json$")
Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class PublishedFile:
    """A Parquet file of a change log."""

    table: str
    generation: int
    content: str
    """chunks or changes."""
    epoch: int
    """The last epoch of its rows."""
    path: str
    """Relative to the destination."""
    rows: int
    bytes: int


@dataclass(frozen=True)
class PublishedTable:
    """What is published of one table."""

    generation: int = 0
    """Counts the resnapshots."""
    begun: int = -1
    """The epoch after which the generation began; -1 for the first one."""
    chunks: int = -1
    """The last epoch whose chunks are published."""
    changes: int = -1
    largest_seq: int = 0
    """The largest `_tm_seq`."""
    application: str = ""
    """The count of epochs that the numbers belong to (`Owner.application`)."""

    def through(self, kind: str) -> int:
        """The last epoch of a kind. Merges are none here: changes count."""
        return self.chunks if kind == CHUNKS else self.changes

    def with_files(self, kind: str, epoch: int, largest_seq: int) -> "PublishedTable":
        """With files of a kind through an epoch."""
        largest = max(self.largest_seq, largest_seq)
        if kind == CHUNKS:
            return replace(self, chunks=epoch, largest_seq=largest)
        return replace(self, changes=epoch, largest_seq=largest)


class Manifests:
    """The manifests in one destination. May be used by several threads.

    They are listed at first, and whenever another runner may have created some: not with each epoch.
    """

    def __init__(self, root: Folder, owner: Owner, guard: Guard) -> None:
        self._folder = root / FOLDER
        self._owner = owner
        self._guard = guard
        self._progress: dict[str, PublishedTable] = {}
        self._read_names: set[str] = set()
        """The names that were read."""
        self._unmerged_names: list[str] = []
        """The names of this count of epochs that were not merged, in order."""
        self._term = 0
        self._is_read = False
        self._lock = threading.Lock()

    def progress(self, table: str) -> PublishedTable:
        """What is published of a table now, for this count of epochs. Raises DestinationError."""
        with self._lock:
            self._read_once()
            published_table = self._progress.get(table, PublishedTable())
        if published_table.application == self._owner.application:
            return published_table
        return PublishedTable(
            published_table.generation, largest_seq=published_table.largest_seq, application=self._owner.application
        )

    def has(self, table: str) -> bool:
        """Whether anything of a table was ever published here."""
        with self._lock:
            self._read_once()
            return table in self._progress

    @property
    def term(self) -> int:
        """The largest term of a runner that has published here; 0 for none."""
        with self._lock:
            self._read_once()
            return self._term

    def publish(self, end: EpochEnd, tables: Mapping[str, PublishedTable], files: Sequence[PublishedFile]) -> None:
        """Create the manifest of some epochs. Raises PipelineHeldError if a later runner has taken over."""
        with self._lock:
            self._create(end, tables, files)
            if len(self._unmerged_names) >= 2 * MANIFESTS_PER_MERGE:
                with suppress(OSError):  # such as a full disk: there are more manifests until the next attempt
                    self._merge_oldest()

    def take_names(self, epochs: Iterable[int]) -> None:
        """Take the names that an earlier runner could still create for these epochs."""
        with self._lock:
            self._refresh()
            newest = max(map(_epoch, self._unmerged_names), default=-1)
            for epoch in sorted({newest, *epochs} - {-1}):
                if epoch >= newest:
                    self._create(EpochEnd(epoch, "", ""), {}, ())

    def recent(self) -> tuple[int, set[str]]:
        """The epoch up to which manifests were merged, -1 for none; and the paths of the files in all other manifests.

        No merged manifest names a file of a later epoch.
        """
        with self._lock:
            self._refresh()
            names = self._names()
            merged_names = [
                name for name in names if _lineage(name) == self._owner.lineage and name not in self._unmerged_names
            ]
            unmerged_names = [name for name in names if name not in merged_names]
            paths = {file["path"] for name in unmerged_names for file in self._load(name)["files"]}
            return max(map(_epoch, merged_names), default=-1), paths

    def forget(self, table: str) -> None:
        """Remove a table from all manifests, one after the other."""
        with self._lock:
            for name in self._names():
                manifest = self._load(name)
                if table in manifest["tables"] or any(file["table"] == table for file in manifest["files"]):
                    tables = {other: one for other, one in manifest["tables"].items() if other != table}
                    files = [file for file in manifest["files"] if file["table"] != table]
                    self._folder.write(name, _content({**manifest, "tables": tables, "files": files}))
            self._progress.pop(table, None)

    def _create(self, end: EpochEnd, tables: Mapping[str, PublishedTable], files: Sequence[PublishedFile]) -> None:
        """Create a manifest under the first free name of its epoch. A runner has a term, which makes it unique."""
        self._read_once()
        newest = max(map(_epoch, self._unmerged_names), default=-1)  # names are taken in order, whatever the epochs
        number = 0
        while True:
            # The names are taken in order, so a runner that is delayed after its check finds its name taken.
            manifest = self._manifest(end, self._guard(), tables, files)
            name = self._name(max(end.epoch, newest), number)
            if name not in self._read_names:
                if self._folder.create(name, _content(manifest)):
                    break
                self._refresh()
            number += 1
        self._unmerged_names.append(name)
        self._take(name, manifest)

    def _manifest(
        self, end: EpochEnd, term: int, tables: Mapping[str, PublishedTable], files: Sequence[PublishedFile]
    ) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "ledger": self._owner.ledger,
            "lineage": self._owner.lineage,
            "term": term,
            "epoch": end.epoch,
            "position": end.position,
            "committed_at": end.committed_at,
            "tables": {name: asdict(one) for name, one in tables.items()},
            "files": [asdict(file) for file in files],
        }

    def _name(self, epoch: int, number: int) -> str:
        lineage = self._owner.lineage  # an older ledger that took over counts from an earlier epoch again
        return f"{epoch}{f'_{number}' if number else ''}{f'.{lineage}' if lineage else ''}.json"

    def _read_once(self) -> None:
        if not self._is_read:
            self._refresh()

    def _refresh(self) -> None:
        """Read the manifests that were not read."""
        new_names = [name for name in self._names() if name not in self._read_names]
        own_names = [name for name in new_names if _lineage(name) == self._owner.lineage]
        others = [(name, self._load(name)) for name in new_names if name not in own_names]
        manifests = list[tuple[str, Manifest]]()
        for name in reversed(own_names):
            manifests.append((name, self._load(name)))
            if "from_epoch" in manifests[-1][1]:
                self._read_names.update(own_names)  # it has the state of all earlier ones
                break
        unmerged_names = [name for name, manifest in manifests if "from_epoch" not in manifest]
        self._unmerged_names = sorted({*self._unmerged_names, *unmerged_names}, key=_place)
        for name, manifest in (*sorted(others, key=lambda one: int(one[1]["term"])), *reversed(manifests)):
            self._take(name, manifest)
        self._is_read = True

    def _take(self, name: str, manifest: Manifest) -> None:
        self._read_names.add(name)
        if manifest["lineage"] == self._owner.lineage or manifest["term"] >= self._term:
            self._progress |= {table: PublishedTable(**one) for table, one in manifest["tables"].items()}
        self._term = max(self._term, manifest["term"])

    def _names(self) -> list[str]:
        """The names of all manifests, in the order of their epochs."""
        return sorted((entry.name for entry in self._folder.entries() if _NAME.match(entry.name)), key=_place)

    def _load(self, name: str) -> Manifest:
        try:
            manifest: Manifest = json.loads(self._folder.read(name))
        except (StoreAwayError, StoreAccessError):
            raise
        except (OSError, ValueError) as error:
            raise DestinationError(
                f"The manifest {self._folder.url}/{name} cannot be read: {error}.",
                detail="It names published files; without it, nobody knows them. Nothing was written.",
                hint="Restore it from a copy. Without one, choose another sink.path and start a new pipeline.",
            ) from error
        return manifest

    def _merge_oldest(self) -> None:
        """Merge the oldest manifests of this count of epochs that were not merged into one."""
        oldest = self._unmerged_names[:MANIFESTS_PER_MERGE]
        manifests = [self._load(name) for name in oldest]
        names = [name for name in self._names() if _lineage(name) == self._owner.lineage]
        earlier = names[: names.index(oldest[0])]  # the last of them was merged, and has the state of all tables
        tables = dict(self._load(earlier[-1])["tables"]) if earlier else {}
        for manifest in manifests:
            tables |= manifest["tables"]
        # One of them may be a merged one already, of an attempt that failed once it was written.
        files = list({file["path"]: file for manifest in manifests for file in manifest["files"]}.values())
        merged_manifest = {**manifests[-1], "from_epoch": manifests[0]["epoch"], "tables": tables, "files": files}
        self._guard()
        self._folder.write(oldest[-1], _content(merged_manifest))
        self._unmerged_names = self._unmerged_names[MANIFESTS_PER_MERGE:]
        merged = zip(oldest[:-1], manifests[:-1], strict=True)
        self._folder.delete(name for name, manifest in merged if not _is_placeholder(manifest))


def _place(name: str) -> tuple[int, int, str]:
    match = _NAME.match(name)
    assert match is not None
    return int(match[1]), int(match[2] or 0), match[3] or ""


def _epoch(name: str) -> int:
    return _place(name)[0]


def _lineage(name: str) -> str:
    return _place(name)[2]


def _is_placeholder(manifest: Manifest) -> bool:
    """Whether a later runner created it to take its name. Those of epochs name the position at which they end."""
    return not manifest["position"]


def _content(manifest: Manifest) -> bytes:
    return json.dumps(manifest, ensure_ascii=False).encode()

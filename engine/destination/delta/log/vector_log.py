"""The deletion vectors of a Delta table's version, from its log.

deltalake's `deletion_vectors()` expands every vector to a boolean per row, whatever changed. We need only where they
are: in the newest checkpoint's `add` actions, and the commits after it. A later version is reached by reading only the
commits in between.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from engine.base.errors import DestinationError
from engine.destination.delta.log.deletion_vectors import Descriptor
from engine.destination.delta.log.log_files import checkpoint_files, commit_name, complete_checkpoints, log_of
from engine.store.folder import Folder

FEATURE = "deletionVectors"


def has_vectors(delta: DeltaTable) -> bool:
    """Whether the table may have deletion vectors."""
    return FEATURE in (delta.protocol().reader_features or ())


class VectorLog:
    """The deletion vectors of one table, by data file. `at` moves to a version."""

    def __init__(self, folder: Folder) -> None:
        self._log = log_of(folder)
        self._version = -1
        self._vectors: dict[str, Descriptor] = {}

    def at(self, version: int) -> dict[str, Descriptor]:
        """The vectors of a version, by the data file's name in the folder.

        Raises DestinationError when commits are missing.
        """
        if version < self._version or not self._advance(version):
            self._from_checkpoint(version)
            if not self._advance(version):
                raise DestinationError(
                    f"The commits up to version {version} in {self._log.url} are incomplete, "
                    "and no checkpoint replaces them.",
                    detail="The rows that its deletion vectors delete are unknown; nothing was written.",
                    hint="Resnapshot the table: tidemark redump SPEC --table … (Or restore the commits from a copy, "
                    "unless the table stopped.)",
                )
        return dict(self._vectors)

    def _advance(self, version: int) -> bool:
        """Apply the commits up to a version. Returns False when one is missing."""
        while self._version < version:
            try:
                content = self._log.read(commit_name(self._version + 1))
            except FileNotFoundError:
                return False
            self._apply(content)
            self._version += 1
        return True

    def _apply(self, commit: bytes) -> None:
        added: dict[str, Descriptor] = {}
        for line in commit.splitlines():
            if b'"remove"' not in line and b'"add"' not in line:
                continue
            action = json.loads(line)
            if (remove := action.get("remove")) and (descriptor := self._vectors.get(path := unquote(remove["path"]))):
                if not remove.get("deletionVector") or Descriptor.from_json(remove["deletionVector"]) != descriptor:
                    continue  # the file under another vector (`superseded_files`)
                del self._vectors[path]
            if (add := action.get("add")) and add.get("deletionVector"):
                added[unquote(add["path"])] = Descriptor.from_json(add["deletionVector"])
        self._vectors |= added

    def _from_checkpoint(self, version: int) -> None:
        self._version = -1
        self._vectors = {}
        newest = _newest_checkpoint(self._log, version)
        if newest < 0:
            return
        for entry in checkpoint_files(self._log, newest):
            self._read(entry.name)
        self._version = newest

    def _read(self, name: str) -> None:
        with self._log.open(name) as source, pq.ParquetFile(source) as checkpoint:
            names = checkpoint.schema_arrow
            if "add" not in names.names or names.field("add").type.get_field_index("deletionVector") < 0:
                return
            add = checkpoint.read(columns=["add.path", "add.deletionVector"])["add"]
        for action in add.filter(pc.is_valid(add)).to_pylist():
            if (vector := action["deletionVector"]) and vector.get("storageType") is not None:
                self._vectors[unquote(action["path"])] = Descriptor.from_json(vector)


@dataclass(frozen=True)
class SupersededCommits:
    """A file that a version has under an old deletion vector and under a newer one."""

    name: str
    bytes: int
    vector: Descriptor | None
    """The old one; None if it had none."""


def superseded_files(folder: Folder, version: int) -> list[SupersededCommits]:
    """The files of a version that a lost commit should have removed, because it gave them another deletion vector.

    Delta identifies a file by its path and its vector. So without that commit, readers see the file once for each
    vector. If a later commit has removed the file under the vector of the lost one, they see it under the old one.
    """
    log = log_of(folder)
    commits = dict[str, dict[str, SupersededCommits]]()
    newest = _newest_checkpoint(log, version)
    for entry in checkpoint_files(log, newest) if newest >= 0 else ():
        with log.open(entry.name) as source, pq.ParquetFile(source) as checkpoint:
            _add(commits, (action for action in checkpoint.read(columns=["add"])["add"].to_pylist() if action))
    superseded = list[SupersededCommits]()
    for number in range(newest + 1, version + 1):
        actions = _actions(log.read(commit_name(number)))
        for remove in (action["remove"] for action in actions if "remove" in action):
            vectors = commits.get(unquote(remove["path"]), {})
            if vectors and vectors.pop(_identity(remove), None) is None:
                superseded += vectors.values()
                vectors.clear()
        _add(commits, (action["add"] for action in actions if "add" in action))
    return [*superseded, *(old for vectors in commits.values() for old in list(vectors.values())[:-1])]


def _newest_checkpoint(log: Folder, version: int) -> int:
    """The newest checkpoint up to a version; -1 without one."""
    return max((n for n in complete_checkpoints(log.entries()) if n <= version), default=-1)


def _actions(commit: bytes) -> list[dict[str, Any]]:
    """The actions of a commit; none of a torn one."""
    try:
        return [json.loads(line) for line in commit.splitlines()]
    except ValueError:
        return []


def _add(commits: dict[str, dict[str, SupersededCommits]], actions: Iterable[dict[str, Any]]) -> None:
    for add in actions:
        name, identity = unquote(add["path"]), _identity(add)
        vector = Descriptor.from_json(add["deletionVector"]) if identity else None
        commits.setdefault(name, {})[identity] = SupersededCommits(name, add["size"], vector)


def _identity(action: dict[str, Any]) -> str:
    """Identifies the vector of an action; empty without one.

    A checkpoint may describe none by a vector without a type.
    """
    vector = action.get("deletionVector")
    if not vector or vector.get("storageType") is None:
        return ""
    return f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}"

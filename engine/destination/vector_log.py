"""The deletion vectors of a Delta table's version, from its log.

deltalake's `deletion_vectors()` expands every vector to a boolean per row, whatever changed. We need only where they are: in the
newest checkpoint's `add` actions, and the commits after it. A later version is reached by reading only the commits in between.
"""

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from engine.destination.deletion_vectors import Descriptor
from engine.errors import DestinationError

FEATURE = "deletionVectors"
_CHECKPOINT = re.compile(r"^(\d{20})\.checkpoint\.(.+\.)?parquet$")


def has_vectors(delta: DeltaTable) -> bool:
    """Whether the table may have deletion vectors."""
    return FEATURE in (delta.protocol().reader_features or ())


class VectorLog:
    """The deletion vectors of one table, by data file. `at` moves to a version."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "_delta_log"
        self._version = -1
        self._vectors: dict[str, Descriptor] = {}

    def at(self, version: int) -> dict[str, Descriptor]:
        """The vectors of a version, by the data file's name in the folder. Raises DestinationError when commits are missing."""
        if version < self._version or not self._advance(version):
            self._from_checkpoint(version)
            if not self._advance(version):
                raise DestinationError(
                    f"The commits up to version {version} in {self._log} are incomplete, and no checkpoint replaces them.",
                    detail="The rows that its deletion vectors delete are unknown; nothing was written.",
                    hint="Restore the folder from a copy, or resnapshot the table: tidemark redump SPEC --table …",
                )
        return dict(self._vectors)

    def _advance(self, version: int) -> bool:
        """Apply the commits up to a version. Returns False when one is missing."""
        while self._version < version:
            try:
                content = (self._log / f"{self._version + 1:020d}.json").read_bytes()
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
            if remove := action.get("remove"):
                self._vectors.pop(unquote(remove["path"]), None)
            if (add := action.get("add")) and add.get("deletionVector"):
                added[unquote(add["path"])] = Descriptor.from_json(add["deletionVector"])
        self._vectors |= added

    def _from_checkpoint(self, version: int) -> None:
        self._version, self._vectors = -1, {}
        names = [path.name for path in self._log.iterdir()]
        found = {int(match[1]) for name in names if (match := _CHECKPOINT.match(name)) and int(match[1]) <= version}
        if not found:
            return
        newest = max(found)
        for name in names:
            if name.startswith(f"{newest:020d}.checkpoint"):
                self._read(self._log / name)
        self._version = newest

    def _read(self, path: Path) -> None:
        with pq.ParquetFile(path) as checkpoint:
            names = checkpoint.schema_arrow
            if "add" not in names.names or names.field("add").type.get_field_index("deletionVector") < 0:
                return
            add = checkpoint.read(columns=["add.path", "add.deletionVector"])["add"]
        for action in add.filter(pc.is_valid(add)).to_pylist():
            if (vector := action["deletionVector"]) and vector.get("storageType") is not None:
                self._vectors[unquote(action["path"])] = Descriptor.from_json(vector)

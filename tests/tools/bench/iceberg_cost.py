"""What Iceberg metadata costs beside Delta tables: bytes written, and how far it is behind."""

import json
from pathlib import Path

import numpy as np

from tests.live.support.background import Background


class IcebergSamples(Background):
    """The metadata files of some Delta tables as they appear. folders: of the Delta tables."""

    def __init__(self, folders: list[Path]) -> None:
        super().__init__()
        self._folders = folders
        self._sizes: dict[Path, int] = {}
        self._behind_s: dict[tuple[Path, int], float] = {}
        """By Delta table and version, how long after its commit the snapshot could be read."""

    def work(self, _number: int) -> None:
        """Look four times a second: metadata files go after a hundred commits."""
        while not self.stopping.wait(0.25):
            for folder in self._folders:
                for path in (folder.parent / f"{folder.name}__iceberg" / "metadata").glob("*"):
                    if path not in self._sizes:
                        self._see(folder, path)

    def _see(self, folder: Path, path: Path) -> None:
        try:
            status = path.stat()
            self._sizes[path] = status.st_size
            if not path.name.endswith(".metadata.json"):
                return
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            return
        for snapshot in content["snapshots"][-60:]:
            version = int(snapshot["summary"]["tidemark.version"])
            commit = folder / "_delta_log" / f"{version:020d}.json"
            if (folder, version) not in self._behind_s and commit.exists():
                self._behind_s[folder, version] = status.st_mtime - commit.stat().st_mtime

    @property
    def bytes(self) -> int:
        """All that was written."""
        return sum(self._sizes.values())

    def text(self, delta_bytes: int) -> str:
        """The figure. delta_bytes: what was written for Delta meanwhile."""
        behind_s = np.array([*self._behind_s.values()])
        return (
            f"{self.bytes / 1e6:,.1f} MB, {self.bytes / delta_bytes:.2f} × of what Delta writes; behind: "
            f"median {np.median(behind_s):.2f} s, p95 {np.quantile(behind_s, 0.95):.2f} s, most {behind_s.max():.2f} s"
        )

"""Another tool that maintains tables beside Tidemark: deltalake's OPTIMIZE, and its VACUUM without retention."""

import os
from contextlib import suppress
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tests.live.support.background import Background
from tests.live.support.pipeline import Pipeline


class OtherTool(Background):
    """Works on a pipeline's table again and again, on its mirror and its change log.

    It gives way if Tidemark was first.

    removed: the files that its OPTIMIZE took out of each of the two. kept: gets links to the mirror's files, so that
    the test can read them after a VACUUM.
    """

    def __init__(self, pipeline: Pipeline, table: str, kept: Path, pause_s: float = 0.3) -> None:
        super().__init__()
        self._mirror, self._kept, self._pause_s = pipeline.mirror(table), kept, pause_s
        self.removed = {self._mirror: 0, pipeline.changes(table): 0}
        kept.mkdir()

    def work(self, number: int) -> None:
        while not self.stopping.wait(self._pause_s):
            for folder in self.removed:
                with suppress(DeltaError, OSError):
                    self.removed[folder] += DeltaTable(str(folder)).optimize.compact()["numFilesRemoved"]
                with suppress(DeltaError, OSError):
                    self._vacuum(folder)

    def _vacuum(self, folder: Path) -> None:
        table = DeltaTable(str(folder))  # before the links: it deletes nothing of later versions
        for path in self._mirror.glob("*.parquet"):
            with suppress(FileExistsError, FileNotFoundError):
                os.link(path, self._kept / path.name)
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

"""The folder through which a run and its readers see each other.

It shows how far chunks are read, and when throttled reads must end.

Workers share no other folder with the runner (docs/architecture.md). It is in the destination; in the pipeline's
folder if that is a bucket and the readers are on this host.
"""

import shutil
from contextlib import suppress
from pathlib import Path

from engine.capture.pacing import END
from engine.pipeline.directory import Directory
from engine.spark.configuration import is_local
from engine.spec.sink_settings import Sink


def read_path(sink: Sink, directory: Directory, ledger: str, master: str) -> Path | None:
    """The path of a run's folder. ledger: the ledger's identity. master: where readers run."""
    if (destination := sink.local_path) is not None:
        return destination / "_tidemark" / ledger / "reading"
    return directory.root / "reading" if is_local(master) else None


class ReadFolder:
    """The folder of one run. path: None if the readers share none with the runner."""

    def __init__(self, path: Path | None) -> None:
        """Remove what an earlier run left there."""
        self.path = path
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)

    def end_throttled_reads(self) -> None:
        """Give up throttled reads, which may take long."""
        if self.path is None:
            return
        with suppress(OSError):  # the end then waits for them
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / END).touch()

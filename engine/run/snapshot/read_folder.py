"""The folder through which a run and its readers see each other.

It shows how far chunks are read, and when throttled reads must end.

Workers share no other folder with the runner (docs/architecture.md).
"""

import shutil
from contextlib import suppress
from pathlib import Path

from engine.capture.pacing import END


class ReadFolder:
    """The folder of one run, within its destination."""

    def __init__(self, destination: Path, ledger: str) -> None:
        """Remove what an earlier run left there. ledger: the ledger's identity."""
        self.path = destination / "_tidemark" / ledger / "reading"
        shutil.rmtree(self.path, ignore_errors=True)

    def end_throttled_reads(self) -> None:
        """Give up throttled reads, which may take long."""
        with suppress(OSError):  # the end then waits for them
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / END).touch()

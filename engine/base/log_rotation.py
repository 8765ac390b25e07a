"""Bounds `runner.log`, the output of a runner that the console has launched.

The runner's processes write to it through descriptors that they keep, always at its end. So it is not renamed: its
content is compressed into another file, then it is cut to nothing. What is written in between, a few lines at most, is
lost.
"""

import gzip
import os
import shutil
from contextlib import suppress
from pathlib import Path

MOST_BYTES, KEPT = 32 << 20, 3


def rotate(log: Path, most_bytes: int = MOST_BYTES) -> bool:
    """Rotate the log if this process writes to it and it is too large. Returns whether it was. Raises OSError."""
    with suppress(FileNotFoundError):
        status = log.stat()
        if status.st_size > most_bytes and os.path.samestat(status, os.fstat(1)):
            for number in range(KEPT - 1, 0, -1):
                with suppress(FileNotFoundError):
                    _old(log, number).replace(_old(log, number + 1))
            with log.open("rb") as full, gzip.open(_old(log, 1), "wb", compresslevel=1) as old:
                shutil.copyfileobj(full, old)
            os.truncate(log, 0)
            return True
    return False


def _old(log: Path, number: int) -> Path:
    return log.with_name(f"{log.name}.{number}.gz")

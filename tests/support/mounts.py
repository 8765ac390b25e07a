"""Small disks that can really be full: a tmpfs of a few megabytes, mounted for a test. It needs root, as the tests' servers do."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_BALLAST = "ballast"


@dataclass(frozen=True)
class Small:
    """A mounted disk."""

    folder: Path

    @property
    def free_bytes(self) -> int:
        """What is left."""
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_bsize

    def fill(self, *, but: int = 0) -> None:
        """Leave so many bytes, by a file of ballast, or fewer where others write meanwhile."""
        with (self.folder / _BALLAST).open("ab", buffering=0) as file:
            try:
                while (left := self.free_bytes - but) > 0:
                    file.write(bytes(min(left, 1 << 20)))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def free(self) -> None:
        """Take the ballast away."""
        (self.folder / _BALLAST).unlink()


@contextmanager
def mounted(folder: Path, size: int) -> Iterator[Small]:
    """A disk of so many bytes at `folder`, until the end. Fails where nothing can be mounted: a test without it proves nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0777", "tidemark-test", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"cannot mount a small disk (root is needed): {done.stderr}"
    try:
        yield Small(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)

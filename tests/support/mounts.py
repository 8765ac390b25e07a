"""Small disks that can really be full: a tmpfs of a few megabytes; folders that take no files. Both need root."""

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
        """The free space."""
        disk = os.statvfs(self.folder)
        return disk.f_bavail * disk.f_bsize

    def fill(self, *, but: int = 0) -> None:
        """Fill the disk with a file of ballast except for `but` bytes, or fewer if others write meanwhile."""
        with (self.folder / _BALLAST).open("ab", buffering=0) as file:
            try:
                while (rest := self.free_bytes - but) > 0:
                    file.write(bytes(min(rest, 1 << 20)))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def make_read_only(self) -> None:
        """Refuse writes from now on, root's too."""
        subprocess.run(["mount", "-o", "remount,ro", str(self.folder)], check=True)

    def make_writable(self) -> None:
        """Take writes again."""
        subprocess.run(["mount", "-o", "remount,rw", str(self.folder)], check=True)

    def free(self) -> None:
        """Remove the ballast."""
        (self.folder / _BALLAST).unlink()


@contextmanager
def immutable(*folders: Path) -> Iterator[None]:
    """Forbid new files in the folders for the block, to root too (EPERM)."""
    named = [str(folder) for folder in folders]
    done = subprocess.run(["chattr", "+i", *named], capture_output=True, text=True, check=False)
    try:
        assert done.returncode == 0, f"cannot forbid writes (root is needed): {done.stderr}"
        yield
    finally:
        subprocess.run(["chattr", "-i", *named], check=True)


@contextmanager
def mounted(folder: Path, size: int) -> Iterator[Small]:
    """Mount a disk of that size at `folder` for the block.

    Fails if nothing can be mounted, as the test would prove nothing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0777", "tidemark-test", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"cannot mount a small disk (root is needed): {done.stderr}"
    try:
        yield Small(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)

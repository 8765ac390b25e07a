"""Power cuts for tests: all recorded processes die at one instant, and their folder becomes what a disk would hold."""

import atexit
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil

from tests.powercut.replay import Lost, replay
from tests.support.patience import PATIENCE_S


def shim() -> Path:
    """The recording library."""
    return compiled("shim.c")


@cache
def compiled(name: str) -> Path:
    """A preloadable library, compiled once per test run. Raises CalledProcessError with the compiler's messages."""
    folder = Path(tempfile.mkdtemp(prefix="tidemark-shim-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library, source = folder / "shim.so", Path(__file__).with_name(name)
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(library), str(source)], check=True)
    return library


class PowerCut:
    """Records what processes do below `root`, and cuts their power, as often as wanted.

    root: a folder that exists; a new one of the same name takes its place at each cut. The record, and the files that
    must be kept until then, are in `<root>.powercut` beside it: on the same file system, as hard links need.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve(strict=True)
        self._folder = self.root.with_name(f"{self.root.name}.powercut")
        self._record, self._shadow = self._folder / "record", self._folder / "shadow"
        self._shadow.mkdir(parents=True)

    @property
    def folder(self) -> Path:
        """The folder with the record and the replaced files."""
        return self._folder

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process that is to be recorded; its children inherit it."""
        return {
            "LD_PRELOAD": str(shim()),
            "POWERCUT_ROOT": str(self.root),
            "POWERCUT_RECORD": str(self._record),
            "POWERCUT_SHADOW": str(self._shadow),
        }

    def cut(self, seed: int | None = None) -> Lost:
        """Kill every recorded process at once, and leave what a disk may hold. seed: None for the strict disk.

        This process's own children remain for their Popen to wait for.
        """
        self.kill()
        return replay(self.root, self._record, self._shadow, seed)

    def kill(self) -> None:
        """SIGKILL for every recorded process. Raises TimeoutError when some are left."""
        until = time.monotonic() + PATIENCE_S
        while victims := self.running():
            for process in victims:  # none may see another one end and continue
                with suppress(psutil.Error):
                    process.suspend()
            for process in victims:
                with suppress(psutil.Error):
                    process.kill()
            if time.monotonic() > until:
                raise TimeoutError(f"Recorded processes do not end: {victims}")
            time.sleep(0.02)

    def running(self) -> list[psutil.Process]:
        """The recorded processes that are alive.

        They are found by their environment, because readers have process groups of their own.
        """
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("POWERCUT_RECORD") == str(
                    self._record
                ):
                    found.append(process)
        return found

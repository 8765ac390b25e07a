"""The memory of a command's processes, measured while it runs."""

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[3]


def peak_mib(*arguments: str, environment: Mapping[str, str]) -> int:
    """Run a command of the engine to its end. Returns the most memory that any of its Python processes had, in MiB.

    Spark's JVM does not count: its heap has a limit of its own.
    """
    command = [sys.executable, "-m", "engine", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        peaks: list[int] = [0]
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.05):
                peaks.extend(_peaks(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        output, _ = process.communicate()
        ended.set()
        watcher.join()
    assert process.returncode == 0, output[-3000:]
    return max(peaks) >> 10


def _peaks(pid: int) -> Iterator[int]:
    """The peaks of a process and those below it, in KiB. The kernel keeps them."""
    with suppress(OSError, ValueError):
        folder = Path(f"/proc/{pid}")
        children = [number for file in folder.glob("task/*/children") for number in file.read_text().split()]
        if b"java" not in (folder / "cmdline").read_bytes().split(b"\0")[0]:
            status = (folder / "status").read_text()
            yield from (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
        for child in children:
            yield from _peaks(int(child))

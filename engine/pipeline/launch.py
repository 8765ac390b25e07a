"""Starts a runner as a process of its own."""

import subprocess
import sys
from pathlib import Path

import engine
from engine.base.durable import make_folders
from engine.pipeline.directory import Directory


def launch(spec_file: Path, directory: Directory, *, until: str | None = None) -> subprocess.Popen[bytes]:
    """Start a runner as a separate process that outlives the caller; its output goes to `runner.log`."""
    make_folders(directory.root)
    spec = str(spec_file.absolute())  # the runner starts in another folder
    command = [sys.executable, "-m", "engine", "run", spec, *(["--until", until] if until else [])]
    with directory.log.open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=Path(engine.__file__).resolve().parent.parent,
        )

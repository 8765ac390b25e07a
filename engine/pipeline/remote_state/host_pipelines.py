"""The pipelines of this host: one folder has theirs, also the copies of those whose state is in a bucket."""

import os
import tomllib
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from engine.base.errors import SpecError
from engine.pipeline.directory import Directory
from engine.pipeline.remote_state.operator_copy import follow


def usual_folder() -> Path:
    """The folder that has the pipelines of this host: `TIDEMARK_HOME`, else `~/.tidemark`."""
    return Path(os.environ.get("TIDEMARK_HOME") or "~/.tidemark").expanduser().absolute()


def pipelines_in(folder: Path) -> list[Directory]:
    """The pipelines in a folder, by name. The copies of those whose state is in a bucket are kept current."""
    directories = [Directory(spec.parent) for spec in sorted(folder.glob("*/pipeline.toml"))]
    for directory in directories:
        with suppress(OSError, ValueError, SpecError):
            _follow(directory, directory.spec.stat().st_mtime_ns)
    return directories


@lru_cache(maxsize=4096)
def _follow(directory: Directory, _changed_ns: int) -> None:
    state = tomllib.loads(directory.spec.read_text(encoding="utf-8")).get("state")
    follow(directory, state if isinstance(state, str) else None)

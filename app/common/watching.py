"""The console's watchdog, which looks after the runners of all pipelines for as long as the console runs."""

import sys
from collections.abc import Iterable
from contextlib import suppress

from app.common import home
from engine.pipeline.directory import Directory
from engine.watch import background


def begin() -> None:
    """Begin to watch, once per process."""
    background.begin(_pipelines, _report)


def _pipelines() -> Iterable[Directory]:
    return home.directories()


def _report(pipeline: str, what: str) -> None:
    with suppress(OSError, ValueError):  # the terminal may be gone
        print(f"{pipeline}: {what}", file=sys.stderr, flush=True)

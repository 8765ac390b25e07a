"""The loop of the watchdog: in a thread of the console, or as the process of `tidemark watch`."""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from engine.pipeline.directory import Directory
from engine.watch.own_alerts import WatchReport
from engine.watch.watchdog import Watchdog

_EVERY_S = 1.0
_begun = threading.Event()
_lock = threading.Lock()


def watch(pipelines: Callable[[], Iterable[Directory]], report: WatchReport, ended: threading.Event) -> None:
    """Look at the pipelines every second, until `ended` is set."""
    watchdog = Watchdog(pipelines, report)
    while not ended.wait(_EVERY_S):
        with suppress(Exception):  # such as the folder of a network that does not answer: it looks again
            watchdog.look()
    watchdog.close()


def begin(pipelines: Callable[[], Iterable[Directory]], report: WatchReport) -> None:
    """Watch from a thread until this process ends; does nothing if the process has such a thread."""
    with _lock:
        if not _begun.is_set():
            _begun.set()
            threading.Thread(
                target=watch, args=(pipelines, report, threading.Event()), name="watchdog", daemon=True
            ).start()

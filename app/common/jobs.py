"""Background jobs: the page shows their progress, the user may leave the page, and results are kept.

Each run of a page asks for a result by its key. The first one starts the job in a thread. While it runs, the page shows
a line that counts the seconds; when the result is there, the page runs again. All browsers share the results.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any, TypeVar

import streamlit as st

from app.common.autorefresh import autorefresh
from app.common.view import words
from engine.base import clock
from engine.base.errors import TidemarkError

T = TypeVar("T")
_PATIENCE_S = 0.3
"""A job that is done within this time shows no progress, so nothing flickers."""
_MOST = 60
_AGAIN = "(again)"


@dataclass
class _Job:
    future: "Future[Any]"
    started: float = field(default_factory=time.monotonic)
    """On the monotonic clock."""
    ended: datetime | None = None
    """In UTC."""

    def end(self, _: object) -> None:
        self.ended = clock.utc_now()


class _Jobs:
    """Jobs by key; the oldest are dropped when there are too many."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(8, thread_name_prefix="job")
        self._jobs: dict[str, _Job] = {}
        self._lock = Lock()

    def get(self, key: str) -> _Job | None:
        return self._jobs.get(key)

    def start(self, key: str, work: Callable[[], Any]) -> _Job:
        with self._lock:
            if key not in self._jobs:
                job = self._jobs[key] = _Job(self._pool.submit(work))
                job.future.add_done_callback(job.end)
                for old in [k for k, job in self._jobs.items() if job.future.done()][: len(self._jobs) - _MOST]:
                    del self._jobs[old]
            return self._jobs[key]

    def renew(self, key: str, work: Callable[[], Any]) -> None:
        """Run a job again. Its earlier result stays until the new one is there."""
        again = self.start(f"{key} {_AGAIN}", work)

        def replace(_: object) -> None:
            with self._lock:
                self._jobs.pop(f"{key} {_AGAIN}", None)
                if key in self._jobs:
                    self._jobs[key] = again

        again.future.add_done_callback(replace)

    def forget(self, key: str) -> None:
        with self._lock:
            self._jobs.pop(key, None)


@st.cache_resource
def _jobs() -> _Jobs:
    return _Jobs()


def result(key: str, label: str, work: Callable[[], T], note: str = "") -> T | None:
    """The result of a job; None while it runs, with its progress shown in this place.

    Raises the job's TidemarkError, or one that wraps any other exception.
    """
    job = _jobs().start(key, work)
    wait([job.future], _PATIENCE_S)
    if job.future.done():
        try:
            value: T = job.future.result()
        except TidemarkError:
            raise
        except Exception as error:
            raise TidemarkError(
                f"{label} failed: {type(error).__name__}: {error}",
                detail="Nothing was changed, here or on the source.",
                hint="Fix the cause and try again.",
            ) from error
        return value
    _progress(key, label, note)
    return None


def start(key: str, work: Callable[[], object]) -> None:
    """Start the job, unless it is running or done."""
    _jobs().start(key, work)


def renew(key: str, work: Callable[[], object]) -> None:
    """Run a job again, unless that is running. Its earlier result stays until the new one is there."""
    if not running(key) and not running(f"{key} {_AGAIN}"):
        _jobs().renew(key, work)


def exists(key: str) -> bool:
    """Whether there is such a job, running or done."""
    return _jobs().get(key) is not None


def ended(key: str) -> str:
    """When the job ended, as a time of day; `—` while it runs."""
    job = _jobs().get(key)
    return words.time_of_day(job.ended if job else None)


def ended_at(key: str) -> datetime | None:
    """When the job ended; None while it runs, or if there is none."""
    job = _jobs().get(key)
    return job.ended if job else None


def running(key: str) -> bool:
    """Whether such a job is running."""
    job = _jobs().get(key)
    return job is not None and not job.future.done()


def forget(*keys: str) -> None:
    """Drop jobs, so that the next request runs them again."""
    for key in keys:
        _jobs().forget(key)


@autorefresh(0.5)
def _progress(key: str, label: str, note: str) -> None:
    job = _jobs().get(key)
    if job is None or job.future.done():
        st.rerun()
    took = words.duration(round(time.monotonic() - job.started))
    st.status(f"{label} · {took}", state="running")
    st.caption(note or "It continues if you leave this page.")

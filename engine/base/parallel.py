"""Runs steps in threads that wait for a disk or a store nearly all the time."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

AT_ONCE = 32
"""Steps at once. `tests.tools.bench.epochs` measures what that saves behind a slow store."""
T = TypeVar("T")
R = TypeVar("R")


def map_parallel(function: Callable[[T], R], items: Iterable[T], at_once: int = AT_ONCE) -> list[R]:
    """The results of a function for each item, in order, from up to `at_once` threads.

    Raises the error of the first item that failed, once the others have ended.
    """
    item_list = list(items)
    if len(item_list) < 2 or at_once == 1:
        return [function(item) for item in item_list]
    with ThreadPoolExecutor(min(at_once, len(item_list)), thread_name_prefix="step") as pool:
        jobs = [pool.submit(function, item) for item in item_list]
    return [job.result() for job in jobs]


def run_parallel(steps: Iterable[Callable[[], object]], at_once: int = AT_ONCE) -> None:
    """Run steps that do not depend on each other, with `map_parallel`."""
    map_parallel(lambda step: step(), steps, at_once)

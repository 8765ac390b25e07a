"""Runs steps in threads that wait for a disk or a store nearly all the time."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

AT_ONCE = 32
"""Steps at once. `tests.tools.bench.epochs` measures what that saves behind a slow store."""


def run_parallel(steps: Iterable[Callable[[], object]], at_once: int = AT_ONCE) -> None:
    """Run steps that do not depend on each other, up to `at_once` at a time.

    Raises the error of the first step that failed, once those that have begun have ended.
    """
    step_list = list(steps)
    if len(step_list) < 2 or at_once == 1:
        for step in step_list:
            step()
        return
    with ThreadPoolExecutor(at_once, thread_name_prefix="step") as pool:
        jobs = [pool.submit(step) for step in step_list]
    for job in jobs:
        job.result()

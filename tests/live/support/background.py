"""Work in background threads; a failure there fails the test."""

import threading
from abc import ABC, abstractmethod
from typing import Self


class Background(ABC):
    """Threads that run `work` inside a `with` block, or until `stop`, which raises the first failure."""

    def __init__(self, threads: int = 1) -> None:
        self.stopping = threading.Event()
        self.failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(threads)]

    @abstractmethod
    def work(self, number: int) -> None:
        """What thread `number` does until `stopping` is set."""

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the threads and raise the first failure."""
        self.stopping.set()
        for thread in self._threads:
            thread.join()
        if self.failures:
            raise self.failures[0]

    def _run(self, number: int) -> None:
        try:
            self.work(number)
        except BaseException as error:  # noqa: BLE001 - raised again by `stop`
            self.failures.append(error)
